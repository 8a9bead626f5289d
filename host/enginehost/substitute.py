"""``${KEY}``, ``${env:NAME}``, ``${file:path}``, ``${secret:name}`` and SEMOSS's ``@…@`` in values.

The value of another key is expanded again, what comes from outside never is. ``$${`` is a literal
``${``. A default (``${KEY:-text}``) may stand in every form.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import NamedTuple

from enginehost.diagnostics import Severity
from enginehost.errors import ConfigError, EngineHostError
from enginehost.keys import PUBLIC_KEYS
from enginehost.regular_file import read_regular

MAX_LENGTH = 1_000_000
"""The longest text that a value may become, in characters."""

MAX_CHAIN = 32
"""How many keys may stand behind each other (``A`` takes ``B``, ``B`` takes ``C``, …)."""

MAX_FETCHED = 1000
"""How many different values from outside a file may take."""

MAX_TOTAL = 16_000_000
"""The most that all filled-in values of a file may have together, in characters."""

_PLACEHOLDER = re.compile(r"\$\$\{|\$\{([^}]*)\}|@BaseFolder@|@ENGINE@")
_WITHOUT_BRACES = re.compile(r"\$\$\{|@BaseFolder@|@ENGINE@|(?!)()")
_TAKEN_NAME = re.compile(r"_outside_([0-9]+)(?=_)")
_TELLS_OF_ONE = r"(?:url|uri|id|name|header|scope|method|path|file|folder|type|length|limit)"
_SECRET_NAME = re.compile(
    rf"(?i)(?!.*[_.-]{_TELLS_OF_ONE}\Z)(?:.*(?:passw|passphrase|secret|apikey|credential|token(?![a-z]))"
    r"|(?:.*[_.-])?(?:key|pass|pwd|pw|auth|pat)(?:[_.-].*|[0-9]*\Z))"
)
_OUTSIDE = ("env", "file", "secret")


def read_text_file(path: Path) -> str:
    """The text of a small regular file (UTF-8); :class:`OSError` when it cannot be had.

    What the kernel shows as files is refused: the environment and the memory of processes are among it.
    """
    if any(path.resolve().is_relative_to(folder) for folder in _KERNEL_FOLDERS):
        raise KernelFile(errno.EACCES, "it lies in a folder of the kernel's")
    text = read_regular(path, 4 * MAX_LENGTH + 1).decode().replace("\r\n", "\n").replace("\r", "\n")
    if len(text) > MAX_LENGTH:
        raise OSError(errno.EFBIG, f"it has more than {MAX_LENGTH} characters")
    return text


class KernelFile(PermissionError):
    """What the kernel shows as a file."""


_KERNEL_FOLDERS = ("/proc", "/dev", "/sys")


def no_secret(name: str) -> str | None:
    """No store: every ``${secret:…}`` is unresolved."""
    return None


def no_place(name: str) -> str:
    """Nobody knows where secrets come from."""
    return f"add the secret {name} to a store that the host asks"


@dataclass(frozen=True, slots=True)
class Sources:
    """Where values from outside the file come from; ``secret_place`` says where a secret could be put.

    ``env`` and ``secret`` answer ``None`` for a name they do not know; ``file`` raises
    :class:`OSError`. ``base_folder`` is what ``@BaseFolder@`` means; absent, the folder of the file.
    """

    env: Callable[[str], str | None] = os.environ.get
    file: Callable[[Path], str] = read_text_file
    secret: Callable[[str], str | None] = no_secret
    base_folder: Path | None = None
    secret_place: Callable[[str], str] = no_place


Report = Callable[[str, Severity, str, str, str], None]
"""Takes a finding: key, severity, code, message, hint."""


@dataclass(frozen=True, slots=True)
class Code:
    """Statements of Python that take texts from outside the file.

    ``texts``: names that stand in ``text``, each with the text that belongs in its place. Such a text is
    data, so it is put in after the parser has done its work (in a string, or instead of a name), and no
    quote in it can end a string.
    """

    text: str = ""
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __bool__(self) -> bool:
        return bool(self.text)


class _Failed(Exception):
    """A value cannot be expanded; the finding is reported already."""


class _Fetched(NamedTuple):
    """A value from outside; where there is none, why, and what to do about it."""

    value: str | None
    reason: str = ""
    hint: str = ""


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
        self._fetched: dict[tuple[str, str], _Fetched] = {}
        self._left = MAX_TOTAL
        self.failed: set[str] = set()
        """Keys whose text could not be expanded."""
        self.confidential: set[str] = set()
        """Keys whose text holds something from outside the file."""
        self.secret: set[str] = set()
        """Keys whose text holds a secret."""
        self._local: set[str] = set()
        """Keys whose text holds a path of this machine."""

    def text(self, key: str, template: str) -> str:
        """The expanded value of ``key``."""
        if key not in self._done:
            self._done[key] = self.expand(key, template)
        return self._done[key]

    def expand(self, key: str, template: str) -> str:
        """``template``, a part of the value of ``key``, expanded."""
        try:
            text = self._expand(key, template, (key,))
        except _Failed:
            self.failed.add(key)
            return template
        return self._without_folder(key, text) if key in self._local and key in PUBLIC_KEYS else text

    def _without_folder(self, key: str, text: str) -> str:
        message = f"{key} takes @BaseFolder@, which stays as it is: callers read {key}, and no local path"
        self._report(key, Severity.WARNING, "local-path-in-public-key", message, "leave the path out")
        base = self._base_folder()
        return text.replace(base, "@BaseFolder@") if len(base) > 1 else text

    def code(self, key: str, template: str) -> Code:
        """The value of ``key`` as Python: what is the file's own is pasted, what is not gets a name."""
        texts: dict[str, str] = {}
        own = self.text(key, template)  # everything that could be pasted: no name may stand in it
        taken = {match[1] for match in _TAKEN_NAME.finditer(template + own)}
        prefix = next(f"_outside_{number}_" for number in count() if str(number) not in taken)

        def name_for(text: str) -> str:
            name = f"{prefix}{len(texts)}_"
            texts[name] = text
            return name

        try:
            return Code(self._expand(key, template, (key,), name_for), texts)
        except _Failed:
            return Code(template)

    def _expand(
        self, key: str, template: str, chain: tuple[str, ...], outside: Callable[[str], str] | None = None
    ) -> str:
        """``template`` filled in; a text from outside the file through ``outside`` first."""
        if self._left < 0:
            message = f"is not filled in: all values together are longer than {MAX_TOTAL} characters"
            raise self._failed(key, "value-too-long", message)
        pieces: list[str] = []
        length = end = 0
        for match in _placeholders(template):
            piece = self._replacement(key, match, chain)
            if outside is not None and self._comes_from_outside(match[1] or ""):
                piece = outside(piece)
            pieces += (template[end : match.start()], piece)
            length += len(piece)
            end = match.end()
            if length > MAX_LENGTH:
                raise self._failed(key, "value-too-long", f"becomes longer than {MAX_LENGTH} characters")
        pieces.append(template[end:])
        self._left -= length + len(template)
        return "".join(pieces)

    def _replacement(self, key: str, match: re.Match[str], chain: tuple[str, ...]) -> str:
        whole, body = match[0], match[1]
        if body is None:
            return self._fixed(key, whole)
        name, has_default, default = body.partition(":-")
        source, colon, argument = name.partition(":")
        if colon and source in _OUTSIDE:
            value = self._outside(source, argument, chain, bool(has_default))
        else:
            value = self._other_key(key, name, chain)
            if value is None and not has_default:
                self._unknown(key, whole, name)
                return whole
        return default if value is None else value

    def _comes_from_outside(self, body: str) -> bool:
        """Whether a placeholder stands for something that is not the file's own text."""
        name = body.partition(":-")[0]
        source, colon, _ = name.partition(":")
        return (bool(colon) and source in _OUTSIDE) or name.upper() in self.confidential

    def _fixed(self, key: str, placeholder: str) -> str:
        if placeholder == "$${":
            return "${"
        if placeholder == "@ENGINE@":
            return self._unique_name()
        self._local.add(key)
        return self._base_folder()

    def _base_folder(self) -> str:
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
            self._left -= MAX_LENGTH  # a file of nothing but chains would take long to fail
            raise self._failed(key, "substitution-chain", f"stands behind more than {MAX_CHAIN} keys")
        if other not in self._done:
            self._done[other] = self._expand(other, template, (*chain, other))
        for marked in (self.confidential, self.secret, self._local):
            if other in marked:
                marked.add(key)
        if is_secret_name(other):
            self.secret.add(key)
        return self._done[other]

    def _outside(self, source: str, name: str, chain: tuple[str, ...], has_default: bool) -> str | None:
        key = chain[-1]
        self.confidential.add(key)
        if (source, name) not in self._fetched:
            self._fetched[source, name] = self._fetch(source, name)
        value, reason, hint = self._fetched[source, name]
        telling = source == "secret" or (source == "env" and is_secret_name(name))
        if value is None and has_default:
            return None
        if telling:
            self.secret.add(key)
        if value is None:
            if telling and chain[0] in PUBLIC_KEYS:  # which is told, and where it comes from is not the point
                self.secret.update(chain)
                raise _Failed
            raise self._failed(
                key, f"unresolved-{source}", f"takes ${{{source}:{name}}}, which {reason}", hint
            )
        return value

    def _fetch(self, source: str, name: str) -> _Fetched:
        if len(self._fetched) >= MAX_FETCHED:
            return _Fetched(None, f"is one too many: a file takes at most {MAX_FETCHED} values from outside")
        try:
            if source == "env":
                return _Fetched(self._sources.env(name), "is not set", _ENV_HINT.format(name=name))
            if source == "secret":
                value = self._sources.secret(name)
                return _Fetched(value, "is not known", "" if value else self._sources.secret_place(name))
            return _Fetched(_without_line_end(self._sources.file(self._folder / name)))
        except EngineHostError as error:
            hint = error.hint if isinstance(error, ConfigError) else ""
            return _Fetched(None, f"cannot be had: {error.message}", hint)
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
            return _Fetched(None, f"cannot be read: {reason}", _file_hint(name, error))
        except ValueError:
            return _Fetched(
                None, "is not UTF-8 text, or has an impossible name", "secrets and values are text"
            )

    def _unknown(self, key: str, whole: str, name: str) -> None:
        message = f"{key}: there is no key {name!r}; {whole} stays as it is"
        hint = f"write $${whole[1:]} if it is meant as text"
        self._report(key, Severity.WARNING, "unknown-placeholder", message, hint)

    def _failed(self, key: str, code: str, message: str, hint: str = "") -> _Failed:
        self._report(key, Severity.ERROR, code, f"{key} {message}", hint)
        return _Failed()


