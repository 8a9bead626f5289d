"""The base of engines that ask their provider over HTTP with a client of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from enginehost.engine import EngineContext
from enginehost.llm.config import ModelConfig
from enginehost.llm.exchange import make_client, timeouts
from enginehost.llm.model import AbstractModelEngine

if TYPE_CHECKING:
    import httpx2


class HttpModelEngine(AbstractModelEngine):
    """A model behind one client. Subclasses call :meth:`connect` when they open."""

    def __init__(self, context: EngineContext, config: ModelConfig) -> None:
        super().__init__(context, config)
        self._http: httpx2.AsyncClient | None = None

    def connect(self, headers: Mapping[str, str] | None = None) -> None:
        """Make the client; ``headers`` go with every request."""
        self._http = make_client(self.context.access, headers)

    async def close(self) -> None:
        """Close all connections."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    @property
    def client(self) -> httpx2.AsyncClient:
        """The client. Raises ``RuntimeError`` before :meth:`connect`."""
        if self._http is None:
            raise RuntimeError("the engine is not open")
        return self._http

    def request(self, method: str, url: str, timeout: float | None = None, **more: Any) -> httpx2.Request:
        """A request of the client; ``timeout`` seconds for the next byte, by default the file's."""
        limits = timeouts(self.config.connect_timeout, timeout or self.config.read_timeout)
        return self.client.build_request(method, url, timeout=limits, **more)
