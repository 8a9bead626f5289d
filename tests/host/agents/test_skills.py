"""AGENT.md and skills: what is read of them, and that reading them permits nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.agents.agent_file import read_agent_file
from enginehost.agents.contract import AgentSpec, ToolSelection
from enginehost.agents.front_matter import parse_markdown
from enginehost.agents.skills import catalogue, read_skills, skill_text, with_skills
from enginehost.errors import ConfigError
from enginehost.llm.message import Role, Type
from enginehost.store.port import RunState


def skill(folder: Path, name: str, text: str) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(text, encoding="utf-8")
    return folder / name


COOKING = "---\nname: cooking\ndescription: How to cook.\nallowed-tools: delete_all\n---\nStir *well*.\n"


def test_skills_are_listed_and_read_when_they_are_asked_for(tmp_path: Path) -> None:
    folder = skill(tmp_path, "cooking", COOKING)
    (folder / "references").mkdir()
    (folder / "references" / "salt.md").write_text("secret text")
    (folder / ".hidden").write_text("")
    found = read_skills(tmp_path)
    assert found.faults == []
    one = found.skills["cooking"]
    assert catalogue([one]).endswith("- cooking: How to cook.")
    text = skill_text(one)
    assert text.startswith('<skill name="cooking">\nStir *well*.')
    assert "- references/salt.md" in text
    assert "secret text" not in text
    assert ".hidden" not in text


@pytest.mark.parametrize(
    ("name", "text", "line", "told"),
    [
        ("cooking", "---\nname: Cooking!\ndescription: x\n---\nbody", 2, "is no name of a skill"),
        ("cooking", "---\nname: baking\ndescription: x\n---\nbody", 2, "lies in a folder named cooking"),
        ("cooking", "---\nname: cooking\n---\nbody", 1, "description is missing"),
        ("cooking", f"---\nname: cooking\ndescription: {'x' * 1025}\n---\nbody", 3, "1025 characters"),
        ("cooking", "---\nname: cooking\ndescription: [a\n---\nbody", 3, ""),
        ("cooking", "---\nname: cooking\nname: cooking\n---\nbody", 3, ""),
        ("cooking", "---\nname: cooking\n", 1, "no end"),
        ("cooking", "---\n- a\n---\nbody", 2, "has to hold keys"),
        ("a--b", "---\ndescription: x\n---\nbody", 1, "is no name of a skill"),
    ],
)
def test_a_fault_is_told_with_its_line_and_hinders_no_other(
    tmp_path: Path, name: str, text: str, line: int, told: str
) -> None:
    skill(tmp_path, name, text)
    skill(tmp_path, "fine", "---\ndescription: ok\n---\nbody")
    found = read_skills(tmp_path)
    assert list(found.skills) == ["fine"]
    (fault,) = found.faults
    assert told in fault.message
    assert (Path(fault.path).name, fault.line) == ("SKILL.md", line)


@given(st.text(max_size=200), st.booleans())
@settings(max_examples=100, deadline=None)
def test_any_text_is_read_or_refused_with_a_place(text: str, fenced: bool) -> None:
    whole = f"---\n{text}\n---\nbody" if fenced else text
    try:
        body, path = parse_markdown(whole, Path("SKILL.md")).body, "SKILL.md"
    except ConfigError as error:
        body, path = "", error.path
    assert path == "SKILL.md"
    assert body in whole.replace("\r\n", "\n")


def test_without_skills_there_is_no_tool_and_no_text() -> None:
    spec = AgentSpec("a", instructions="hi", skills=("gone",))
    assert with_skills(spec, {}) is spec


def test_agent_md_goes_before_agents_md(tmp_path: Path) -> None:
    assert read_agent_file(tmp_path) is None
    (tmp_path / "AGENTS.md").write_text("---\nname: two\n---\nB")
    assert read_agent_file(tmp_path).name == "two"  # type: ignore[union-attr]
    (tmp_path / "AGENT.md").write_text("---\nname: one\nversion: 1.2\ndescription: An agent\n---\nA\n\nB")
    told = read_agent_file(tmp_path)
    assert told is not None
    assert (told.name, told.version, told.description) == ("one", "1.2", "An agent")
    assert (told.instructions, told.shadowed) == ("A\n\nB", "AGENTS.md")


@pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
async def test_reading_a_skill_offers_and_permits_no_tool(world: Any, kit: Any, tmp_path: Path) -> None:
    ran: list[int] = []

    async def delete_all(parameters: dict[str, Any], call: Any) -> int:
        ran.append(1)
        return 1

    skill(tmp_path / "skills", "cooking", COOKING)
    known = read_skills(tmp_path / "skills").skills
    await world.start(kit.function(delete_all), tools=ToolSelection(), skills=("cooking",))
    world.agents.prepare = lambda spec: with_skills(spec, known)
    world.model.answers = [
        [kit.call("skill", name="cooking"), kit.call("skill", name="baking")],
        [kit.call("delete_all", n=1)],
        kit.text("done"),
    ]
    session, run = await world.said()
    assert run.state is RunState.DONE
    assert ran == []
    first = world.model.asked[0][0]
    assert first.role is Role.SYSTEM
    assert "cooking: How to cook." in first.content
    assert "Stir" not in first.content
    assert [tool.name for tool in world.model.options[1]["tools"]] == ["skill"]
    parameters = world.model.options[0]["tools"][0].parameters
    assert parameters["properties"]["name"]["enum"] == ["cooking"]
    results = await kit.rows_of(session, Type.TOOL_RESULT)
    codes = [bool((row.query or {}).get("error")) for row in results]
    assert sorted(codes) == [False, True, True]
    assert any("Stir *well*" in row.content for row in results)
