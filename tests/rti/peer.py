"""A program on RTI Connext 6.1: writes, reads and calls by type, as it is told line by line.

Runs in an environment of its own, which has RTI's connector (under a licence for non-commercial use) and
nothing of ours: ``peer.py CONFIGURATION.xml WRITERS READERS`` with names separated by commas. Orders and
events are JSON lines.
"""

from __future__ import annotations

import json
import queue
import statistics
import sys
import threading
import time
import warnings
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it imports pkg_resources
    import rticonnextdds_connector as rti

DISCOVERY_MS = 20_000
STEP_MS = 20
CALL_SECONDS = 10.0


class Peer:
    def __init__(self, configuration: str, writers: list[str], readers: list[str]) -> None:
        self.connector = rti.Connector("Participants::Peer", configuration)
        self.outputs = {name: self.connector.get_output(f"Publisher::{name}") for name in writers}
        self.inputs = {name: self.connector.get_input(f"Subscriber::{name}") for name in readers}

    def run(self, orders: queue.SimpleQueue[dict[str, Any] | None]) -> None:
        say("ready")
        while True:
            while not orders.empty():
                order = orders.get()
                if order is None:
                    return
                getattr(self, order.pop("order"))(**order)
            self.listen()

    def listen(self) -> None:
        """Tell everything that arrives within a moment."""
        for topic, state, values in self.taken():
            say("sample", topic=topic, state=state, values=values)

    def taken(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Topic, state of the instance and members (of one that went: its key) of what there is."""
        try:
            self.connector.wait(STEP_MS)
        except rti.TimeoutError:
            return []
        found: list[tuple[str, str, dict[str, Any]]] = []
        for topic, reader in self.inputs.items():
            reader.take()
            for sample in reader.samples:  # one object, which goes from sample to sample
                found.append((topic, sample.info["instance_state"], sample.get_dictionary()))  # noqa: PERF401
        return found

    def write(self, topic: str, values: dict[str, Any], action: str = "write") -> None:
        writer = self.outputs[topic]
        writer.instance.set_dictionary(values)
        writer.write() if action == "write" else writer.write(action=action)

    def call(self, function_id: str, parameters: list[str]) -> None:
        """Call with each of these, one after the other; the results, and what a call took."""
        requests, replies = self.outputs["FunctionExecutionRequest"], self.inputs["FunctionExecutionReply"]
        requests.wait_for_subscriptions(DISCOVERY_MS)
        replies.wait_for_publications(DISCOVERY_MS)
        answers: list[Any] = []
        seconds: list[float] = []
        for number, text in enumerate(parameters):
            started = time.perf_counter()
            answers.append(self.answer(requests, f"rti-{number}", function_id, text))
            seconds.append(time.perf_counter() - started)
        say("called", answers=answers, median_us=round(statistics.median(seconds) * 1e6))

    def answer(self, requests: Any, request_id: str, function_id: str, parameters: str) -> Any:
        requests.instance.set_dictionary(
            {
                "request_id": request_id,
                "function_id": function_id,
                "parameters": parameters,
                "timestamp": int(time.time() * 1000),
                "metadata": "",
            }
        )
        requests.write()
        until = time.monotonic() + CALL_SECONDS
        while time.monotonic() < until:
            for topic, state, values in self.taken():
                if topic == "FunctionExecutionReply" and state == "ALIVE":
                    if values["request_id"] == request_id:
                        return values
                else:
                    say("sample", topic=topic, state=state, values=values)
        return None


def say(event: str, **about: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **about}) + "\n")
    sys.stdout.flush()


def hear(orders: queue.SimpleQueue[dict[str, Any] | None]) -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    orders.put(None)


def main() -> None:
    configuration, writers, readers = sys.argv[1:]
    peer = Peer(configuration, [w for w in writers.split(",") if w], [r for r in readers.split(",") if r])
    orders: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=hear, args=(orders,), daemon=True).start()
    try:
        peer.run(orders)
    finally:
        peer.connector.close()


if __name__ == "__main__":
    main()
