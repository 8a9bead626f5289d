"""The script of a ``Scripted`` model: what it says, and when. Read once, with the line of every mistake."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any, NoReturn, cast

import regex

from enginehost.llm.message import Usage
from enginehost.yaml_document import Document, Loc, Place, read_document

SPEAKING = ("text", "reasoning", "call", "data")
"""Items that become a message."""

OTHERS = ("wait", "error", "cut", "hang")
"""Items that do something else."""

ERRORS = ("overloaded", "unavailable", "failed")
"""What ``kind`` of an error may be."""

ALWAYS = frozenset({"text", "turn", "model", "result"})
"""Names that a text of every answer may take in."""

_TOP = {"models", "tokens_per_second", "delay", "answers"}
_ANSWER = {"when", "say", "reply", "times", "tokens_per_second", "delay", "usage"}
_WHEN = {
    "text": str,
    "matches": str,
    "result": str,
    "result_matches": str,
    "turn": int,
    "model": str,
    "system": str,
    "offers": str,
    "schema": bool,
}
_USAGE = {"input", "output", "cached", "cache_written", "reasoning"}


@dataclass(frozen=True, slots=True)
class When:
    """What has to hold for an answer; what is ``None`` need not.

    ``result`` names the tool that has just answered (``*``: any); without it, and without
    ``result_matches``, the answer is to what a user said.
    """

    text: str | None = None
    matches: regex.Pattern[str] | None = None
    result: str | None = None
    result_matches: regex.Pattern[str] | None = None
    turn: int | None = None
    model: str | None = None
    system: str | None = None
    offers: str | None = None
    schema: bool | None = None

    @property
    def after_result(self) -> bool:
        """Whether the answer is to a tool's result."""
        return self.result is not None or self.result_matches is not None


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that an answer does: its ``kind`` and what belongs to it, with templates for texts."""

    kind: str
    value: Any = None
    repeat: int = 1


@dataclass(slots=True)
class Answer:
    """One rule. ``left`` counts down how often it may still be given; ``None``: always."""

    when: When
    items: Sequence[Item]
    tokens_per_second: float | None
    delay: float
    usage: Mapping[str, int]
    left: int | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """All of it, in the order in which answers are tried."""

    answers: Sequence[Answer]
    models: Sequence[str] = ("scripted",)


def read_script(path: Path) -> Script:
    """The script in a file. Raises :class:`~enginehost.errors.ConfigError` with file, line and what to do."""
    return _Reader(read_document(path)).script()


class Filled(Template):
    """A text with ``$name`` in it."""

    def fill(self, values: Mapping[str, str]) -> str:
        """The text; names that stand for nothing here become empty."""
        return self.substitute({name: values.get(name, "") for name in self.get_identifiers()})


@dataclass(slots=True)
class _Reader:
    document: Document
    names: frozenset[str] = field(default=ALWAYS)

    def script(self) -> Script:
        top = self.mapping((), self.document.value, _TOP)
        speed = self.number(("tokens_per_second",), top.get("tokens_per_second"), above=True)
        delay = self.number(("delay",), top.get("delay")) or 0.0
        listed = self.sequence(("answers",), top.get("answers"))
        if not listed:
            self.wrong((), "the script has no answers", "write answers: and a list of rules")
        answers = [self.answer(("answers", number), one, speed, delay) for number, one in enumerate(listed)]
        models = [
            self.text(("models", number), one)
            for number, one in enumerate(self.sequence(("models",), top.get("models")))
        ]
        return Script(answers, models or ("scripted",))

    def answer(self, at: Loc, value: Any, speed: float | None, delay: float) -> Answer:
        given = self.mapping(at, value, _ANSWER)
        if ("say" in given) == ("reply" in given):
            self.wrong(at, "an answer has either say or reply", "say: a text, or reply: a list of items")
        when = self.when((*at, "when"), given.get("when"))
        patterns = (when.matches, when.result_matches)
        self.names = ALWAYS.union(*(found.groupindex for found in patterns if found))
        own_speed = self.number((*at, "tokens_per_second"), given.get("tokens_per_second"), above=True)
        own_delay = self.number((*at, "delay"), given.get("delay"))
        return Answer(
            when,
            self.items(at, given),
            own_speed or speed,
            delay if own_delay is None else own_delay,
            self.usage((*at, "usage"), given.get("usage")),
            self.whole((*at, "times"), given.get("times"), least=1),
        )

    def items(self, at: Loc, given: Mapping[str, Any]) -> list[Item]:
        if "say" in given:
            return [Item("text", self.template((*at, "say"), given["say"]))]
        at = (*at, "reply")
        listed = self.sequence(at, given["reply"])
        return [self.item((*at, number), one) for number, one in enumerate(listed)]

    def when(self, at: Loc, value: Any) -> When:
        if value is None:
            return When()
        given = self.mapping(at, value, set(_WHEN))
        found: dict[str, Any] = {}
        for name, one in given.items():
            kind = _WHEN[name]
            if type(one) is not kind:
                self.wrong((*at, name), f"{name} has to be {_WORDS[kind]}")
            found[name] = self.pattern((*at, name), str(one)) if name.endswith("matches") else one
        if found.get("text") is not None:
            found["text"] = found["text"].casefold()
        if found.get("system") is not None:
            found["system"] = found["system"].casefold()
        return When(**found)

    def item(self, at: Loc, value: Any) -> Item:
        given = self.mapping(at, value, {*SPEAKING, *OTHERS, "repeat"})
        kinds = [name for name in given if name != "repeat"]
        if len(kinds) != 1:
            hint = f"write one of {', '.join((*SPEAKING, *OTHERS))}"
            self.wrong(at, "an item of reply does exactly one thing", hint)
        kind = kinds[0]
        place = (*at, kind)
        repeat = self.whole((*at, "repeat"), given.get("repeat"), least=1) or 1
        if repeat > 1 and kind not in ("text", "reasoning"):
            self.wrong((*at, "repeat"), "only text and reasoning can be repeated")
        return Item(kind, self.value(place, kind, given[kind]), repeat)

    def value(self, at: Loc, kind: str, value: Any) -> Any:
        if kind in ("text", "reasoning"):
            return self.template(at, value)
        if kind == "data":
            return self.deep(at, value)
        if kind == "call":
            given = self.mapping(at, value, {"tool", "args"})
            if not given.get("tool"):
                self.wrong(at, "a call names its tool", "write call: {tool: NAME, args: {…}}")
            args = self.mapping((*at, "args"), given.get("args") or {}, None)
            return self.text((*at, "tool"), given["tool"]), self.deep((*at, "args"), args)
        if kind == "wait":
            return self.number(at, value) or 0.0
        return self.error(at, value) if kind == "error" else None

    def error(self, at: Loc, value: Any) -> Mapping[str, Any]:
        given = self.mapping(at, value, {"kind", "message", "retry_after", "status", "retryable"})
        if given.get("kind") not in ERRORS:
            self.wrong((*at, "kind") if "kind" in given else at, f"kind is one of {', '.join(ERRORS)}")
        self.number((*at, "retry_after"), given.get("retry_after"))
        self.whole((*at, "status"), given.get("status"))
        if not isinstance(given.get("retryable", False), bool):
            self.wrong((*at, "retryable"), "retryable has to be true or false")
        return given | {"message": self.text((*at, "message"), given.get("message", "the script says so"))}

    def usage(self, at: Loc, value: Any) -> dict[str, int]:
        if value is None:
            return {}
        given = self.mapping(at, value, _USAGE)
        return {name: self.whole((*at, name), one) or 0 for name, one in given.items()}

    # Values

    def mapping(self, at: Loc, value: Any, allowed: set[str] | None) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.wrong(at, f"{at[-1] if at else 'the script'} has to be a mapping", "write name: value")
        found = cast("dict[str, Any]", value)
        for name in found:
            if allowed is not None and name not in allowed:
                self.wrong(
                    (*at, name), f"{name} is not known here", f"known are {', '.join(sorted(allowed))}"
                )
        return found

    def sequence(self, at: Loc, value: Any) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            self.wrong(at, f"{at[-1]} has to be a list")
        return cast("list[Any]", value)

    def number(self, at: Loc, value: Any, *, above: bool = False) -> float | None:
        if value is None:
            return None
        good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
        if not good or (above and not value):
            self.wrong(at, f"{at[-1]} has to be a number {'above' if above else 'from'} 0")
        return float(value)

    def whole(self, at: Loc, value: Any, *, least: int = 0) -> int | None:
        if value is None:
            return None
        if type(value) is not int or value < least:
            self.wrong(at, f"{at[-1]} has to be a whole number from {least}")
        return value

    def text(self, at: Loc, value: Any) -> str:
        if not isinstance(value, str):
            self.wrong(at, f"{at[-1]} has to be a text", "put it in quotes")
        return value

    def pattern(self, at: Loc, value: str) -> regex.Pattern[str]:
        try:
            re.compile(value)  # whose syntax it is; the other one can be told to stop
            return regex.compile(value, regex.IGNORECASE)
        except (re.error, regex.error) as error:
            self.wrong(at, f"this is no regular expression: {error}")

    def template(self, at: Loc, value: Any) -> str | Filled:
        text = self.text(at, value)
        if "$" not in text:
            return text
        template = Filled(text)
        if not template.is_valid():
            self.wrong(at, "a $ in the text begins no name", "write $$ for a dollar sign")
        unknown = [name for name in template.get_identifiers() if name not in self.names]
        if unknown:
            hint = f"known here are {', '.join(sorted(self.names))}; write $$ for a dollar sign"
            self.wrong(at, f"the text takes in ${unknown[0]}, which stands for nothing", hint)
        return template

    def deep(self, at: Loc, value: Any) -> Any:
        """A JSON value whose texts may be templates."""
        if isinstance(value, str):
            return self.template(at, value)
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            return {name: self.deep((*at, name), one) for name, one in members.items()}
        if isinstance(value, list):
            listed = cast("list[Any]", value)
            return [self.deep((*at, number), one) for number, one in enumerate(listed)]
        return value

    def wrong(self, at: Loc, message: str, hint: str = "") -> NoReturn:
        while at and at not in self.document.places:
            at = at[:-1]
        place = self.document.places.get(at) or Place(self.document.path)
        raise place.error(message, hint)


_WORDS = {str: "a text", int: "a whole number", bool: "true or false"}


def filled(value: Any, values: Mapping[str, str]) -> Any:
    """A value of a script with the names in its texts filled in."""
    if isinstance(value, Filled):
        return value.fill(values)
    if isinstance(value, dict):
        return {name: filled(one, values) for name, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [filled(one, values) for one in cast("list[Any]", value)]
    return value


def usage_of(answer: Answer, model: str, counted: Mapping[str, int]) -> Usage:
    """What an answer is said to have cost: as its rule has it, else as counted."""
    return Usage(**{**counted, **answer.usage}, model=model)
