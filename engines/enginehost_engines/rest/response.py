"""From an answer's bytes to the function's result."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from enginehost.errors import ConfigError, ExecutionFailed, TooLarge
from enginehost.values import MalformedJson, decode
from enginehost_engines.rest.body import find
from enginehost_engines.rest.media import LINE, MediaType
from enginehost_engines.rest.placement import read_pointer

if TYPE_CHECKING:
    from httpx2 import Response

NOTHING: Any = object()
"""What a selector answers where the path leads nowhere."""

Selector = Callable[[Any], Any]

MOST_IN_PATH = 2000
"""Characters of ``RESPONSE_PATH``."""

_CODINGS = frozenset({"", "identity", "gzip", "deflate"})
"""What ``Content-Encoding`` may say: nothing else is asked for, or could be undone."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its whole body, decompressed. Names of ``headers`` are in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def shape(body: bytes, media: MediaType, host: str, status: int) -> Any:
    """JSON as what it says, JSON lines as a list of values, text as ``str``, anything else as ``bytes``.

    An empty body is ``None``.
    """
    if not body:
        return None
    if media.is_lines:
        lines = media.text(body, host, status).split("\n")
        return [parse_json(line.encode(), LINE, host, status) for line in lines if line.strip()]
    if media.is_json:
        return parse_json(body, media, host, status)
    if media.is_text:
        return media.text(body, host, status)
    if not media.essence:
        try:
            return body.decode()
        except UnicodeDecodeError:
            return body
    return body


def parse_json(body: bytes, media: MediaType, host: str, status: int) -> Any:
    """The value of a JSON text; :class:`ExecutionFailed` where it is none."""
    if media.charset != "utf-8" or body[:1] in b"\xef\xff\xfe\x00":
        try:
            body = media.text(body, host, status).encode()
        except ExecutionFailed:
            if media.charset != "utf-8":
                raise
    try:
        return decode(body)
    except MalformedJson as error:
        raise ExecutionFailed(
            f"{host} answered {status} with {media.essence} that is no JSON", detail={"status": status}
        ) from error


async def read_answer(response: Response, limit: int, host: str) -> Answer:
    """The whole answer; what :func:`read_body` and :func:`check_coding` raise."""
    check_coding(response.headers, host)
    body = await read_body(response.aiter_bytes(), limit, host)
    return Answer(response.status_code, response.headers, body)


def check_coding(headers: Mapping[str, str], host: str) -> None:
    """Raise :class:`ExecutionFailed` for a compression nobody asked for: it would pass for the content."""
    codings = headers.get("content-encoding")
    for coding in codings.split(",") if codings else ():
        if coding.strip().lower() not in _CODINGS:
            message = f"{host} sent a body in the Content-Encoding {coding.strip()[:40]!r}"
            raise ExecutionFailed(f"{message}, which was not asked for and is not known here")


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


def make_selector(path: str | None, key: str = "RESPONSE_PATH") -> Selector | None:
    """What ``key`` asks for: a JSON Pointer (begins with ``/``) or a JMESPath expression."""
    if not path:
        return None
    if len(path) > MOST_IN_PATH:
        raise ConfigError(f"{key} is longer than {MOST_IN_PATH} characters", reason="bad-response-path")
    if path.startswith("/"):
        return _by_pointer(_tokens(path, key))
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        expression = jmespath.compile(path)
    except JMESPathError:
        raise ConfigError(
            f"{key} is neither a JSON Pointer nor a JMESPath expression",
            hint="write /data/0/name or data[0].name",
            reason="bad-response-path",
        ) from None
    return _by_expression(expression)


def _tokens(path: str, key: str) -> tuple[str, ...]:
    try:
        return read_pointer(key, path)
    except ConfigError as error:
        message = f"{key} is a malformed JSON Pointer"
        raise ConfigError(message, hint=error.hint, reason="bad-response-path") from None


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
