"""``PYTHON_REQUIREMENTS``: what has to be installed for a script, as the file says it."""

from __future__ import annotations

import hashlib
import re
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from enginehost.errors import ConfigError
from enginehost_engines.interpreters import Interpreter

_MOST_BYTES = 1_000_000
_INCLUDE = re.compile(r"^\s*(?:-r|--requirement|-c|--constraint)(?:\s*=\s*|\s+|(?=\S))(\S+)", re.MULTILINE)
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s'\"]+(?=@)")
_OPTION = re.compile(r"(?m)^\s*(?:--?[a-z])")


@dataclass(frozen=True, slots=True)
class Requirements:
    """``text`` is that of a requirements file; ``folder`` is where relative paths in it start; ``files`` are
    those that it came from, the one that was named first.
    """

    text: str
    folder: Path
    files: tuple[Path, ...]
    digest: str

    def key(self, interpreter: Interpreter) -> str:
        """The name of an environment that has this and nothing else: the same for the same content."""
        parts = (self.digest, interpreter.identity, sysconfig.get_platform())
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    def secrets(self) -> Iterator[str]:
        """Credentials that stand in addresses."""
        for match in _CREDENTIALS.finditer(self.text):
            yield match[0]
            yield from (part for part in match[0].split(":") if part)


def read_requirements(given: str | Sequence[str], folder: Path) -> Requirements:
    """What the key says: a list of requirements, or the path of a requirements file.

    Raises :class:`ConfigError`.
    """
    if not isinstance(given, str):
        return _of_list([line.strip() for line in given if line.strip()], folder)
    path = (folder / given).resolve()
    text = _read(path, given)
    files = {path: text}
    _follow(text, path.parent, files)
    contents = "\0".join(files.values())
    digest = hashlib.sha256(f"{path.parent}\0{contents}".encode()).hexdigest()
    for content in files.values():
        for line in _lines(content.replace("\\\n", " ")):
            _check(line)
    if not any(_lines(text)):
        raise _fault(f"{given} names nothing to install", "write a requirement a line: numpy>=2")
    return Requirements(text, path.parent, tuple(files), digest)


def _of_list(lines: list[str], folder: Path) -> Requirements:
    hint = 'write requirements as pip does: ["numpy>=2", "pandas"]'
    if not lines:
        raise _fault("the list is empty", hint)
    for line in lines:
        if _OPTION.search(line) or "\n" in line:
            raise _fault("a list holds requirements alone", "put options into a requirements file")
        _check(line)
    # paths in it start at the smss file, so what it means depends on where that lies
    place = (
        str(folder.resolve())
        if any(line.startswith((".", "/", "file:")) or "@" in line for line in lines)
        else ""
    )
    digest = hashlib.sha256("\n".join([place, *sorted(lines)]).encode()).hexdigest()
    return Requirements("\n".join(lines) + "\n", folder.resolve(), (), digest)


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line


def _check(line: str) -> None:
    """Refuse what is no requirement (PEP 508); what installers take besides (paths, addresses) is theirs."""
    text = _END.split(line.strip(), maxsplit=1)[0].strip()
    if not text or (_OTHER.search(text) is not None and _NAMED.match(text) is None):
        return
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        Requirement(text)
    except InvalidRequirement as error:
        why = str(error).partition("\n")[0]
        raise _fault(
            f"{without_credentials(text)!r} is no requirement: {why}",
            "write requirements as pip does: numpy>=2; python_version < '3.13'",
        ) from None


_END = re.compile(r"(?:^|\s+)#|(?:^|\s)--?[a-zA-Z]")
"""Where a comment or an option begins."""
_OTHER = re.compile(r"[/\\]|\$\{|^[.~]|\.(?:whl|zip|tar\.\w+|tgz)$")
_NAMED = re.compile(r"[\w.-]+\s*(?:\[[^\]]*\])?\s*@\s*[^$]*$")


def _follow(text: str, folder: Path, files: dict[Path, str]) -> None:
    """Read the requirements and constraints files that a file includes."""
    for match in _INCLUDE.finditer(text):
        path = (folder / match[1]).resolve()
        if "://" not in match[1] and path not in files:
            files[path] = _read(path, match[1])
            _follow(files[path], path.parent, files)


def _read(path: Path, given: str) -> str:
    try:
        if not path.is_file():
            raise _fault(
                f"there is no file {given}", 'name a requirements file, or write ["numpy>=2", "pandas"]'
            )
        if path.stat().st_size > _MOST_BYTES:
            raise _fault(f"{given} is too long for a requirements file", "is it another file?")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise _fault(f"{given} cannot be read: {reason}", "") from error


def _fault(message: str, hint: str) -> ConfigError:
    key = "PYTHON_REQUIREMENTS"
    return ConfigError(f"{key}: {message}", key=key, hint=hint, reason="bad-requirements")


def without_credentials(text: str) -> str:
    """A line of an installer as everybody may read it."""
    return _CREDENTIALS.sub("***", text)
