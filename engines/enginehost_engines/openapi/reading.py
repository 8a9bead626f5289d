"""From the bytes of a document, YAML or JSON, to plain values, within bounds.

YAML is read with the types of its version 1.2, as OpenAPI asks (``no`` is text, ``2020-01-01`` too, a key is
always text), and aliases count as often as they are used: a few lines cannot become millions of values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, cast

from enginehost.errors import ConfigError
from enginehost_engines.openapi.faults import broken

MAX_BYTES = 64 << 20
"""Bytes of all documents together."""
MAX_DEPTH = 100
"""Levels of lists and objects in one another."""
MAX_VALUES = 8_000_000
"""Values of one document."""

_LONGEST_KEPT = 40
_MERGE: Any = object()
_NO_KEY: Any = object()
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_TAGS = "tag:yaml.org,2002:"
_STARTS = frozenset("0123456789+-.")


def is_json(text: str, name: str) -> bool:
    """Whether a document is to be read as JSON: YAML that looks like it has a telling name."""
    return text.lstrip()[:1] in ("{", "[") and not name.lower().endswith((".yaml", ".yml"))


def decoded(data: bytes, name: str) -> str:
    """The text of a document. Raises :class:`ConfigError` where it is none."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise broken("this is not UTF-8", line=line, name=name) from None


def read(text: str, name: str) -> Any:
    """The value of a document. Raises :class:`ConfigError`, with the line, for whatever is wrong with it."""
    if not is_json(text, name):
        return _read_yaml(text, name)
    import orjson

    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        reason = str(error.msg).partition(": line")[0]
        raise broken(f"this is not JSON: {reason}", line=error.lineno, name=name) from None
    except UnicodeEncodeError:
        raise broken("this is not JSON: half a character", name=name) from None
    _check_bounds(value, name)
    return value


def _check_bounds(value: Any, name: str) -> None:
    level: list[Any] = [value]
    count = depth = 0
    while level:
        count, depth = count + len(level), depth + 1
        _bounded(depth - 1, count, name)
        deeper: list[Any] = []
        for item in level:
            if type(item) is dict:
                deeper += cast("dict[str, Any]", item).values()
            elif type(item) is list:
                deeper += cast("list[Any]", item)
        level = deeper


def _bounded(depth: int, count: int, name: str, line: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise broken(f"values are nested deeper than {MAX_DEPTH} levels", line=line, name=name)
    if count > MAX_VALUES:
        raise broken(f"there are more than {MAX_VALUES} values (aliases counted)", line=line, name=name)


def events(text: str, name: str) -> Any:
    """The events of a YAML text. Raises :class:`ConfigError` where it is none."""
    import yaml

    try:
        yield from yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 0
        raise broken(f"this is not YAML: {error.problem or error.context}", line=line, name=name) from None
    except yaml.reader.ReaderError:
        raise broken("this is not YAML: a character that YAML does not allow", name=name) from None


def _read_yaml(text: str, name: str) -> Any:
    import yaml

    builder = _Builder(name)
    kinds = {
        yaml.ScalarEvent: builder.scalar,
        yaml.MappingStartEvent: builder.start_mapping,
        yaml.SequenceStartEvent: builder.start_sequence,
        yaml.MappingEndEvent: builder.end,
        yaml.SequenceEndEvent: builder.end,
        yaml.AliasEvent: builder.alias,
        yaml.DocumentStartEvent: builder.document,
    }
    for event in events(text, name):
        handle = kinds.get(type(event))
        if handle is not None:
            handle(event)
    return builder.value


@dataclass(slots=True)
class _Frame:
    """A list or an object that is being read."""

    container: Any
    anchor: str | None
    begun: int
    key: Any = _NO_KEY
    merged: list[Any] = field(default_factory=list)


class _Builder:
    def __init__(self, name: str) -> None:
        self.value: Any = None
        self._name = name
        self._frames: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._count = 0
        self._documents = 0
        self._kept: dict[str, str] = {}

    def document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            raise self._fault(event, "there is a second document in the file", "keep one")

    def scalar(self, event: Any) -> None:
        self._count += 1
        value = event.value
        if len(value) <= _LONGEST_KEPT:
            value = self._kept.setdefault(value, value)
        if self._is_key():
            self._frames[-1].key = _MERGE if value == "<<" and event.implicit[0] else value
            return
        if event.implicit[0] or event.tag not in (None, "!"):
            value = self._typed(event, value)
        self._anchor(event, value, 1)
        self._put(event, value)

    def _typed(self, event: Any, value: str) -> Any:
        tag = event.tag
        if tag is None or (event.implicit[0] and tag == "!"):
            return _plain(value)
        kind = tag.removeprefix(_TAGS)
        if kind == "str":
            return value
        if kind not in ("int", "float", "bool", "null"):
            raise self._fault(event, f"the tag {tag[:80]} is not used here")
        return _plain(value)

    def start_mapping(self, event: Any) -> None:
        self._start(event, {})

    def start_sequence(self, event: Any) -> None:
        self._start(event, [])

    def _start(self, event: Any, container: Any) -> None:
        if self._is_key():
            raise self._fault(event, "a key has to be text")
        if event.tag not in (None, "!", f"{_TAGS}map", f"{_TAGS}seq"):
            raise self._fault(event, f"the tag {event.tag[:80]} is not used here")
        self._count += 1
        _bounded(len(self._frames), self._count, self._name, event.start_mark.line + 1)
        self._frames.append(_Frame(container, event.anchor, self._count))

    def end(self, event: Any) -> None:
        frame = self._frames.pop()
        value = frame.container
        for merged in reversed(frame.merged):
            value.update({key: item for key, item in merged.items() if key not in value})
        if frame.anchor:
            self._anchors[frame.anchor] = value, self._count - frame.begun + 1
        self._put(event, value)

    def alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise self._fault(event, f"*{event.anchor} stands inside what it means, or before it")
        value, size = self._anchors[event.anchor]
        self._count += size
        _bounded(0, self._count, self._name, event.start_mark.line + 1)
        if self._is_key():
            if not isinstance(value, str):
                raise self._fault(event, "a key has to be text")
            self._frames[-1].key = value
            return
        self._put(event, value)

    def _is_key(self) -> bool:
        return bool(self._frames) and type(self._frames[-1].container) is dict and (
            self._frames[-1].key is _NO_KEY
        )  # fmt: skip

    def _put(self, event: Any, value: Any) -> None:
        if not self._frames:
            self.value = value
            return
        frame = self._frames[-1]
        if type(frame.container) is list:
            frame.container.append(value)
            return
        key, frame.key = frame.key, _NO_KEY
        if key is not _MERGE:
            frame.container[key] = value
            return
        sources: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            raise self._fault(event, "<< needs an object, or a list of objects")
        frame.merged += reversed(sources)

    def _anchor(self, event: Any, value: Any, size: int) -> None:
        if event.anchor:
            self._anchors[event.anchor] = value, size

    def _fault(self, event: Any, message: str, hint: str = "") -> ConfigError:
        return broken(message, hint=hint, line=event.start_mark.line + 1, name=self._name)


def _plain(value: str) -> Any:
    """The value of a plain scalar: the core schema of YAML 1.2."""
    if value in _WORDS:
        return _WORDS[value]
    if value[0] not in _STARTS or len(value) > _LONGEST_KEPT:
        return value
    if _INT.fullmatch(value):
        return int(value, 0) if value[:2] in ("0o", "0x") else int(value)
    return float(value) if _FLOAT.fullmatch(value) else value
