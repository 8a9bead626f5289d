"""Where the bus may run."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from enginehost.databus import Databus, DatabusConfig
from enginehost.databus.config import config_for, config_of
from enginehost.errors import ConfigError, EngineUnavailable
from enginehost.settings import HostSettings


@pytest.mark.parametrize(
    "wrong",
    [
        {"domain": -1},
        {"domain": 233},
        {"service": ""},
        {"service": "a\0b"},
        {"service": "é" * 129},
        {"interface": ""},
        {"interface": "größe"},
        {"peers": ("10.0.0.1", "a\nb")},
        {"fragment_bytes": 65_000},
        {"max_in_flight": 0},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong):
    with pytest.raises(ConfigError):
        DatabusConfig(**wrong)


@pytest.mark.parametrize("interface", ["127.0.0.1", "lo", "lo0", "localhost", "::1"])
def test_loopback_never_multicasts_and_is_found_on_every_system(interface):
    pytest.importorskip("cyclonedds")
    from enginehost.databus.cyclone.domain import domain_xml

    config = DatabusConfig(interface=interface)
    assert config.loopback
    found = ET.fromstring(domain_xml(config))
    address = "::1" if interface == "::1" else "127.0.0.1"
    assert found.find(".//NetworkInterface").attrib == {"address": address}
    assert found.find(".//AllowMulticast").text == "false"
    assert [peer.attrib["address"] for peer in found.iter("Peer")] == [address]


def test_a_named_interface_and_peers_are_taken_as_they_are():
    pytest.importorskip("cyclonedds")
    from enginehost.databus.cyclone.domain import domain_xml

    config = DatabusConfig(interface='eth"0', peers=("10.0.0.7",), fragment_bytes=1_300)
    assert not config.loopback
    found = ET.fromstring(domain_xml(config))
    assert found.find(".//NetworkInterface").attrib == {"name": 'eth"0'}
    assert found.find(".//AllowMulticast").text == "default"
    assert [peer.attrib["address"] for peer in found.iter("Peer")] == ["10.0.0.7"]
    assert found.find(".//FragmentSize").text == "1300B"


def test_the_bus_runs_no_more_calls_at_once_than_its_host():
    settings = HostSettings(max_in_flight=7)
    for wanted, calls in (("auto", 7), (DatabusConfig(), 7), (DatabusConfig(max_in_flight=3), 3)):
        config = config_for(wanted, settings)
        assert config is not None
        assert config.max_in_flight == calls
        assert config.state_dir == settings.state_dir


def test_the_bus_loads_its_library_only_when_it_starts():
    code = "import enginehost.databus, sys; sys.exit('cyclonedds' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_without_the_library_the_reason_is_told(monkeypatch):
    class Host:
        folder: Path | None = None

    for loaded in [name for name in sys.modules if name.startswith("enginehost.databus.cyclone")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, "cyclonedds", None)
    for loaded in [name for name in sys.modules if name.startswith("cyclonedds.")]:
        monkeypatch.setitem(sys.modules, loaded, None)
    bus = Databus(Host(), DatabusConfig())
    with pytest.raises(EngineUnavailable, match="not installed"):
        await bus.start()
    assert bus.describe()["joined"] is False
    await bus.stop()


def test_keys_are_kept_beside_the_host_s_id_unless_a_setting_says_where(tmp_path: Path):
    config = config_of(HostSettings(state_dir=tmp_path))
    assert config.key_path == tmp_path / "databus" / "key.pem"
    assert config.trust_path == tmp_path / "databus" / "trusted.yaml"
    own = HostSettings.model_validate({"databus": {"key_file": tmp_path / "k", "trust_file": tmp_path / "t"}})
    assert (config_of(own).key_path, config_of(own).trust_path) == (tmp_path / "k", tmp_path / "t")
    assert DatabusConfig().key_path is DatabusConfig().trust_path is None


@pytest.mark.parametrize(
    ("said", "interface", "anybody"),
    [
        ({}, "lo", True),
        ({}, "eth0", False),
        ({"accept": "any"}, "eth0", True),
        ({"accept": "trusted"}, "lo", False),
    ],
)
def test_whose_functions_are_let_in(said, interface, anybody):
    settings = HostSettings.model_validate({"databus": said | {"interface": interface}})
    assert config_of(settings).accepts_any is anybody
