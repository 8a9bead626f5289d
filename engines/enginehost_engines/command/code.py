"""Where a value would become code: the script that a command line hands to a shell or an interpreter."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import PureWindowsPath

from enginehost_engines.command.template import Template
from enginehost_engines.command.words import Group


@dataclass(frozen=True, slots=True)
class Interpreter:
    """One kind of interpreter.

    ``option`` matches the option before a script (or with the script behind it), ``rest`` tells that all
    further words are the script, ``hint`` how a script is given a value. Options ``with_value`` take the
    next word.
    """

    option: re.Pattern[str]
    hint: str
    with_value: tuple[str, ...] = ()
    rest: bool = False


def _letters(letters: str) -> re.Pattern[str]:
    """Such a letter ends a group of short options."""
    return re.compile(rf"-\w*[{letters}]")


_AS_ARGUMENT = "pass it as a further argument: "
_SHELL = Interpreter(
    re.compile(r"-\w*c\w*"),
    _AS_ARGUMENT + r'["sh", "-c", "… \\"$1\\"", "sh", "{%s}"]',
    ("-o", "+o", "-O", "+O", "--rcfile", "--init-file"),
)
_PYTHON = Interpreter(_letters("c"), _AS_ARGUMENT + "it is sys.argv[1] there", ("-W", "-X"))
_PERL = Interpreter(_letters("eE"), _AS_ARGUMENT + "it is $ARGV[0] there", ("-I",))
_RUBY = Interpreter(_letters("e"), _AS_ARGUMENT + "it is ARGV[0] there", ("-I", "-r", "-C"))
_NODE = Interpreter(
    re.compile(r"-[ep]|-pe|--eval|--print"),
    _AS_ARGUMENT + "it is process.argv[1] there",
    ("-r", "--require", "--import", "-C"),
)
_R = Interpreter(re.compile(r"-e"), _AS_ARGUMENT + "it is commandArgs(TRUE)[1] there")
_PHP = Interpreter(re.compile(r"-r"), _AS_ARGUMENT + "it is $argv[1] there", ("-d", "-c"))
_LUA = Interpreter(re.compile(r"-e"), "put the script into a file, and pass the value as an argument")
_CMD = Interpreter(
    re.compile(r"(?i)/[ckr]"), "run the program itself, without cmd: it needs no shell", rest=True
)
_POWERSHELL = Interpreter(
    re.compile(r"(?i)[-/](c|co|com|comm|comma|comman|command|e|ec|enc|encodedcommand)"),
    'put the script into a file: ["pwsh", "-File", "script.ps1", "{%s}"]',
    rest=True,
)

_KINDS = (
    (re.compile(r"r?(ba|da|z|k|mk|pdk|a|fi|c|tc|ya)?sh"), _SHELL),
    (re.compile(r"(python|pypy)w?[\d.]*|py"), _PYTHON),
    (re.compile(r"perl[\d.]*"), _PERL),
    (re.compile(r"(j|t)?ruby[\d.]*"), _RUBY),
    (re.compile(r"node(js)?|bun"), _NODE),
    (re.compile(r"r|rscript"), _R),
    (re.compile(r"php[\d.]*"), _PHP),
    (re.compile(r"lua(jit)?[\d.]*"), _LUA),
    (re.compile(r"cmd"), _CMD),
    (re.compile(r"powershell|pwsh"), _POWERSHELL),
)


_FROM_STDIN = ("-", "-s", "/dev/stdin")


@dataclass(frozen=True, slots=True)
class ValuesInCode:
    """The values of the parameters ``names`` become code of ``program``; ``hint`` says how they need not."""

    program: str
    names: tuple[str, ...]
    hint: str


def values_in_code(program: str, groups: Sequence[Group], stdin: Template | None) -> ValuesInCode | None:
    """What of a command line, and of what the program reads, is code with values in it.

    Any word may be the interpreter: ``env``, ``sudo`` and their like run what follows them.
    """
    words = [word for group in groups for word in group.words]
    for place, name in enumerate((program, *map(_text, words))):
        if (kind := _kind(name)) is None:
            continue
        names = list(_names_in_scripts(kind, words[place:]))
        if stdin is not None and all(_text(word) in _FROM_STDIN for word in words[place:]):
            names += stdin.names
        if names:
            base = PureWindowsPath(name).name
            return ValuesInCode(base, tuple(dict.fromkeys(names)), kind.hint.replace("%s", names[0]))
    return None


def _kind(name: str) -> Interpreter | None:
    base = PureWindowsPath(name).name.casefold().removesuffix(".exe")
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(base)), None)


def _names_in_scripts(kind: Interpreter, words: Sequence[Template]) -> Iterator[str]:
    waiting = iter(words)
    for word in waiting:
        text = _text(word)
        if word.names and kind is not _SHELL and kind.option.match(text):
            yield from word.names
        elif not word.names and kind.option.fullmatch(text):
            yield from (name for one in _scripts(kind, waiting) for name in one.names)
        elif text in kind.with_value:
            next(waiting, None)
        elif not text.startswith(("-", "+", "/")):
            return  # the file with the script: what follows is its own


def _scripts(kind: Interpreter, waiting: Iterator[Template]) -> Iterator[Template]:
    """The words behind the option that are code."""
    if kind.rest:
        yield from waiting
    elif kind is _SHELL:  # its other options may stand before the script
        yield from islice((word for word in waiting if not _text(word).startswith(("-", "+"))), 1)
        deque(waiting, 0)
    else:
        yield from islice(waiting, 1)


def _text(word: Template) -> str:
    """The text before the first value."""
    return word.parts[0] if word.parts and isinstance(word.parts[0], str) else ""
