"""What a ``Scripted`` model sees of a context, and which rule of its script fits."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterator, Mapping
from dataclasses import dataclass, field

import regex

from enginehost.errors import InvalidRequest
from enginehost.llm.message import Message, Role, Type
from enginehost.llm.model import ModelRequest
from enginehost_engines.models.script import Answer, Script, When

MOST_KEPT = 64 * 1024
"""Characters of a text or a result that rules look at."""

_SECONDS = 0.1
"""For one regular expression, on the event loop."""

_CHARACTERS_PER_TOKEN = 4


@dataclass(slots=True)
class Situation:
    """The end of a context, in flat memory: the last user's text, and the results after the last answer."""

    text: str = ""
    system: str = ""
    results: dict[str, str] = field(default_factory=dict[str, str])
    turn: int = 0
    characters: int = 0
    _last: Role | None = None
    _inside: bool = False

    def see(self, message: Message) -> None:
        """Take in the next row, or the next piece of one."""
        first, self._inside = not self._inside, not message.whole
        self.characters += len(message.content)
        if message.type is Type.TOOL_RESULT:
            self._see_result(message)
        elif message.role is Role.SYSTEM:
            self.system = _joined(self.system, message.content)
        elif message.role is Role.USER:
            self._see_user(message, first)
        else:
            self.results = {}
        self._last = Role.TOOL if message.type is Type.TOOL_RESULT else message.role

    def _see_result(self, message: Message) -> None:
        tool = str((message.query or {}).get("tool", ""))
        self.results[tool] = _joined(self.results.get(tool, ""), message.content)

    def _see_user(self, message: Message, first: bool) -> None:
        self.results = {}
        if self._last is not Role.USER:
            self.turn += 1
            self.text = ""
        if message.type is Type.TEXT:
            self.text = _joined("" if first else self.text, message.content)

    @property
    def tokens(self) -> int:
        """About how many tokens the context has."""
        return -(-self.characters // _CHARACTERS_PER_TOKEN)


def _joined(kept: str, more: str) -> str:
    return kept + more[: MOST_KEPT - len(kept)]


async def situation(rows: AsyncIterable[Message]) -> Situation:
    """What the rows come to."""
    found = Situation()
    async for message in rows:
        found.see(message)
    return found


def choose(script: Script, found: Situation, request: ModelRequest) -> tuple[Answer, Mapping[str, str]]:
    """The first answer that fits, and what the names in its texts stand for.

    Raises :class:`InvalidRequest` where none does.
    """
    for answer in script.answers:
        if answer.left == 0:
            continue
        values = _fits(answer.when, found, request)
        if values is not None:
            if answer.left is not None:
                answer.left -= 1
            return answer, values
    what = f"the result of {', '.join(found.results)}" if found.results else f"turn {found.turn}"
    raise InvalidRequest(f"the script has no answer to {what}", detail={"hint": "add a rule without when:"})


def _fits(when: When, found: Situation, request: ModelRequest) -> dict[str, str] | None:
    result = _result(when, found)
    if when.after_result != bool(found.results) or (when.after_result and result is None):
        return None
    if not all(_holds(when, found, request)):
        return None
    values = {"text": found.text, "turn": str(found.turn), "model": request.model, "result": result or ""}
    for pattern, text in ((when.matches, found.text), (when.result_matches, result or "")):
        if pattern is not None:
            match = _search(pattern, text)
            if match is None:
                return None
            values |= {name: part or "" for name, part in match.groupdict().items()}
    return values


def _holds(when: When, found: Situation, request: ModelRequest) -> Iterator[bool]:
    yield when.text is None or when.text in found.text.casefold()
    yield when.turn in (None, found.turn)
    yield when.model in (None, request.model)
    yield when.system is None or when.system in found.system.casefold()
    yield when.offers is None or any(tool.name == when.offers for tool in request.tools)
    yield when.schema is None or when.schema == (request.schema is not None)


def _result(when: When, found: Situation) -> str | None:
    """The result that a rule speaks of; of several, the last."""
    wanted = when.result
    pattern: regex.Pattern[str] | None = when.result_matches
    for tool, text in reversed(found.results.items()):
        if wanted in (None, "*", tool) and (pattern is None or _search(pattern, text)):
            return text
    return None


def _search(pattern: regex.Pattern[str], text: str) -> regex.Match[str] | None:
    try:
        return pattern.search(text, timeout=_SECONDS)
    except TimeoutError:
        raise InvalidRequest(
            "a regular expression of the script takes too long on this text",
            detail={"hint": "leave out repeats within repeats"},
        ) from None
