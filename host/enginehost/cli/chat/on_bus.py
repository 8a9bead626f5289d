"""A chat with the agents of the databus: one of them at a time, or whoever each message is for."""

from __future__ import annotations

import sys
import threading
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from queue import SimpleQueue
from typing import Any

from anyio.from_thread import BlockingPortal

from enginehost.cli.chat.deciding import Command, Leave, put_question, read_decision
from enginehost.cli.chat.show import Show
from enginehost.cli.failures import CommandError, report
from enginehost.cli.output import emphasised, note, on_terminal, one_line, print_table, say
from enginehost.databus import AgentChange, AgentEvent, BusAgent
from enginehost.errors import EngineHostError, UnknownFunction, WaitsForPerson, shortened
from enginehost.genesis.interface import Interface
from enginehost.genesis.routing import Because, Routed, named

PATIENCE = 600.0
"""Seconds that an answer may take: a person can end it sooner."""
HELP = """\
/agents       who is there
/use AGENT    talk with this one: its number in the list, or its name
/auto         let each message go to the agent that it is for
/new          begin a new conversation
/quit         leave (Ctrl+D too)
/help         this
//text        say a text that begins with /
Ctrl+C ends the answer; a second one leaves."""

_END = object()
_HEADS = ("#", "NAME", "HOST", "SPECIALIZATIONS", "DESCRIPTION")
_MOST_SHOWN = 100


class BusTalk:
    """One person and the agents of the bus. ``asks``: questions are put to the person.

    Each agent has its own conversation in one chat; ``session`` is the id of the first one.
    """

    def __init__(
        self, portal: BlockingPortal, ui: Interface, show: Show, *, asks: bool, session: str = ""
    ) -> None:
        self.agent: BusAgent | None = None
        """The one that was chosen; ``None``: each message goes to the one that it is for."""
        self.asked: BusAgent | None = None
        """The one that was asked last."""
        self._portal, self._ui, self._show, self._asks = portal, ui, show, asks
        self._session = session
        self._conversations: dict[str, str] = {}
        self._listed: Sequence[BusAgent] = ()
        self._arrivals = _Arrivals()
        self._following: Future[Any] | None = None

    # One message

    def turn(self, text: str) -> None:
        """Say something, and show the answer. Raises what the agent's call raises."""
        agent, because = self._routed(text)
        self.asked = agent
        if because is not Because.NAMED:
            note(emphasised(f"→ {one_line(agent.name)} ({because.words})", sys.stderr, "dim"))
        conversation = self.conversation(agent)
        about = {"id": agent.id, "name": agent.name, "by": str(because), "conversation_id": conversation}
        self._show.event("", "agent", about)
        try:
            self._shown(lambda: self._ui.stream(text, agent, conversation, timeout=PATIENCE))
        except EngineHostError as error:
            self._decided(agent, conversation, error)

    def _routed(self, text: str) -> Routed:
        if self.agent is not None:
            return Routed(self.agent, Because.NAMED)
        return self._portal.call(self._ui.route, text)

    def conversation(self, agent: BusAgent) -> str:
        """The id of the conversation with an agent, as ``--session`` takes it."""
        known = self._conversations.get(agent.id)
        if known is None:
            known, self._session = self._session or uuid.uuid4().hex, ""
            self._conversations[agent.id] = known
        return known

    def _decided(self, agent: BusAgent, conversation: str, error: EngineHostError) -> None:
        """Put the questions of a turn that waits to the person, until it has answered.

        Raises ``error``, and what comes in its place, where nobody can be asked, or it is another.
        """
        while self._asks and (question := _question(error)) is not None:
            decision = self._typed(question)
            try:
                self._shown(lambda decision=decision: self._told(agent, conversation, decision))
            except EngineHostError as further:
                error = further
            else:
                return
        raise error

    def _typed(self, question: Mapping[str, Any]) -> dict[str, Any]:
        about_call = put_question(question)
        while True:
            try:
                decision = read_decision(about_call)
            except EngineHostError as error:
                report(error)
            else:
                if isinstance(decision, Command):
                    note("a question waits here: decide it first")
                elif decision is not None:
                    return decision | {"question": str(question["id"])}

    async def _told(
        self, agent: BusAgent, conversation: str, decision: dict[str, Any]
    ) -> AsyncGenerator[str, None]:
        yield await self._ui.decide(
            agent,
            conversation,
            decision["question"],
            decision["decision"],
            decision.get("reason", decision.get("text", "")),
            decision.get("args"),
            timeout=PATIENCE,
        )

    def _shown(self, answer: Callable[[], AsyncGenerator[str, None]]) -> None:
        """Show an answer as it comes. Ctrl+C breaks it off."""
        heard: SimpleQueue[Any] = SimpleQueue()
        pump = self._portal.start_task_soon(_pump, answer, heard)
        status, broken = "", ""
        try:
            while (piece := heard.get()) is not _END:
                if isinstance(piece, BaseException):
                    raise piece
                self._show.event("", "message", _message(piece, "open"))
                broken = "failed"
            status = "done"
        except KeyboardInterrupt:
            pump.cancel()
            status = "cancelled"
            raise
        except EngineHostError as error:
            status = "done" if _question(error) is not None and broken else broken
            raise
        finally:
            if status:
                self._show.event("", "message", _message("", status))
            self._show.close()

    # A person at a terminal

    def converse(self) -> None:
        """Have an agent chosen, where none is; then read and answer until the person leaves."""
        self._following = self._portal.start_task_soon(self._follow)
        if self.agent is None:
            self._list()
            self._read("agent (number or name; empty: whoever fits): ", self._choose)
        self._read("> ", self._answer, again=True)

    def end(self) -> None:
        """Hear of nobody any more."""
        if self._following is not None:
            self._following.cancel()
        self._show.close()

    def _read(self, prompt: str, take: Callable[[str], None], *, again: bool = False) -> None:
        """Read lines until one is taken without an error, or with ``again`` until the person leaves."""
        leaving = False
        while True:
            try:
                text = self._arrivals.typed(prompt)
                leaving = False
                take(text)
                if not again:
                    return
            except EOFError:
                say()
                raise Leave from None
            except KeyboardInterrupt:
                say()
                if leaving:
                    raise Leave from None
                leaving = True
                note("Ctrl+C again, Ctrl+D or /quit leaves")
            except EngineHostError as error:
                report(error)

    def _answer(self, text: str) -> None:
        if text.startswith("/") and not text.startswith("//"):
            name, _, rest = text[1:].partition(" ")
            self._command(name, rest.strip())
        elif text:
            self.turn(text.removeprefix("/") if text.startswith("//") else text)

    def _command(self, name: str, rest: str) -> None:
        match name:
            case "quit" | "exit":
                raise Leave
            case "help":
                say(HELP)
            case "agents":
                self._list()
            case "use":
                self._use(rest)
            case "auto":
                self.agent = None
                note("each message goes to the agent that it is for")
            case "new":
                self._conversations.clear()
                note("a new conversation")
            case _:
                raise CommandError(f"there is no command /{name}", hint="/help lists them")

    def _choose(self, text: str) -> None:
        if text in ("/quit", "/exit"):
            raise Leave
        if text in ("/agents", "/help"):
            self._command(text[1:], "")
            raise CommandError("nobody is chosen yet", hint="type a number or a name")
        if text and text != "/auto":
            self._use(text.removeprefix("/use "))

    def _use(self, text: str) -> None:
        there = self._portal.call(self._there)
        found = named(there, text)
        if found is None and text.isascii() and text.isdigit() and 0 < int(text[:9]) <= len(self._listed):
            chosen = self._listed[int(text[:9]) - 1].id
            found = next((one for one in there if one.id == chosen), None)
        if found is None:
            error = UnknownFunction(text)
            error.message = f"no agent {text[:100]!r} is on the databus now"
            error.detail["hint"] = "/agents lists those that are"
            raise error
        self.agent = found
        note(emphasised(f"{one_line(found.name)} answers now", sys.stderr, "dim"))

    def _list(self) -> None:
        self._listed = self._portal.call(self._there)
        if self._listed:
            print_table(_HEADS, agent_rows(self._listed))
        else:
            note("no agent is on the databus yet; arrivals are told")

    async def _there(self) -> Sequence[BusAgent]:
        return self._ui.agents

    async def _follow(self) -> None:
        known = {agent.id for agent in self._ui.agents}
        async with aclosing(self._ui.arrivals()) as events:
            async for event in events:
                if event.kind is AgentChange.ARRIVED and event.agent.id in known:
                    known.discard(event.agent.id)  # was there when the chat began
                elif event.kind is not AgentChange.CHANGED:
                    known.discard(event.agent.id)
                    self._arrivals.tell(_arrival(event))


