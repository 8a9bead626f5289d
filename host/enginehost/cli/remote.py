"""A running host, asked over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any, Self
from urllib.parse import quote, urlsplit

import httpx2

from enginehost.address import is_loopback
from enginehost.cli.failures import CommandError, NoHost
from enginehost.cli.secrecy import keep_secret
from enginehost.errors import EngineHostError, error_from_json
from enginehost.values import encode, read, write

_CONNECT_SECONDS = 5.0
_GRACE_SECONDS = 5.0
"""How long the answer of a call with a deadline may be on its way after it."""
_SILENT_SECONDS = 45.0
"""A host gives a sign of life every 15 s."""
_PAGE = 1000
_STANDARD = frozenset({"type", "title", "status", "detail", "code", "instance"})
"""The members of a problem document that are not part of the error's detail."""


class RemoteSource:
    """The functions that the host at ``url`` shows to whoever holds ``token``."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CommandError(f"{url!r} is no URL of a host", hint="write http://127.0.0.1:8484")
        self.url = parts.geturl().rstrip("/")
        keep_secret(token, parts.password)
        self._client = httpx2.AsyncClient(
            base_url=self.url,
            headers={"authorization": f"Bearer {token}"} if token else {},
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
            trust_env=not is_loopback(parts.hostname),  # no proxy leads to this machine
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def functions(self, tags: Sequence[str]) -> list[dict[str, Any]]:
        """The functions in short, sorted by name."""
        found: list[dict[str, Any]] = []
        query: dict[str, Any] = {"limit": _PAGE, "tags": ",".join(tags)}
        while True:
            response = await self._send("GET", "/v1/functions", query=query)
            found += self._member(response, "functions")
            page = self._read(response)
            if "next_cursor" not in page:
                return found
            query["cursor"] = page["next_cursor"]

    async def describe(self, name: str) -> dict[str, Any]:
        """Everything there is to know of a function."""
        return await self._get(_path(name))

    async def spec(self, name: str, kind: str) -> dict[str, Any]:
        """The function's spec of a kind."""
        return await self._get(_path(name), {"format": kind})

    async def tools(
        self, kind: str, tags: Sequence[str], query: str = "", most: int | None = None
    ) -> list[dict[str, Any]]:
        """The functions as tools; with a query those that fit it, the best first, at most ``most``."""
        asked: dict[str, Any] = {"format": kind, "tags": ",".join(tags)}
        asked |= {"query": query} if query else {}
        return await self._get("/v1/tools", asked | ({} if most is None else {"most": most}))

    async def engines(self) -> list[dict[str, Any]]:
        """The engines with their states."""
        return self._member(await self._send("GET", "/v1/engines"), "engines")

    async def problems(self) -> list[dict[str, Any]] | None:
        """What is wrong with the host as a whole; ``None`` where this caller may not know."""
        return (await self._get("/v1/engines")).get("problems")

    async def status(self) -> str:
        """What the host says of itself: ready, loading or draining."""
        return self._member(await self._send("GET", "/readyz"), "status", check=False)

    async def call(self, name: str, arguments: Mapping[str, Any], timeout: float | None) -> bytes:
        """The result as JSON."""
        return write(self._member(await self._send("POST", _path(name), arguments, timeout), "result"))

    async def stream(
        self, name: str, arguments: Mapping[str, Any], timeout: float | None
    ) -> AsyncIterator[bytes]:
        """The items as they come, each as JSON."""
        request = self._request("POST", _path(name), arguments, timeout)
        request.headers["accept"] = "text/event-stream"
        response = await self._sent(request, stream=True)
        try:
            if not response.is_success:
                await response.aread()
                self._check(response)
            async for _, event, data in _events(response):
                if event == "error":
                    raise _error(read(data), self.url)
                if event == "done":
                    return
                yield data
        except httpx2.TransportError as error:
            raise self._lost(error) from error
        finally:
            await response.aclose()
        raise NoHost(f"the stream of {self.url} ended early", hint="the host may have stopped")

    async def ask(
        self, method: str, path: str, body: Any = None, query: Mapping[str, Any] | None = None
    ) -> Any:
        """The JSON that a path answers with."""
        response = await self._send(method, path, body, query=query)
        self._check(response)
        return self._read(response)

    async def follow(self, path: str, after: str) -> AsyncGenerator[tuple[str, str, bytes], None]:
        """The server-sent events of a path after one, as (id, name, data), until the host ends them.

        Raises ``NoHost`` where the connection breaks, or is silent for longer than a host's signs of life.
        """
        request = self._request("GET", path)
        request.headers["accept"] = "text/event-stream"
        if after:
            request.headers["last-event-id"] = after
        wait = httpx2.Timeout(_SILENT_SECONDS, connect=_CONNECT_SECONDS)
        request.extensions["timeout"] = wait.as_dict()
        response = await self._sent(request, stream=True)
        try:
            if not response.is_success:
                await response.aread()
                self._check(response)
            async for event in _events(response):
                yield event
        except httpx2.TransportError as error:
            raise self._lost(error) from error
        finally:
            await response.aclose()

    async def _get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        response = await self._send("GET", path, query=query)
        self._check(response)
        return self._read(response)

    async def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        timeout: float | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> httpx2.Response:
        return await self._sent(self._request(method, path, body, timeout, query))

    def _request(
        self,
        method: str,
        path: str,
        body: Any = None,
        timeout: float | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> httpx2.Request:
        headers = {"content-type": "application/json"} if body is not None else {}
        wait = httpx2.Timeout(timeout + _GRACE_SECONDS if timeout else None, connect=_CONNECT_SECONDS)
        if timeout:
            headers["request-timeout"] = f"{timeout:g}"
        return self._client.build_request(
            method,
            path,
            params={key: value for key, value in (query or {}).items() if value != ""},
            content=encode(body) if body is not None else None,
            headers=headers,
            timeout=wait,
        )

    async def _sent(self, request: httpx2.Request, *, stream: bool = False) -> httpx2.Response:
        try:
            return await self._client.send(request, stream=stream)
        except httpx2.TransportError as error:
            raise self._lost(error) from error

    def _lost(self, error: Exception) -> NoHost:
        reason = str(error) or type(error).__name__
        return NoHost(f"no host answers at {self.url}: {reason}", hint="start one with `enginehost run`")

    def _read(self, response: httpx2.Response) -> Any:
        try:
            return read(response.content)
        except EngineHostError:
            raise self._stranger(response) from None

    def _member(self, response: httpx2.Response, name: str, *, check: bool = True) -> Any:
        """One member of the JSON object that a host answers with."""
        if check:
            self._check(response)
        body = self._read(response)
        if not isinstance(body, dict) or name not in body:
            raise self._stranger(response)
        return body[name]

    def _check(self, response: httpx2.Response) -> None:
        if response.is_success:
            return
        found = self._read(response) if "json" in response.headers.get("content-type", "") else None
        if not isinstance(found, dict) or "code" not in found:
            raise self._stranger(response)
        raise _error(found, self.url)

    def _stranger(self, response: httpx2.Response) -> NoHost:
        return NoHost(
            f"{self.url} answered {response.status_code}, and not as a host does",
            hint="give the URL of an enginehost, such as http://127.0.0.1:8484",
        )


def _path(name: str) -> str:
    return f"/v1/functions/{quote(name, safe='')}"


def _error(problem: dict[str, Any], url: str) -> EngineHostError:
    body = problem.get("error")
    if not isinstance(body, dict):  # a host of before 0.1 has the detail's members here alone
        detail = {key: value for key, value in problem.items() if key not in _STANDARD}
        body = {"code": problem["code"], "message": problem.get("detail", ""), "detail": detail}
    error = error_from_json(body)
    if error.code == "unauthorized":
        error.detail.setdefault("hint", f"give a token that {url} knows: --token, or ENGINEHOST_TOKEN")
    return error


async def _events(response: httpx2.Response) -> AsyncIterator[tuple[str, str, bytes]]:
    """Server-sent events as (id, name, data)."""
    place, name, data = "", "", list[bytes]()
    async for line in _lines(response):
        field, _, value = line.partition(b":")
        if field == b"event":
            name = value.removeprefix(b" ").decode()
        elif field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"id":
            place = value.removeprefix(b" ").decode()
        elif not line and data:
            yield place, name, b"\n".join(data)
            place, name, data = "", "", []


async def _lines(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The lines of a stream; unlike the library's, text such as U+2028 does not end one."""
    rest = b""
    async for chunk in response.aiter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
