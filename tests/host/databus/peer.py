"""A program that knows nothing of the host but the types: raw cyclonedds, on loopback
or ``--interface NAME``.

``peer.py DOMAIN`` prints one JSON object per line for everything it sees (``providers``,
``capability``, ``gone``, ``reply``) and takes calls as JSON lines: ``{"function_id", "parameters",
"request_id", "metadata", "times"}``. It reads and writes XCDR1, unless ``--default-representation`` is
said. It ends when its input closes. Two ways to be a
nuisance: with ``--never-take`` its readers hold one sample and are not read until it is told
``{"recover": true}``; with ``--no-reader`` it has no reader of replies, and a writer for each request.
"""

import json
import sys
import threading
import time
from dataclasses import asdict, dataclass

from cyclonedds.core import InstanceState, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import appendable
from cyclonedds.idl.types import bounded_str, int32, int64
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration
from wire_types import LOOPBACK, FunctionCapability

ON_A_NETWORK = """<CycloneDDS><Domain Id="any"><General>
 <Interfaces><NetworkInterface name="{}"/></Interfaces></General></Domain></CycloneDDS>"""


@dataclass
@appendable
class FunctionExecutionRequest(IdlStruct, typename="FunctionExecutionRequest"):
    request_id: bounded_str[128] = ""
    function_id: bounded_str[128] = ""
    parameters: bounded_str[8192] = ""
    timestamp: int64 = 0
    metadata: bounded_str[2048] = ""


@dataclass
@appendable
class FunctionExecutionReply(IdlStruct, typename="FunctionExecutionReply"):
    request_id: bounded_str[128] = ""
    function_id: bounded_str[128] = ""
    result: bounded_str[8192] = ""
    status: int32 = 0
    error_message: bounded_str[2048] = ""
    timestamp: int64 = 0
    metadata: bounded_str[2048] = ""


XCDR1 = Policy.DataRepresentation(use_cdrv0_representation=True)
INTERFACE = sys.argv[sys.argv.index("--interface") + 1] if "--interface" in sys.argv else ""
NEVER_TAKE = "--never-take" in sys.argv
NO_READER = "--no-reader" in sys.argv
REPRESENTATION = () if "--default-representation" in sys.argv else (XCDR1,)
RELIABLE = Policy.Reliability.Reliable(duration(seconds=10))
DISCOVERY = Qos(  # what a reader of Genesis asks for
    RELIABLE,
    Policy.Durability.TransientLocal,
    Policy.History.KeepLast(500),
    Policy.Liveliness.Automatic(duration(seconds=2)),
    *REPRESENTATION,
)
CALLS = Qos(RELIABLE, Policy.Durability.Volatile, Policy.History.KeepAll, *REPRESENTATION)
ROOM_FOR_ONE = Policy.ResourceLimits(max_samples=1)
ANY = SampleState.Any | ViewState.Any | InstanceState.Any


def say(**event):
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def call(new_writer, order):
    times = order.pop("times", 1)
    writer = new_writer()
    for number in range(times):
        if NO_READER and number:
            writer = new_writer()
        number_id = f"{order['request_id']}-{number}" if times > 1 else order["request_id"]
        writer.write(FunctionExecutionRequest(**order | {"request_id": number_id}, timestamp=1))


def take(capabilities, replies, values):
    for sample in capabilities.take(500):
        if hasattr(sample, "key_sample"):
            disposed = sample.sample_info.instance_state == InstanceState.NotAliveDisposed
            say(event="gone", function_id=sample.key_sample.function_id, disposed=disposed)
        else:
            say(event="capability", **asdict(sample))
    for sample in replies.take(500, condition=values):
        say(event="reply", **asdict(sample))


def main(domain):
    settings = Domain(domain, ON_A_NETWORK.format(INTERFACE) if INTERFACE else LOOPBACK)
    participant = DomainParticipant(domain)

    def topic(kind):
        return Topic(participant, kind.__name__, kind)

    if NEVER_TAKE:
        stuck = Qos(RELIABLE, Policy.History.KeepAll, ROOM_FOR_ONE, XCDR1)
        offers = Qos(Policy.Durability.TransientLocal, base=stuck)
        readers = (
            DataReader(participant, topic(FunctionCapability), offers),
            DataReader(participant, topic(FunctionExecutionReply), stuck),
        )
    elif not NO_READER:
        capabilities = DataReader(participant, topic(FunctionCapability), DISCOVERY)
        replies = DataReader(participant, topic(FunctionExecutionReply), CALLS)
    request = topic(FunctionExecutionRequest)
    requests = DataWriter(participant, request, CALLS)
    more = []

    def new_writer():
        if not NO_READER:
            return requests
        more.append(DataWriter(participant, request, CALLS))
        while not more[-1].get_matched_subscriptions():
            time.sleep(0.002)
        return more[-1]

    waitset = WaitSet(participant)
    if not (NEVER_TAKE or NO_READER):
        # a keyless reader must leave out what comes without data: the library cannot read its "key"
        values = ReadCondition(replies, SampleState.Any | ViewState.Any | InstanceState.Alive)
        waitset.attach(ReadCondition(capabilities, ANY))
        waitset.attach(values)
    over, recovered = threading.Event(), threading.Event()

    def listen():
        for line in sys.stdin:
            order = json.loads(line)
            if "recover" in order:
                recovered.set()
            else:
                call(new_writer, order)
        over.set()

    threading.Thread(target=listen, daemon=True).start()
    matched = -1
    while not over.is_set():
        waitset.wait(duration(milliseconds=1 if recovered.is_set() else 20))
        if not (NEVER_TAKE or NO_READER):
            take(capabilities, replies, values)
        if recovered.is_set():
            for reader in readers:
                reader.take(1)
        if matched != (matched := len(requests.get_matched_subscriptions())):
            say(event="providers", count=matched)
    del settings


if __name__ == "__main__":
    main(int(sys.argv[1]))
