"""What a chat shows: Markdown as it comes on a terminal, plain text or JSON lines elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, Protocol

from enginehost.cli.chat.markdown import finished, harmless
from enginehost.cli.output import coloured, emphasised, note, on_terminal, one_line, print_encoded
from enginehost.errors import shortened
from enginehost.values import write

_MOST_SHOWN = 300
"""Characters of arguments and results."""

_GIVEN_UP = ("failed", "cancelled")
BROKEN_OFF = "! this answer was broken off"
CUT = "! this answer was cut: it reached its most tokens"


class Show(Protocol):
    """Shows events one after the other."""

    def event(self, place: str, name: str, data: Mapping[str, Any]) -> None:
        """Show one event."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was."""
        ...


def show_for(as_json: bool) -> Show:
    """What fits standard output."""
    if as_json:
        return JsonLines()
    return Pretty() if coloured(sys.stdout) else Plain(whole=not on_terminal(sys.stdout))


class JsonLines:
    """Each event as a line of JSON: ``{"id", "event", "data"}``."""

    def event(self, place: str, name: str, data: Mapping[str, Any]) -> None:
        """Print it."""
        print_encoded(write({"id": place, "event": name, "data": data}), pretty=False)

    def close(self) -> None:
        """Nothing is open."""


class Plain:
    """The answer on standard output as it comes; all else beside it, on standard error.

    ``whole``: a text is printed once it is whole, so that one that is broken off, and perhaps said anew by
    another process, is not taken for the answer.
    """

    def __init__(self, *, whole: bool = False) -> None:
        self._open = False
        self._whole = whole
        self._parts: list[str] = []

    def event(self, place: str, name: str, data: Mapping[str, Any]) -> None:
        """Show a message; turns say nothing."""
        if name != "message":
            return
        if _is_answer(data):
            self._answer(data)
        elif line := aside(data):
            self.close()
            note(emphasised(line, sys.stderr, "dim"))

    def _answer(self, data: Mapping[str, Any]) -> None:
        self._parts.append(data["content"])
        if not self._whole or data["status"] == "done":
            text = harmless("".join(self._parts))
            sys.stdout.write(text)
            self._open = self._open or bool(text)
            self._parts.clear()
        if data["status"] != "open":
            self._parts.clear()
            self.close()
        sys.stdout.flush()
        if line := ending(data):
            note(emphasised(line, sys.stderr, "dim"))

    def close(self) -> None:
        """End a line that was begun."""
        if self._open:
            sys.stdout.write("\n")
            sys.stdout.flush()
        self._open = False


class Pretty:
    """Markdown, block by block; the block that is being written is drawn anew as it grows."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False)
        self._live: Any = None
        self._rest = ""
        self._thinking = False

    def event(self, place: str, name: str, data: Mapping[str, Any]) -> None:
        """Show a message; turns say nothing."""
        from rich.text import Text

        if name != "message":
            return
        if _is_answer(data):
            self._think_no_more()
            self._answer(data["content"])
            if data["status"] != "open":
                self.close()
            if line := ending(data):
                self._console.print(Text(line, style="dim"))
        elif data["type"] == "reasoning":
            self._console.print(Text(harmless(data["content"]), style="dim italic"), end="")
            self._thinking = data["status"] == "open"
            if not self._thinking:
                self._console.print()
        elif line := aside(data):
            self.close()
            self._console.print(Text(line, style="dim"))

    def _answer(self, content: str) -> None:
        from rich.live import Live
        from rich.markdown import Markdown

        self._rest += harmless(content)
        done, self._rest = finished(self._rest)
        if self._live is None:
            self._live = Live(console=self._console, transient=True, refresh_per_second=10)
            self._live.start()
        if done.strip():
            self._console.print(Markdown(done, hyperlinks=False))
        self._live.update(Markdown(self._rest, hyperlinks=False))

    def _think_no_more(self) -> None:
        if self._thinking:
            self._console.print()
        self._thinking = False

    def close(self) -> None:
        """Print the block that was being written, and draw no more."""
        from rich.markdown import Markdown

        self._think_no_more()
        if self._live is not None:
            self._live.stop()
            self._live = None
        rest, self._rest = self._rest, ""
        if rest.strip():
            self._console.print(Markdown(rest, hyperlinks=False))


def _is_answer(data: Mapping[str, Any]) -> bool:
    return data["role"] == "assistant" and data["type"] in ("text", "data")


def ending(data: Mapping[str, Any]) -> str:
    """A line about how an answer ended; empty where it simply did."""
    if data["status"] in _GIVEN_UP:
        return BROKEN_OFF
    finish = str(data.get("finish", ""))
    if finish == "length":
        return CUT
    return f"! the model ended this answer early: {_short(finish)}" if finish else ""


def aside(data: Mapping[str, Any]) -> str:
    """A line about a message that is no answer; empty for one that nobody needs to see."""
    query: Mapping[str, Any] = data.get("query") or {}
    if data["type"] == "tool_call":
        return f"→ {called(query)}"
    if data["type"] == "tool_result" and data["status"] == "done":
        sign = "✗" if query.get("error") else "←"
        return f"{sign} {one_line(str(query.get('tool', '')))}: {_short(data['content'])}"
    if query.get("kind") == "notice":
        return f"! {_short(data['content'])}"
    return ""


def called(query: Mapping[str, Any]) -> str:
    """A call as one writes it."""
    args: Mapping[str, Any] = query.get("args") or {}
    shown = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in args.items())
    return _short(f"{query.get('tool', '')}({shown})")


def _short(text: str) -> str:
    return one_line(shortened(text, _MOST_SHOWN))
