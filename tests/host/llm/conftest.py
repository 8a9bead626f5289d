"""A model without a wire: what the service does is tested apart from any provider."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import Field

from enginehost.host import Host
from enginehost.llm.config import ModelConfig
from enginehost.llm.message import Message, Role, Status, Type, Usage, new_id
from enginehost.llm.model import AbstractModelEngine, ModelRequest, Rows
from enginehost.testing import engine_registry, running_host


class PuppetConfig(ModelConfig):
    """The file of a puppet."""

    model: str = Field(default="puppet-1", description="Its model.")


class PuppetEngine(AbstractModelEngine):
    """Does what the test says: ``play`` gets the rows, the request and the engine."""

    config_model: ClassVar[Any] = PuppetConfig
    play: ClassVar[Callable[..., AsyncGenerator[Message, None]]]
    ids: ClassVar[Sequence[str]] = ()
    closed: ClassVar[list[str]] = []

    async def models(self) -> Sequence[str]:
        return type(self).ids

    async def close(self) -> None:
        type(self).closed.append(self.context.engine_id)

    def stream(self, rows: Rows, request: ModelRequest) -> AsyncGenerator[Message, None]:
        return type(self).play(rows, request, self)


def says(*texts: str, usage: Usage | None = None) -> list[Message]:
    """A text in pieces."""
    id_ = new_id()
    pieces = [Message(Role.ASSISTANT, content=text, status=Status.OPEN, id=id_) for text in texts]
    return [*pieces, Message(Role.ASSISTANT, id=id_, usage=usage or Usage(input=10, output=5))]


async def echo(rows: Rows, request: ModelRequest, engine: Any) -> AsyncGenerator[Message, None]:
    """Says what it was sent."""
    for message in says(*[row.content async for row in rows() if row.type is not Type.IMAGE]):
        yield message


class Stage:
    """What a test has of the puppets: ``play``, and hosts with files of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.engine = type("Puppet", (PuppetEngine,), {"play": staticmethod(echo), "closed": []})

    def play(self, puppet: Callable[..., AsyncGenerator[Message, None]]) -> None:
        self.engine.play = staticmethod(puppet)

    def write(self, name: str, **keys: Any) -> None:
        lines = {"ENGINE_CLASS": "Puppet", "RETRY_SECONDS": 0.001} | keys
        text = "\n".join(f"{key} = {value}" for key, value in lines.items())
        (self.folder / f"{name}.smss").write_text(text, encoding="utf-8")

    @asynccontextmanager
    async def host(self, **keys: Any) -> AsyncGenerator[Host, None]:
        self.write("puppet", **keys)
        registry = engine_registry(self.engine, "ENGINE_CLASS = Puppet")
        async with running_host(self.folder, registry=registry) as host:
            assert not host.problems()
            yield host


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """The puppets' stage."""
    folder = tmp_path / "smss"
    folder.mkdir()
    return Stage(folder)
