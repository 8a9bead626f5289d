"""The conversation itself: on the main thread, which reads the keyboard; the host runs on another one."""

from __future__ import annotations

import sys
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from anyio.from_thread import BlockingPortal

from enginehost.cli.chat.deciding import Command, Leave, put_question, read_decision
from enginehost.cli.chat.link import Heard, Link
from enginehost.cli.chat.show import Show, called
from enginehost.cli.failures import CommandError, report
from enginehost.cli.output import emphasised, note, one_line, printable, say
from enginehost.errors import EngineHostError, shortened

_ENDED = ("done", "failed", "cancelled")
HELP = """\
/history      the last messages, with their numbers
/fork [N]     go on from message N (the last) in a session of its own
/cancel       end a turn that runs or waits
/quit         leave (Ctrl+D too); the session stays
/help         this
//text        say a text that begins with /
Ctrl+C ends the turn; a second one leaves."""


class Talk:
    """One person and one session at a time. ``asks``: questions are put to the person."""

    def __init__(self, portal: BlockingPortal, link: Link, show: Show, *, asks: bool) -> None:
        self.session = ""
        self._portal, self._link, self._show, self._asks = portal, link, show, asks
        self._heard: SimpleQueue[Heard | BaseException] = SimpleQueue()
        self._pump: Future[Any] | None = None

    def begin(self, about: dict[str, Any]) -> None:
        """Follow a session, from a turn that has not ended yet, else from now on."""
        self.end()
        run = about["run"] or {"state": "done"}
        going = run["state"] not in _ENDED
        after = f"{run['started_by']}.0" if going else about["position"]
        self.session = about["id"]
        self._heard = SimpleQueue()
        self._pump = self._portal.start_task_soon(self._listen, self.session, after, self._heard)

    def end(self) -> None:
        """Follow no more."""
        self._show.close()
        if self._pump is not None:
            self._pump.cancel()
            self._pump = None

    async def _listen(self, session: str, after: str, heard: SimpleQueue[Heard | BaseException]) -> None:
        try:
            async for one in self._link.events(session, after):
                heard.put(one)
        except Exception as error:  # noqa: BLE001 - it is raised where it is awaited
            heard.put(error)

    def turn(self, text: str) -> dict[str, Any]:
        """Say something, and show what comes of it; the turn as it ended, or as it waits."""
        run = self._portal.call(self._link.write, self.session, text)
        return self.watch(run)

    def watch(self, run: dict[str, Any]) -> dict[str, Any]:
        """Show what comes until a turn ends. Ctrl+C cancels it, a second one raises :class:`Leave`."""
        cancelling = False
        while True:
            try:
                heard = self._heard.get()
                if isinstance(heard, BaseException):
                    raise heard
                place, name, data = heard
                self._show.event(place, name, data)
                if name != "run" or data["id"] != run["id"]:
                    continue
                if data["state"] in _ENDED:
                    self._show.close()
                    return data
                if data["state"] == "paused" and not cancelling and self._waits():
                    return data
            except KeyboardInterrupt:
                self._show.close()
                if cancelling:
                    raise Leave from None
                cancelling = True
                note("cancelling the turn; Ctrl+C again leaves")
                self._portal.call(self._link.cancel, self.session)

    def _waits(self) -> bool:
        """Put the open questions to the person; whether the turn still waits for somebody else."""
        self._show.close()
        asked = self._portal.call(self._link.about, self.session)["approvals"]
        if not self._asks:
            return bool(asked)
        for question in asked:
            if not self._ask(question):
                break
        return False

    def _ask(self, question: dict[str, Any]) -> bool:
        """Until it is decided; ``False`` where the person cancels the turn instead."""
        about_call = put_question(question)
        while True:
            try:
                decided = read_decision(about_call)
                if isinstance(decided, Command):
                    if self._cancels(*decided.words):
                        return False
                elif decided is not None:
                    self._portal.call(self._link.decide, question["session"], question["call"], decided)
                    return True
            except EngineHostError as error:
                report(error)
                if error.detail.get("reason") in ("settled", "no-question"):
                    return True

    def _cancels(self, name: str = "", *words: str) -> bool:
        """Obey a command that is given in place of a decision; whether it has ended the turn."""
        if name == "fork":
            raise CommandError(
                "a question waits here", hint="decide it, or /cancel the turn, before you /fork"
            )
        if name == "cancel":
            self._portal.call(self._link.cancel, self.session)
            return True
        self._command(name, *words)
        return False

    def converse(self) -> None:
        """Read and answer until the person leaves."""
        about = self._portal.call(self._link.about, self.session)
        leaving = False
        with suppress(Leave):
            if about["run"] is not None and about["run"]["state"] not in _ENDED:
                self.told(self.watch(about["run"]))
            while True:
                try:
                    text = input("> ").strip()
                    leaving = False
                    self._answer(text)
                except EOFError:
                    say()
                    return
                except KeyboardInterrupt:
                    say()
                    if leaving:
                        return
                    leaving = True
                    note("Ctrl+C again, Ctrl+D or /quit leaves")
                except EngineHostError as error:
                    report(error)

    def _answer(self, text: str) -> None:
        if text.startswith("/") and not text.startswith("//"):
            self._command(*text[1:].split())
        elif text:
            self.told(self.turn(text.removeprefix("/") if text.startswith("//") else text))

    def told(self, run: dict[str, Any]) -> None:
        """Say how a turn ended, where that was not well."""
        if run["state"] == "cancelled":
            note("the turn was cancelled")
        elif run["state"] == "failed":
            note(f"{emphasised('error:', sys.stderr, 'red')} {printable(failure_of(run))}")

    def _command(self, name: str = "", *words: str) -> None:
        match name:
            case "quit" | "exit":
                raise Leave
            case "help":
                say(HELP)
            case "history":
                for row in self._portal.call(self._link.history, self.session):
                    say(_line(row)) if _line(row) else None
            case "cancel":
                run = self._portal.call(self._link.cancel, self.session)
                note("no turn runs" if run is None else "the turn is cancelled")
            case "fork":
                self.begin(self._portal.call(self._link.fork, self.session, _number(words)))
                note(f"session {self.session}")
            case _:
                raise CommandError(f"there is no command /{name}", hint="/help lists them")


def failure_of(run: dict[str, Any]) -> str:
    """Why a turn failed."""
    return str((run.get("error") or {}).get("message") or "the turn failed")


def _number(words: tuple[str, ...]) -> int:
    if not words:
        return 0
    if not (words[0].isascii() and words[0].isdigit() and 0 < len(words[0]) < 10):
        raise CommandError(f"{words[0]!r} is no number of a message", hint="/history shows them")
    return int(words[0])


def _line(row: dict[str, Any]) -> str:
    """A message in the history; options and questions are left out."""
    if row["type"] in ("approval", "data"):
        return ""
    text = called(row.get("query") or {}) if row["type"] == "tool_call" else row["content"]
    return f"{row['sequence']:>4}  {row['role']}: {one_line(shortened(text, 200))}"