_ENV_HINT = "set the environment variable {name}, or give a default: ${{env:{name}:-…}}"


def _file_hint(name: str, error: OSError) -> str:
    """What to do about a file that cannot be read."""
    if isinstance(error, KernelFile):
        return "what the kernel shows as files is refused; put the text into a file of your own"
    if isinstance(error, PermissionError):
        return "let the user that the host runs as read it"
    if not isinstance(error, FileNotFoundError):
        return ""
    where = "" if Path(name).is_absolute() else "the path starts in the folder of the smss file; "
    return f"{where}make the file, or give a default: ${{file:{name}:-…}}"


def is_secret_name(name: str) -> bool:
    """Whether a variable or key of this name holds a secret, as far as names can tell."""
    return len(name) <= _LONGEST_NAME and _SECRET_NAME.match(name) is not None


_LONGEST_NAME = 200


def _placeholders(template: str) -> Iterator[re.Match[str]]:
    """All placeholders in order.

    Behind the last ``}`` none is looked for that needs one: each ``${`` there would be followed to the end.
    """
    end = template.rfind("}") + 1
    yield from _PLACEHOLDER.finditer(template, 0, end)
    yield from _WITHOUT_BRACES.finditer(template, end)


def is_one_placeholder(template: str) -> bool:
    """Whether the whole text is one ``${…}``, so that its value takes the place of the text."""
    match = _PLACEHOLDER.fullmatch(template.strip())
    return match is not None and match[1] is not None


def may_change(template: str) -> bool:
    """Whether expanding could change the text: a cheap test that saves most values the work."""
    return "${" in template or "@ENGINE@" in template or "@BaseFolder@" in template


def referenced_keys(template: str) -> set[str]:
    """The keys (in upper case) that the text takes values from."""
    bodies = (match[1] for match in _placeholders(template) if match[1] is not None)
    return {body.partition(":-")[0].upper() for body in bodies}


def _without_line_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")