class _Arrivals:
    """Lines about who comes and goes: at once while somebody types, else before the next prompt."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._prompt = ""
        self._waiting: deque[str] = deque(maxlen=_MOST_SHOWN)

    def tell(self, line: str) -> None:
        """Show a line as soon as it disturbs nothing."""
        with self._lock:
            if not self._prompt:
                self._waiting.append(line)
                return
            cleared = "\r\x1b[K" if on_terminal(sys.stderr) else ""
            sys.stderr.write(f"{cleared}{line}\n{self._prompt}")
            sys.stderr.flush()

    def typed(self, prompt: str) -> str:
        """A line from the keyboard."""
        with self._lock:
            while self._waiting:
                note(self._waiting.popleft())
            self._prompt = prompt
        try:
            return input(prompt).strip()
        finally:
            with self._lock:
                self._prompt = ""


def agent_rows(agents: Sequence[BusAgent]) -> list[list[str]]:
    """The rows of the list of agents."""
    return [
        [str(number), *_columns(agent), shortened(agent.description, _MOST_SHOWN)]
        for number, agent in enumerate(agents, 1)
    ]


def _columns(agent: BusAgent) -> tuple[str, str, str]:
    """Name, host and subjects; one that answers by default is marked."""
    mark = " *" if agent.default_capable else ""
    place = f"{agent.service} ({agent.host[:8]})" if agent.host else agent.service
    return f"{agent.name}{mark}", place, ", ".join(agent.specializations)


def _arrival(event: AgentEvent) -> str:
    sign = "+" if event.kind is AgentChange.ARRIVED else "-"
    line = f"{sign} {one_line(event.agent.name)} ({one_line(event.agent.service)}) {event.kind}"
    return emphasised(line, sys.stderr, "cyan")


def _question(error: EngineHostError) -> Mapping[str, Any] | None:
    """The first question of a turn that waits for a person."""
    asked: Any = error.detail.get("questions") if isinstance(error, WaitsForPerson) else None
    listed: list[Any] = asked if isinstance(asked, list) else []
    found = (one for one in listed if isinstance(one, dict) and "id" in one)
    return next(({"text": ""} | one for one in found), None)


def _message(content: str, status: str) -> dict[str, Any]:
    return {"role": "assistant", "type": "text", "status": status, "content": content}


async def _pump(answer: Callable[[], AsyncGenerator[str, None]], heard: SimpleQueue[Any]) -> None:
    try:
        async with aclosing(answer()) as pieces:
            async for piece in pieces:
                heard.put(piece)
        heard.put(_END)
    except Exception as error:  # noqa: BLE001 - it is raised where it is awaited
        heard.put(error)
