"""No address of a private network is reached where the host says so, however it is dressed."""

from typing import Any

import anyio
import pytest

from enginehost.engine import HostAccess
from enginehost.errors import EngineUnavailable
from enginehost_engines.rest.guard import PublicOnly, is_public


async def test_a_private_address_is_refused_where_the_host_says_so(make: Any, server: Any, kit: Any) -> None:
    access = HostAccess(private_networks=False)
    for host in ("127.0.0.1", "localhost"):
        with pytest.raises(EngineUnavailable, match="private network"):
            await make(access=access, URL=f"http://{host}:{server.port}/").execute({}, kit.call())
    assert server.opened == 0


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.0.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:8.8.8.8", True),
        ("2002:7f00:1::", False),
        ("64:ff9b::a00:1", False),
        ("64:ff9b::808:808", True),
    ],
)
def test_private_addresses_are_recognised_in_every_dress(address: str, public: bool) -> None:
    assert is_public(address) is public


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
