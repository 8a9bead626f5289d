"""Which addresses a host that allows no private networks lets a model engine reach."""

from __future__ import annotations

import httpcore2
import pytest

from enginehost.llm.public_only import is_public, public_address


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700:4700::1111", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("169.254.169.254", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:8.8.8.8", True),
        ("2002:7f00:1::", False),
        ("64:ff9b::7f00:1", False),
    ],
)
def test_only_global_unicast_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(address) is public


async def test_a_name_without_a_public_address_is_refused() -> None:
    with pytest.raises(httpcore2.ConnectError, match="private_networks"):
        await public_address("localhost", 80)
