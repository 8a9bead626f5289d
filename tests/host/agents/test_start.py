"""``agents.start``: what a session is given stands in place of what its agent says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from enginehost.agents.skills import read_skills, with_skills
from enginehost.llm.message import Role


async def test_a_session_may_have_a_model_and_skills_of_its_own(world: Any, kit: Any, tmp_path: Path) -> None:
    for name in ("cooking", "baking"):
        folder = tmp_path / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\ndescription: About {name}.\n---\nText of {name}.\n")
    known = read_skills(tmp_path / "skills").skills
    await world.start(model="first", skills=("cooking",))
    first, second = type(world.model)(), type(world.model)()
    world.host.models_by_name = {"first": first, "second": second}
    first.answers = second.answers = lambda rows: kit.text("ok")

    def prepared(spec: Any) -> Any:
        return with_skills(spec, known)

    world.agents.prepare = prepared
    await world.said("of the agent")
    session, _ = await world.said("of the session", llm="second", skills=["baking"])
    later = await world.service(prepare=prepared)
    again = await later.start(session.id, owner=kit.ANN)
    await again.wait(await again.write("and again"))
    assert (len(first.asked), len(second.asked)) == (1, 2)
    for asked, skill in ((first.asked[0], "cooking"), *((rows, "baking") for rows in second.asked)):
        said = "".join(row.content for row in asked if row.role is Role.SYSTEM)
        assert f"About {skill}." in said
        assert said.count("About") == 1
