"""``${KEY}``, ``${env:NAME}``, ``${file:path}``, ``${secret:name}`` and SEMOSS's ``@…@`` in values.

The value of another key is expanded again, what comes from outside never is. ``$${`` is a literal
``${``. A default (``${KEY:-text}``) may stand in every form.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from enginehost.diagnostics import Severity
from enginehost.errors import EngineHostError

MAX_LENGTH = 1_000_000
"""The longest text that a value may become, in characters."""

MAX_CHAIN = 32
"""How many keys may stand behind each other (``A`` takes ``B``, ``B`` takes ``C``, …)."""

_PLACEHOLDER = re.compile(r"\$\$\{|\$\{([^}]*)\}|@BaseFolder@|@ENGINE@")
_OUTSIDE = ("env", "file", "secret")


def read_text_file(path: Path) -> str:
    """The text of a small regular file (UTF-8); :class:`OSError` when it cannot be had."""
    if not path.is_file():
        raise FileNotFoundError(f"no file {path.name}")
    with path.open(encoding="utf-8") as file:
        text = file.read(MAX_LENGTH + 1)
    if len(text) > MAX_LENGTH:
        raise OSError(f"{path.name} has more than {MAX_LENGTH} characters")
    return text


def no_secret(name: str) -> str | None:
    """No store: every ``${secret:…}`` is unresolved."""
    return None


@dataclass(frozen=True, slots=True)
class Sources:
    """Where values from outside the file come from.

    ``env`` and ``secret`` answer ``None`` for a name they do not know; ``file`` raises
    :class:`OSError`. ``base_folder`` is what ``@BaseFolder@`` means; absent, the folder of the file.
    """

    env: Callable[[str], str | None] = os.environ.get
    file: Callable[[Path], str] = read_text_file
    secret: Callable[[str], str | None] = no_secret
    base_folder: Path | None = None


Report = Callable[[str, Severity, str, str, str], None]
"""Takes a finding: key, severity, code, message, hint."""


class _Failed(Exception):
    """A value cannot be expanded; the finding is reported already."""


class Substitution:
    """Expands the values of one file.

    ``template`` answers with the unexpanded value of a key (in upper case). A value that cannot be
    expanded stays as it is; the finding goes to ``report`` and never holds a value.
    """

    def __init__(
        self,
        template: Callable[[str], str | None],
        sources: Sources,
        *,
        folder: Path,
        unique_name: Callable[[], str],
        report: Report,
    ) -> None:
        self._template = template
        self._sources = sources
        self._folder = folder
        self._unique_name = unique_name
        self._report = report
        self._done: dict[str, str] = {}
        self.confidential: set[str] = set()
        """Keys whose text holds something from outside the file."""

    def text(self, key: str, template: str) -> str:
        """The expanded value of ``key``."""
        if key not in self._done:
            self._done[key] = self.expand(key, template)
        return self._done[key]

    def expand(self, key: str, template: str) -> str:
        """``template``, a part of the value of ``key``, expanded."""
        try:
            return self._expand(key, template, (key,))
        except _Failed:
            return template

    def _expand(self, key: str, template: str, chain: tuple[str, ...]) -> str:
        pieces: list[str] = []
        length = end = 0
        for match in _PLACEHOLDER.finditer(template):
            piece = self._replacement(key, match, chain)
            pieces += (template[end : match.start()], piece)
            length += len(piece)
            end = match.end()
            if length > MAX_LENGTH:
                raise self._failed(key, "value-too-long", f"becomes longer than {MAX_LENGTH} characters")
        pieces.append(template[end:])
        return "".join(pieces)

    def _replacement(self, key: str, match: re.Match[str], chain: tuple[str, ...]) -> str:
        whole, body = match[0], match[1]
        if body is None:
            return self._fixed(whole)
        name, has_default, default = body.partition(":-")
        source, colon, argument = name.partition(":")
        if colon and source in _OUTSIDE:
            value = self._outside(key, source, argument, bool(has_default))
        else:
            value = self._other_key(key, name, chain)
            if value is None and not has_default:
                self._unknown(key, whole, name)
                return whole
        return default if value is None else value

    def _fixed(self, placeholder: str) -> str:
        if placeholder == "$${":
            return "${"
        if placeholder == "@ENGINE@":
            return self._unique_name()
        return str(self._sources.base_folder or self._folder)

    def _other_key(self, key: str, name: str, chain: tuple[str, ...]) -> str | None:
        other = name.upper()
        template = self._template(other)
        if template is None:
            return None
        if other in chain:
            path = " → ".join((*chain[chain.index(other) :], other))
            raise self._failed(key, "substitution-cycle", f"takes its own value: {path}")
        if len(chain) > MAX_CHAIN:
            raise self._failed(key, "substitution-chain", f"stands behind more than {MAX_CHAIN} keys")
        if other not in self._done:
            self._done[other] = self._expand(other, template, (*chain, other))
        if other in self.confidential:
            self.confidential.add(key)
        return self._done[other]

    def _outside(self, key: str, source: str, name: str, has_default: bool) -> str | None:
        self.confidential.add(key)
        reason = "is not known"
        value: str | None = None
        try:
            if source == "file":
                value = _without_line_end(self._sources.file(self._folder / name))
            else:
                value = (self._sources.env if source == "env" else self._sources.secret)(name)
        except EngineHostError as error:
            reason = f"cannot be had: {error.message}"
        except OSError as error:
            reason = f"cannot be read: {error.strerror or type(error).__name__}"
        except ValueError:
            reason = "is not UTF-8 text, or has an impossible name"
        if value is None and not has_default:
            message = f"takes ${{{source}:{name}}}, which {reason}"
            raise self._failed(key, f"unresolved-{source}", message, _HINTS[source].format(name=name))
        return value

    def _unknown(self, key: str, whole: str, name: str) -> None:
        message = f"{key}: there is no key {name!r}; {whole} stays as it is"
        hint = f"write $${whole[1:]} if it is meant as text"
        self._report(key, Severity.WARNING, "unknown-placeholder", message, hint)

    def _failed(self, key: str, code: str, message: str, hint: str = "") -> _Failed:
        self._report(key, Severity.ERROR, code, f"{key} {message}", hint)
        return _Failed()


_HINTS = {
    "env": "set the environment variable {name}, or give a default: ${{env:{name}:-…}}",
    "file": "the path is relative to the smss file",
    "secret": "add the secret {name} to a store that the host asks",
}


def is_one_placeholder(template: str) -> bool:
    """Whether the whole text is one ``${…}``, so that its value takes the place of the text."""
    match = _PLACEHOLDER.fullmatch(template.strip())
    return match is not None and match[1] is not None


def may_change(template: str) -> bool:
    """Whether expanding could change the text: a cheap test that saves most values the work."""
    return "${" in template or "@ENGINE@" in template or "@BaseFolder@" in template


def referenced_keys(template: str) -> set[str]:
    """The keys (in upper case) that the text takes values from."""
    bodies = (match[1] for match in _PLACEHOLDER.finditer(template) if match[1] is not None)
    return {body.partition(":-")[0].upper() for body in bodies}


def _without_line_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")
