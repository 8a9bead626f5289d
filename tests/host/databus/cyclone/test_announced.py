"""What others announce of themselves is read whole, by however many threads at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("cyclonedds")

from cyclonedds.qos import Policy

from enginehost.databus.cyclone.announced import read
from enginehost.databus.cyclone.matches import matched
from enginehost.databus.cyclone.qos import CALL_READER, CALL_WRITER
from enginehost.databus.types import FUNCTION_EXECUTION_REQUEST

SAYS, SAYS_NOTHING = "eh.0123456789abcdef", ""
LOOKS = 2000


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


async def test_two_threads_that_look_at_once_see_what_is_there(
    raw: Any, until: Any, eager_threads: None
) -> None:
    topic = raw.topic(FUNCTION_EXECUTION_REQUEST)
    reader = raw.reader(topic, CALL_READER)
    writers = [raw.writer(topic, CALL_WRITER, user_data=said) for said in (SAYS, SAYS_NOTHING)]
    await until(lambda: len(matched(reader.get_matched_publications)) == len(writers))

    def look(handle: int) -> set[str]:
        found: set[str] = set()
        for _ in range(LOOKS):
            endpoint: Any = read(reader.get_matched_publication_data, handle % 2**64)
            policies = endpoint.qos
            found.add(bytes(policies[Policy.Userdata].data).decode() if Policy.Userdata in policies else "")
        return found

    with ThreadPoolExecutor(2) as pool:
        seen = list(pool.map(look, matched(reader.get_matched_publications)))
    assert sorted(seen, key=str) == sorted(({SAYS}, {SAYS_NOTHING}), key=str)
