"""A program with a transport of its own: ``member.py echo|ask|offer|watch DOMAIN [LEASE]``.

It ends with its input. ``echo`` answers requests with what they say, and offers a function whose
classification names its partition. ``ask`` calls the first one that it sees, once more for each line that it
reads, and says ``answered``. ``offer`` offers three functions and answers nothing. ``watch`` waits until it
sees those. Each says when it is ready; ``watch`` also when it has lost sight of all three, and when it sees
them again.
"""

import asyncio
import secrets
import sys

from enginehost.databus.config import DatabusConfig
from enginehost.databus.cyclone import CycloneTransport
from enginehost.databus.metadata import partition_of
from enginehost.databus.port import Capability, ExecutionReply, ExecutionRequest


def capability(function_id, **more):
    members = dict.fromkeys(Capability.__dataclass_fields__, "")
    return Capability(**members | {"function_id": function_id, "last_seen": 1} | more)


def reply_to(request):
    return ExecutionReply(request.request_id, request.function_id, request.parameters, 0, "", 1, b"{}")


async def echo(transport):
    own = partition_of(secrets.token_hex(16))

    async def answer(batch):
        for request in batch:
            await transport.reply(reply_to(request), request.source, request.metadata.decode())

    await transport.serve(answer, own, lambda participant: None)
    await transport.publish([capability("echo", classification=own)])


async def offer(transport):
    await transport.publish([capability(f"f{number}", description="x" * 1000) for number in range(3)])


async def ask(transport):
    own = partition_of(secrets.token_hex(16))
    loop = asyncio.get_running_loop()
    found, answered = loop.create_future(), asyncio.Event()

    class Watcher:
        def seen(self, sightings):
            if not found.done():
                found.set_result(sightings[0])

        def anew(self):
            pass

    await transport.listen(lambda batch: answered.set(), own, lambda _: None)
    await transport.watch(Watcher())
    sighting = await found
    partition = sighting.capability.classification
    assert await transport.reach(partition, sighting.participant, 10)

    async def call():
        answered.clear()
        await transport.send(ExecutionRequest("r", "f", b"{}", 1, own.encode()), partition)
        await answered.wait()

    await call()
    say("ready")
    while await asyncio.to_thread(sys.stdin.readline):
        await call()
        say("answered")


async def watch(transport):
    ready, there = asyncio.Event(), set()

    class Watcher:
        def seen(self, sightings):
            for sighting in sightings:
                (there.discard if sighting.capability is None else there.add)(sighting.function_id)
            if not there:
                say("blind")
            elif len(there) == 3:
                say("again") if ready.is_set() else ready.set()

        def anew(self):
            there.clear()

    await transport.watch(Watcher())
    await ready.wait()


def say(what):
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def main(role, domain, lease="10"):
    transport = CycloneTransport(DatabusConfig(domain=int(domain), lease=float(lease)))
    await {"echo": echo, "ask": ask, "offer": offer, "watch": watch}[role](transport)
    if role != "ask":
        say("ready")
        await asyncio.to_thread(sys.stdin.read)
    await transport.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
