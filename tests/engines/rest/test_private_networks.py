"""No address of a private network is reached where the host says so, however it is dressed."""

from typing import Any

import anyio
import pytest

from enginehost.engine import HostAccess
from enginehost.errors import EngineUnavailable
from enginehost_engines.rest.guard import PublicOnly


async def test_a_private_address_is_refused_where_the_host_says_so(make: Any, server: Any, kit: Any) -> None:
    access = HostAccess(private_networks=False)
    for host in ("127.0.0.1", "localhost"):
        with pytest.raises(EngineUnavailable, match="private network"):
            await make(access=access, URL=f"http://{host}:{server.port}/").execute({}, kit.call())
    assert server.opened == 0


async def test_the_address_that_was_checked_is_the_one_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    class Inner(PublicOnly):
        async def connect_tcp(self, host: str, *args: Any, **kwargs: Any) -> Any:
            tried.append(host)
            return "stream"

    async def resolve(*_: Any, **__: Any) -> Any:
        return [(0, 0, 0, "", (address, 80)) for address in ("10.0.0.1", "93.184.215.14", "8.8.8.8")]

    monkeypatch.setattr(anyio, "getaddrinfo", resolve)
    assert await PublicOnly(Inner()).connect_tcp("rebind.example", 80) == "stream"
    assert tried == ["93.184.215.14"]
