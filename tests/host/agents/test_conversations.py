"""A conversation by its id is one agent's."""

from __future__ import annotations

from typing import Any

import pytest

from enginehost.agents.asking import ask, ask_stream
from enginehost.agents.contract import AgentSpec
from enginehost.errors import InvalidRequest

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


async def test_another_agent_does_not_go_on_with_it(world: Any, kit: Any) -> None:
    specs = tuple(AgentSpec(name, instructions=name) for name in ("rain", "sums"))
    await world.start(specs=specs)
    world.model.answers = lambda rows: kit.text(f"{rows[0].content} heard {rows[-1].content}")
    assert await ask(world.agents, "rain", "a secret", "mine", kit.ANN) == "rain heard a secret"
    with pytest.raises(InvalidRequest, match="is rain's") as caught:
        await ask(world.agents, "sums", "and?", "mine", kit.ANN)
    assert caught.value.detail["reason"] == "taken"
    assert "another id" in caught.value.detail["hint"]
    with pytest.raises(InvalidRequest, match="is rain's"):
        await anext(ask_stream(world.agents, "sums", "and?", "mine", kit.ANN))
    assert len(world.model.asked) == 1
    assert await ask(world.agents, "rain", "more", "mine", kit.ANN) == "rain heard more"
    opened = await world.agents.start("mine", agent="sums", owner=kit.ANN)
    assert opened.spec.name == "sums"
