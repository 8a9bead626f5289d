"""From an answer's bytes to the function's result."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator, Callable
from typing import Any

from enginehost.errors import ConfigError, ExecutionFailed, TooLarge
from enginehost.values import MalformedJson, decode
from enginehost_engines.rest.body import find
from enginehost_engines.rest.placement import read_pointer

NOTHING: Any = object()
"""What a selector answers where the path leads nowhere."""

Selector = Callable[[Any], Any]

MOST_IN_PATH = 2000
"""Characters of ``RESPONSE_PATH``."""

_TEXT_TYPES = frozenset(
    [
        "application/xml",
        "application/javascript",
        "application/ecmascript",
        "application/x-www-form-urlencoded",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/graphql",
        "application/sql",
        "application/rtf",
        "application/x-ndjson",
        "application/jsonl",
        "application/json-seq",
        "image/svg+xml",
    ]
)
_TEXT_SUFFIXES = ("+xml", "+yaml", "+json-seq")


class MediaType:
    """A ``Content-Type`` taken apart: ``essence`` in lower case, ``charset`` a codec Python has."""

    __slots__ = ("charset", "essence")

    def __init__(self, header: str) -> None:
        essence, _, parameters = header.partition(";")
        self.essence = essence.strip().lower()
        self.charset = _charset(parameters)

    @property
    def is_json(self) -> bool:
        """``application/json``, ``text/json`` or ``…+json``."""
        return self.essence in ("application/json", "text/json") or self.essence.endswith("+json")

    @property
    def is_text(self) -> bool:
        """Whether people read it."""
        essence = self.essence
        return essence.startswith("text/") or essence in _TEXT_TYPES or essence.endswith(_TEXT_SUFFIXES)

    def text(self, body: bytes) -> str:
        """The body as text; what the charset does not have becomes U+FFFD."""
        if self.charset == "utf-8" and body.startswith(codecs.BOM_UTF8):
            body = body[3:]
        try:
            return body.decode(self.charset, errors="replace")
        except ValueError:  # a few codecs, such as idna, cannot replace
            return body.decode(errors="replace")


def _charset(parameters: str) -> str:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip("\"'")
            try:
                "".encode(charset)  # codecs.lookup would also find base64 and zlib
                return codecs.lookup(charset).name
            except (LookupError, ValueError):
                break
    return "utf-8"


def shape(body: bytes, media: MediaType, host: str, status: int) -> Any:
    """JSON as what it says, text as ``str``, anything else as ``bytes``; an empty body is ``None``."""
    if not body:
        return None
    if media.is_json:
        return parse_json(body, media, host, status)
    if media.is_text:
        return media.text(body)
    if not media.essence:
        try:
            return body.decode()
        except UnicodeDecodeError:
            return body
    return body


def parse_json(body: bytes, media: MediaType, host: str, status: int) -> Any:
    """The value of a JSON text; :class:`ExecutionFailed` where it is none."""
    if media.charset != "utf-8" or body.startswith(codecs.BOM_UTF8):
        body = media.text(body).encode()
    try:
        return decode(body)
    except MalformedJson as error:
        raise ExecutionFailed(
            f"{host} answered {status} with {media.essence} that is no JSON", detail={"status": status}
        ) from error


async def read_body(chunks: AsyncIterator[bytes], limit: int, host: str) -> bytes:
    """The whole body; :class:`TooLarge` as soon as it is over ``limit`` bytes (after decompression)."""
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise TooLarge(f"the answer of {host} (MAX_RESPONSE_BYTES)", limit=limit)
        parts.append(chunk)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def make_selector(path: str | None) -> Selector | None:
    """What ``RESPONSE_PATH`` asks for: a JSON Pointer (begins with ``/``) or a JMESPath expression."""
    if not path:
        return None
    if len(path) > MOST_IN_PATH:
        raise ConfigError(
            f"RESPONSE_PATH is longer than {MOST_IN_PATH} characters", reason="bad-response-path"
        )
    if path.startswith("/"):
        return _by_pointer(read_pointer("RESPONSE_PATH", path))
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        expression = jmespath.compile(path)
    except JMESPathError:
        raise ConfigError(
            "RESPONSE_PATH is neither a JSON Pointer nor a JMESPath expression",
            hint="write /data/0/name or data[0].name",
            reason="bad-response-path",
        ) from None
    return _by_expression(expression)


def _by_pointer(tokens: tuple[str, ...]) -> Selector:
    def select(value: Any) -> Any:
        try:
            return find(value, tokens)
        except ValueError:
            return NOTHING

    return select


def _by_expression(expression: Any) -> Selector:
    from jmespath.exceptions import JMESPathError

    def select(value: Any) -> Any:
        try:
            found = expression.search(value)
        except JMESPathError:
            return NOTHING
        return NOTHING if found is None else found

    return select
