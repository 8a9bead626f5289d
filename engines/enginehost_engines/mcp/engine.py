"""The engine whose functions are the tools of an MCP server."""

from __future__ import annotations

import asyncio
import importlib.util
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from enginehost.engine import AbstractFunctionEngine, Call, EngineContext, Function, RunMode
from enginehost.errors import ConfigError, EngineUnavailable, InvalidArguments, OutcomeUnknown
from enginehost.signature import without_parameters
from enginehost.values import NotJson, to_json
from enginehost_engines.mcp.config import McpConfig
from enginehost_engines.mcp.connection import Connection
from enginehost_engines.mcp.tools import Offer, Selection, offers

if TYPE_CHECKING:
    from enginehost_engines.mcp.session import Session

_TOLD_REMARKS = 20
_TAG = re.compile(r"""[^,\[\]"'\s](?:[^,\[\]"']*[^,\[\]"'\s])?""")
_OF_ONE_FUNCTION = (
    "FUNCTION_NAME",
    "FUNCTION_DESCRIPTION",
    "FUNCTION_PARAMETERS",
    "FUNCTION_REQUIRED_PARAMETERS",
    "FUNCTION_RESULT",
    "FUNCTION_ANNOTATIONS",
)
"""Keys of files that declare a function themselves."""


class McpEngine(AbstractFunctionEngine):
    """One server: a command that speaks MCP on its standard streams, or an address.

    Its tools are the functions, followed when they change. While the server is lost they are withdrawn, and
    it is tried again until it is back.
    """

    config_model = McpConfig
    config: McpConfig
    requires_signature: ClassVar[bool] = False

    def __init__(self, context: EngineContext, config: McpConfig) -> None:
        super().__init__(context, config)
        _require_sdk()
        _warn_of_idle_keys(context)
        for secret in config.secrets():
            context.conceal(secret)
        tags = tuple(dict.fromkeys(_TAG.findall(context.properties.get("FUNCTION_TAGS", ""))))
        include, exclude = tuple(config.mcp_include), tuple(config.mcp_exclude)
        self._selection = Selection(config.mcp_prefix, include, exclude, tags)
        self._functions: tuple[Function, ...] = ()
        self._offers: list[Offer] = []
        self._remarks: list[str] = []
        self._serves = False
        self._connection = Connection(
            config,
            _folder(context, config),
            context.log,
            private_networks=context.access.private_networks,
            up=self._up,
            down=self._down,
        )

    async def open(self) -> None:
        """Connect, and learn which tools there are. Raises ``EngineUnavailable``."""
        await self._connection.open()
        self._serves = True

    async def close(self) -> None:
        """Leave the server; one that was started here is ended."""
        self._serves = False
        await self._connection.close()

    def functions(self) -> Iterable[Function]:
        """A function for each tool that is offered."""
        return self._functions

    def execute(self, parameters: dict[str, Any]) -> Any:
        """Not the way in: :meth:`functions` has it."""
        raise NotImplementedError("call one of the functions that functions() gives")

    async def _up(self, session: Session) -> None:
        # compiling the schemas of some thousand tools takes a while
        found, remarks = await asyncio.to_thread(offers, session.tools, self._selection)
        self._tell([*session.misfits, *remarks])
        if found != self._offers:
            self._offers = found
            self._functions = tuple(map(self._function, found))
        if self._serves:
            self.context.changed()

    def _down(self, reason: str) -> None:
        if self._serves:
            self.context.failed(reason)

    def _tell(self, remarks: list[str]) -> None:
        """Say what is left out, once."""
        if remarks == self._remarks:
            return
        self._remarks = remarks
        for remark in remarks[:_TOLD_REMARKS]:
            self.context.log.warning("of the MCP server: %s", remark)
        if len(remarks) > _TOLD_REMARKS:
            self.context.log.warning("and %d remarks more", len(remarks) - _TOLD_REMARKS)

    def _function(self, offer: Offer) -> Function:
        tool, has_schema = offer.tool, offer.signature.result is not None

        async def run(parameters: dict[str, Any], call: Call) -> Any:
            return await self._call(tool, parameters, call, has_schema=has_schema)

        bind = {n: value for n, value in self.context.bind.items() if n in offer.signature.properties}
        signature = offer.signature
        if bind:
            signature = replace(signature, parameters=without_parameters(signature.parameters, bind))
        return Function(
            signature=signature,
            run=run,
            mode=RunMode.ASYNC,
            limits=self.context.limits,
            bind=bind,
            approval=self.context.approval,
            coerce_text=self.context.coerce_text,
        )

    async def _call(self, tool: str, parameters: dict[str, Any], call: Call, *, has_schema: bool) -> Any:
        session = self._connection.session
        if session is None:
            reason = self._connection.reason
            text = f"{call.function} cannot be called, its server is lost: {reason}"
            raise EngineUnavailable(text, state="failed", reason=reason)
        # a task of its own: to tell the server that nobody waits any more must hold up nobody
        work = session.call(tool, _plain(parameters, call), call, has_schema=has_schema)
        task = asyncio.create_task(work, name="enginehost-mcp-call")
        session.called.add(task)
        task.add_done_callback(session.called.discard)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            session.abandon(task)
            if call.remaining == 0.0:
                session.doubt()
            raise
        if task.cancelled():
            text = f"{call.function} may or may not have run: the server was lost before it answered"
            raise OutcomeUnknown(text)
        return task.result()


def _plain(parameters: dict[str, Any], call: Call) -> Any:
    try:
        return to_json(parameters)
    except NotJson as error:
        found = {"pointer": error.pointer, "message": error.message}
        raise InvalidArguments(f"{call.function}: {error.message}", errors=[found]) from error


def _folder(context: EngineContext, config: McpConfig) -> Path:
    folder = (context.folder / config.mcp_folder).absolute()
    if config.mcp_folder and not folder.is_dir():
        raise ConfigError(
            f"MCP_FOLDER: there is no folder {config.mcp_folder}",
            key="MCP_FOLDER",
            hint="the path is relative to the smss file",
            reason="folder-missing",
        )
    return folder


def _require_sdk() -> None:
    if importlib.util.find_spec("mcp") is None:
        raise ConfigError(
            "ENGINE_CLASS = MCP needs the MCP SDK, which is not installed",
            key="ENGINE_CLASS",
            hint="pip install 'enginehost[mcp]'",
            reason="missing-extra",
        )


def _warn_of_idle_keys(context: EngineContext) -> None:
    for key in _OF_ONE_FUNCTION:
        if context.properties.get(key, "").strip():
            text = f"{key} has no effect: the server says what its tools are"
            context.warn(key, "no-effect", text, "leave it out; MCP_PREFIX puts a text before each name")
