"""What agents need of the host that they run in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Iterable
from pathlib import Path
from typing import Any, Protocol

from enginehost.agents.contract import ModelService
from enginehost.caller import Caller
from enginehost.catalog import Catalog, Entry
from enginehost.engine import Call
from enginehost.narrowing import Narrowing
from enginehost.policy import Policy
from enginehost.settings import HostSettings
from enginehost.trace_context import NO_TRACE, TraceContext


class AgentHost(Protocol):
    """The part of :class:`~enginehost.host.Host` that agents use."""

    catalog: Catalog

    @property
    def policy(self) -> Policy:
        """Who may view and call what."""
        ...

    def functions(self, caller: Caller | None = None, tags: Iterable[str] = ()) -> list[Entry]:
        """The functions that a caller may view."""
        ...

    def new_call(self, name: str, caller: Caller | None = None, arrived: TraceContext = NO_TRACE) -> Call:
        """A call that is not made yet."""
        ...

    def call_json(self, call: Call, arguments: Any) -> Coroutine[Any, Any, bytes]:
        """Make it; the result as JSON."""
        ...

    def stream_json(self, call: Call, arguments: Any) -> AsyncGenerator[bytes, None]:
        """Make it; the items as JSON."""
        ...

    @property
    def narrowing(self) -> Narrowing:
        """What chooses among many functions."""
        ...

    def llm(self, name: str = "") -> ModelService:
        """The service of a model engine, by id, alias or display name."""
        ...


class FolderHost(AgentHost, Protocol):
    """A host with a folder and settings."""

    folder: Path | None
    settings: HostSettings
