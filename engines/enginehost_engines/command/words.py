"""The words of a command line: how ``COMMAND`` is written, and what a call makes of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from enginehost.config import BadValue
from enginehost.errors import TooLarge
from enginehost_engines.command.template import Template, parse, refused, text_of

MOST_BYTES = 128 * 1024 - 1
"""The longest word that Linux passes to a program (``MAX_ARG_STRLEN`` without its zero byte)."""

_END_OF_OPTIONS = "--"
_HINT = 'write ["program", "--n", "{n}"]'


@dataclass(frozen=True, slots=True)
class Group:
    """Words that a call has together, or leaves out together.

    Left out where a parameter in them is absent; those of a ``flag`` where it is not true.
    """

    words: tuple[Template, ...]
    flag: str = ""

    @property
    def names(self) -> list[str]:
        """The parameters that it takes."""
        inner = [name for word in self.words for name in word.names]
        return [self.flag, *inner] if self.flag else inner

    def is_there(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments has its words."""
        if self.flag and arguments.get(self.flag) is not True:
            return False
        return not any(_is_absent(arguments.get(word)) for one in self.words for word in one.names)


def _is_absent(value: Any) -> bool:
    return value is None or (isinstance(value, list | tuple) and not value)


def read_command(command: Sequence[Any]) -> tuple[str, tuple[Group, ...]]:
    """The program and the words after it. Raises :class:`BadValue`."""
    if not command:
        raise BadValue("COMMAND names no program", hint=_HINT, reason="bad-command")
    program, *rest = command
    if not isinstance(program, str) or not program.strip() or "\0" in program:
        raise BadValue("COMMAND has to begin with the program, a text", hint=_HINT, reason="bad-command")
    if parse(program).names:
        message = "COMMAND: a parameter may not choose the program"
        raise BadValue(message, hint="write one file for each program", reason="bad-command")
    program = parse(program).filled({})
    return program, tuple(group for number, one in enumerate(rest, 2) for group in _groups(one, number))


def _groups(element: Any, number: int) -> Iterator[Group]:
    if isinstance(element, str):
        yield Group((_word(element, number),))
    elif isinstance(element, list):
        yield Group(_word_list(cast("list[Any]", element), number))
    elif isinstance(element, dict):
        for flag, words in cast("dict[str, Any]", element).items():
            yield Group(_word_list(words if isinstance(words, list) else [words], number), flag)
    else:
        raise _bad_element(number)


def _word_list(words: Sequence[Any], number: int) -> tuple[Template, ...]:
    return tuple(_word(word, number) for word in words)


def _word(text: Any, number: int) -> Template:
    if not isinstance(text, str) or "\0" in text:
        raise _bad_element(number)
    return parse(text)


def _bad_element(number: int) -> BadValue:
    message = f"COMMAND: element {number} is no text, no list of texts, and no object of flags"
    hint = 'write "{n}", ["--n", "{n}"] or {"verbose": "--verbose"}; numbers in quotes'
    return BadValue(message, hint=hint, reason="bad-command")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Makes the words of a call. Values of ``dashed`` parameters may begin with ``-`` anywhere."""

    groups: tuple[Group, ...]
    dashed: Collection[str] = field(default=())

    def words(self, arguments: Mapping[str, Any]) -> list[str]:
        """The words after the program.

        Raises :class:`~enginehost.errors.InvalidArguments` for a value that no word can hold, or that a
        program might take for an option, and :class:`~enginehost.errors.TooLarge`.
        """
        words: list[str] = []
        free = False
        for group in self.groups:
            for template in group.words if group.is_there(arguments) else ():
                for word in _filled(template, arguments):
                    self._check(template, word, free)
                    words.append(word)
                free = free or template.parts == (_END_OF_OPTIONS,)
        return words

    def _check(self, template: Template, word: str, free: bool) -> None:
        names = template.names
        if not names:
            return
        if template.begins_with_value and word.startswith("-") and not free and names[0] not in self.dashed:
            raise refused(names[0], "it may not begin with -: the program could take it for an option")
        if "\0" in word:
            raise refused(names[0], "it holds a zero byte, which no program can be given")
        size = len(word.encode())
        if size > MOST_BYTES:
            raise TooLarge(f"the argument {names[0]} on a command line", limit=MOST_BYTES, size=size)


def _filled(template: Template, arguments: Mapping[str, Any]) -> Iterable[str]:
    """The word; one for each item where its parameter is a list."""
    lists = [name for name in dict.fromkeys(template.names) if isinstance(arguments[name], list | tuple)]
    if len(lists) > 1:
        raise refused(lists[1], f"it may not be a list where {lists[0]} is one: they stand in one word")
    texts = {name: text_of(name, arguments[name]) for name in template.names if name not in lists}
    if not lists:
        return (template.filled(texts),)
    (name,) = lists
    return [template.filled({**texts, name: text_of(name, item)}) for item in arguments[name]]
