"""Reads a YAML file strictly and remembers where each value stands.

Stricter than YAML where leniency hides mistakes: a key given twice is an error, keys are text, one
document to a file, no tags beyond plain values, and bounds on size, depth and number of values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from enginehost.errors import ConfigError
from enginehost.regular_file import read_utf8

if TYPE_CHECKING:
    from yaml import MappingNode, Node, SequenceNode

MAX_BYTES = 4 << 20
MAX_DEPTH = 40
MAX_VALUES = 200_000

Loc = tuple[str | int, ...]
"""The way to a value: keys and list positions from the top."""


class Place(NamedTuple):
    """Where a value was given: a file (or an environment variable) with line and column from 1."""

    path: str
    line: int = 0
    column: int = 0

    def error(self, message: str, hint: str = "") -> ConfigError:
        """A :class:`ConfigError` at this place."""
        return ConfigError(message, path=self.path, line=self.line, column=self.column, hint=hint)


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML document as plain values; ``places`` has the key of each mapping entry, each list item."""

    value: Any
    path: str
    places: dict[Loc, Place] = field(default_factory=dict)


def read_document(path: Path) -> Document:
    """The YAML document in ``path``. Raises :class:`ConfigError` for whatever is wrong with it."""
    return parse_document(read_utf8(path, MAX_BYTES), str(path))


def parse_document(text: str, path: str = "") -> Document:
    """The YAML document in ``text``; an empty one has the value ``None``."""
    import yaml

    loader: yaml.SafeLoader | None = None
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return Document(None, path)
        builder = _Builder(loader, path)
        value = builder.build(node, (), 0)
        return Document(value, path, builder.places)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(path, mark.line + 1, mark.column + 1) if mark else Place(path)
        raise place.error(f"this is not YAML: {error.problem or error.context}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, max(0, int(error.position))) + 1
        raise Place(path, line).error("this is not YAML: a character that YAML does not allow") from error
    except RecursionError as error:
        raise Place(path).error(f"values are nested deeper than {MAX_DEPTH} levels") from error
    finally:
        if loader is not None:
            loader.dispose()


class _Builder:
    def __init__(self, loader: Any, path: str) -> None:
        self.loader = loader
        self.path = path
        self.places: dict[Loc, Place] = {}
        self._count = 0

    def build(self, node: Node, loc: Loc, depth: int) -> Any:
        from yaml import MappingNode, SequenceNode

        self._count += 1
        if depth > MAX_DEPTH:
            raise self._place(node).error(f"values are nested deeper than {MAX_DEPTH} levels")
        if self._count > MAX_VALUES:
            raise self._place(node).error(f"there are more than {MAX_VALUES} values")
        if isinstance(node, MappingNode):
            return self._mapping(node, loc, depth)
        if isinstance(node, SequenceNode):
            return self._sequence(node, loc, depth)
        return self._scalar(node)

    def _mapping(self, node: MappingNode, loc: Loc, depth: int) -> dict[str, Any]:
        self._plain(node, "tag:yaml.org,2002:map")
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = self._place(key_node)
            key = key_node.value if key_node.tag == "tag:yaml.org,2002:str" else None
            if not isinstance(key, str):
                raise place.error("a key has to be text", hint="put it in quotes")
            if key in found:
                first = self.places[(*loc, key)].line
                raise place.error(f"{key!r} is given twice, first on line {first}", hint="keep one of them")
            self.places[(*loc, key)] = place
            found[key] = self.build(value_node, (*loc, key), depth + 1)
        return found

    def _sequence(self, node: SequenceNode, loc: Loc, depth: int) -> list[Any]:
        self._plain(node, "tag:yaml.org,2002:seq")
        items: list[Any] = []
        for position, item in enumerate(node.value):
            self.places[(*loc, position)] = self._place(item)
            items.append(self.build(item, (*loc, position), depth + 1))
        return items

    def _scalar(self, node: Node) -> Any:
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if kind in ("timestamp", "merge", "value"):  # plain text that YAML 1.1 takes for more
            return node.value
        if kind not in ("str", "int", "float", "bool", "null"):
            raise self._place(node).error(f"the tag {node.tag} is not used here")
        try:
            return self.loader.construct_object(node)
        except (ValueError, OverflowError, KeyError) as error:
            raise self._place(node).error("this value cannot be read", hint="put it in quotes") from error

    def _plain(self, node: Node, tag: str) -> None:
        if node.tag != tag:
            raise self._place(node).error(f"the tag {node.tag} is not used here")

    def _place(self, node: Node) -> Place:
        mark = node.start_mark
        return Place(self.path, mark.line + 1, mark.column + 1)
