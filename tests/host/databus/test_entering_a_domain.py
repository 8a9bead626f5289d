"""Settings of the network with which a host cannot join."""

from __future__ import annotations

import pytest

from enginehost.databus import Databus, DatabusConfig
from enginehost.errors import ConfigError, EngineUnavailable


async def test_a_domain_with_other_settings_in_this_process_is_refused(start_host, dds_domain):
    host, _ = await start_host()
    other = Databus(host, DatabusConfig(domain=dds_domain, fragment_bytes=1_300))
    with pytest.raises(EngineUnavailable, match="other network settings"):
        await other.start()
    assert not other.describe()["joined"]
    await other.stop()


async def test_an_interface_that_does_not_exist_is_a_clear_error(start_host, dds_domain):
    host, bus = await start_host()
    await bus.stop()
    other = Databus(host, DatabusConfig(domain=dds_domain, interface="nosuch0"))
    with pytest.raises(ConfigError, match="nosuch0"):
        await other.start()
    await bus.start()
    assert bus.describe()["joined"]
