"""Which addresses a host that allows no private networks lets a model engine reach."""

from __future__ import annotations

import httpcore2
import pytest

from enginehost.llm.public_only import public_address


async def test_a_name_without_a_public_address_is_refused() -> None:
    with pytest.raises(httpcore2.ConnectError, match="private_networks"):
        await public_address("localhost", 80)
