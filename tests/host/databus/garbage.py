"""A peer that advertises and asks garbage: ``garbage.py DOMAIN``. It says ``ready`` and ends with its input.

Other types stand under the topics' names; capabilities have bad schemas, wrong ids, names too long; requests
and replies have nonsense in every member.
"""

import json
import sys
from dataclasses import dataclass

from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import appendable, key
from cyclonedds.idl.types import int32, int64, sequence
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.topic import Topic
from cyclonedds.util import duration
from wire_types import LOOPBACK, FunctionCapability


@dataclass
@appendable
class Unbounded(IdlStruct, typename="FunctionCapability"):
    """The same without bounds."""

    function_id: str = ""
    key("function_id")
    name: str = ""
    description: str = ""
    provider_id: str = ""
    parameter_schema: str = ""
    capabilities: str = ""
    performance_metrics: str = ""
    security_requirements: str = ""
    classification: str = ""
    last_seen: int64 = 0
    service_name: str = ""


@dataclass
@appendable
class Numbers(IdlStruct, typename="FunctionCapability"):
    """Another type of the same name."""

    a: int32 = 0
    b: sequence[int64] = ()


@dataclass
@appendable
class Stranger(IdlStruct, typename="Stranger"):
    """Another type of another name."""

    text: str = ""


@dataclass
@appendable
class FunctionExecutionRequest(IdlStruct, typename="FunctionExecutionRequest"):
    request_id: str = ""
    function_id: str = ""
    parameters: str = ""
    timestamp: int64 = 0
    metadata: str = ""


@dataclass
@appendable
class FunctionExecutionReply(IdlStruct, typename="FunctionExecutionReply"):
    request_id: str = ""
    function_id: str = ""
    result: str = ""
    status: int32 = 0
    error_message: str = ""
    timestamp: int64 = 0
    metadata: str = ""


def offers():
    good = {
        "function_id": "g-0",
        "name": "f",
        "provider_id": "p",
        "parameter_schema": "{}",
        "service_name": "garbage",
        "classification": json.dumps({"incarnation": "0" * 32}),
    }
    wrong = (
        {"parameter_schema": "{"},
        {"parameter_schema": "[" * 5000},
        {"parameter_schema": '{"type": "object", "properties": {"a": {"type": 7}}}'},
        {"name": ""},
        {"name": "red\x1b[31m"},
        {"provider_id": ""},
        {"provider_id": "not a uuid"},
        {"service_name": "s\n"},
        {"capabilities": "nonsense", "classification": "nonsense"},
        {"classification": json.dumps({"incarnation": "*", "annotations": 7, "schema": {}})},
        {"classification": "[" * 2000},
        {"last_seen": -(2**63)},
    )
    return [
        FunctionCapability(**{**good, "function_id": f"g-{number}", **one})
        for number, one in enumerate(wrong)
    ]


def main(domain):
    kept = [Domain(domain, LOOPBACK)]
    bus = DomainParticipant(domain)
    reliable = Policy.Reliability.Reliable(duration(seconds=1))
    plain = Policy.DataRepresentation(use_cdrv0_representation=True)
    durable = Qos(reliable, Policy.Durability.TransientLocal, Policy.History.KeepLast(1),
                  Policy.Liveliness.Automatic(duration(seconds=2)), plain)  # fmt: skip
    calls = Qos(reliable, Policy.History.KeepAll, plain)

    def write(topic, kind, qos, samples):
        one = DataWriter(bus, Topic(bus, topic, kind), qos)
        kept.append(one)
        for sample in samples:
            one.write(sample)

    write("FunctionCapability", FunctionCapability, durable, offers())
    nonsense = (
        "",
        "{",
        "[]",
        '{"timeout": {}, "from": 7, "control": [], "reply_partition": "*"}',
        "x" * 100_000,
    )
    requests = [
        FunctionExecutionRequest(f"{said[:9]}\n", target, said, -1, said)
        for said in nonsense
        for target in ("", "?", "g-0", "0" * 5000)
    ]
    long = Unbounded("u", "n" * 100_000, provider_id="p", parameter_schema="{" * 100_000)
    kept.append(DataWriter(bus, Topic(bus, "FunctionCapability", Unbounded), durable))
    kept[-1].write(long)
    write("FunctionExecutionRequest", FunctionExecutionRequest, calls, requests)
    replies = [FunctionExecutionReply("r", "f", said, -7, said, -1, said) for said in nonsense]
    write("FunctionExecutionReply", FunctionExecutionReply, calls, replies)
    other = DomainParticipant(domain)
    for topic, kind in (("FunctionCapability", Numbers), ("FunctionExecutionRequest", Stranger)):
        kept.append(DataWriter(other, Topic(other, topic, kind), durable if kind is Numbers else calls))
        kept[-1].write(kind())
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]))
