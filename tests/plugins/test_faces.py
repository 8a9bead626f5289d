"""Faces that plugins add live as long as the host, and signature mappers make kinds of tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from enginehost.contributions import Implementation
from enginehost.entrypoints import PluginProblem
from enginehost.faces import Faces
from enginehost.testing import running_host


class Recorded:
    """A face that writes down what happens to it."""

    def __init__(self, events: list[str], name: str, fail: str = "") -> None:
        self.events, self.name, self.fail = events, name, fail

    async def start(self) -> None:
        self.events.append(f"start {self.name}")
        if self.fail == "start":
            raise OSError(98, "Address already in use")

    async def stop(self) -> None:
        self.events.append(f"stop {self.name}")
        if self.fail == "stop":
            raise SystemExit


async def test_faces_stop_in_reverse_order_and_one_that_fails_is_left_out() -> None:
    events: list[str] = []
    problems: list[PluginProblem] = []
    made = [("a", ""), ("b", "start"), ("c", "stop"), ("d", "")]
    factories = {
        name: Implementation(
            f"plugin-{name}",
            "register_faces",
            lambda host, name=name, fail=fail: Recorded(events, name, fail),
        )
        for name, fail in made
    }
    faces = Faces(factories, problems.append, timeout=5)
    await faces.start(None)  # type: ignore[arg-type]
    await faces.stop()
    await faces.stop()
    assert events == ["start a", "start b", "start c", "start d", "stop d", "stop c", "stop a"]
    (problem,) = problems
    assert problem.distribution == "plugin-b"
    assert "Address already in use" in problem.message


async def test_a_face_that_hangs_is_left_out_in_time() -> None:
    class Hangs:
        async def start(self) -> None:
            import asyncio

            await asyncio.sleep(60)

    problems: list[PluginProblem] = []
    faces = Faces(
        {"h": Implementation("p", "register_faces", lambda _: Hangs())}, problems.append, timeout=0.05
    )
    await faces.start(None)  # type: ignore[arg-type]
    assert ["TimeoutError" in problem.message for problem in problems] == [True]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "smss"
    made.mkdir()
    return made


async def test_a_plugin_s_face_gets_the_host(site: Any, folder: Path) -> None:
    source = """
        seen = []
        class Mine:
            def __init__(self, host):
                self.host = host
            async def start(self):
                seen.append(("start", self.host))
            async def stop(self):
                seen.append(("stop", self.host))
        @hookimpl
        def register_faces(register):
            register("mine", Mine)
    """
    site.add_hooks("acme", "acme_face", source)
    async with running_host(folder, registry=site.registry()) as host:
        pass
    import acme_face  # pyright: ignore[reportMissingImports]

    assert acme_face.seen == [("start", host), ("stop", host)]


async def test_a_plugin_s_mapper_makes_a_kind_of_tools(site: Any, folder: Path) -> None:
    source = """
        @hookimpl
        def register_signature_mappers(register):
            register("acme", lambda signature, name: {"tool": name, "about": signature.description})
    """
    site.add_hooks("acme", "acme_mapper", source)
    engine = "from enginehost.engine import AbstractFunctionEngine as Engine\n"
    site.add_engine("acme-engines", "Acme", "acme_engines", engine)
    text = "ENGINE_CLASS = Acme\nFUNCTION_NAME = über\nFUNCTION_DESCRIPTION = Over\n"
    (folder / "a.smss").write_text(text)
    async with running_host(folder, registry=site.registry()) as host:
        (tool,) = host.tools("acme")
        assert host.resolve(tool["tool"], "acme") == "über"
        assert tool["about"] == "Over"
        assert tool["tool"].isascii()
