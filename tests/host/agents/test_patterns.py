"""A regular expression of a file holds up no host, whatever a caller or a model says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from enginehost.agents.harnesses import PatternExtraction
from enginehost.agents.stages import redact
from enginehost.errors import ExecutionFailed, InvalidRequest
from enginehost.host import Host
from enginehost.llm.message import Message, Role, Status
from enginehost.settings import HostSettings
from enginehost.store.port import RunState

EXPLODES = r"(\w|\w\w)*[^\w!]"
TEXT = "a" * 60 + "!"


async def test_a_pattern_that_explodes_fails_the_turn_and_holds_no_host(world: Any, kit: Any) -> None:
    await world.start(stages=(redact([r"\d{4}-\d{4}", EXPLODES]),))
    world.model.answers = [kit.text(*TEXT)]
    gaps = [0.0]

    async def beat() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - before)

    beating = asyncio.create_task(beat())
    _, run = await world.said()
    beating.cancel()
    assert run.state is RunState.FAILED
    assert "a pattern of the stage redact takes too long" in run.error["message"]
    assert max(gaps) < 0.8


async def test_facts_are_looked_for_with_a_bound_too() -> None:
    harness = PatternExtraction({"order": r"order (\d+)", "worst": EXPLODES})
    with pytest.raises(ExecutionFailed, match="the pattern of worst takes too long"):
        await harness.facts(TEXT)
    assert await PatternExtraction({"order": r"order (\d+)"}).facts("order 7, order 8") == {"order": "8"}


async def test_each_pattern_counts_its_own_groups_and_a_long_text_is_looked_through_in_parts() -> None:
    stage = redact([r"(x)y|z", r"(\w)\1\1"], instead="#")
    text = "xy abbbc " + "-" * 10_000 + "z"

    async def source() -> AsyncIterator[Message]:
        yield Message(Role.ASSISTANT, content=text, id="1", status=Status.DONE)

    turn: Any = None
    (message,) = [one async for one in stage(source(), turn)]
    assert message.content == "# a#c " + "-" * 10_000 + "#"


async def test_a_scripted_models_patterns_have_a_bound(tmp_path: Path) -> None:
    (tmp_path / "actor.smss").write_text("ENGINE_CLASS = Scripted\nSCRIPT = actor.yaml\n")
    (tmp_path / "actor.yaml").write_text(f"answers:\n  - when: {{matches: '{EXPLODES}'}}\n    say: Yes.\n")
    settings = HostSettings(state_dir=tmp_path / "state")
    async with Host(tmp_path, None, settings=settings, watch=False) as host:
        with pytest.raises(InvalidRequest, match="of the script takes too long"):
            await host.llm("actor").send(TEXT)
