"""Where the bus may run."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginehost.address import parse_peer
from enginehost.databus import Client, Databus, DatabusConfig, SyncClient
from enginehost.databus.config import config_for, config_of
from enginehost.databus.transports import find_transport
from enginehost.errors import ConfigError, EngineUnavailable
from enginehost.settings import HostSettings

WRONG_PEERS = (
    "999.1.1.1", "127.0.0.1:99999", "127.0.0.1:0", "<x>", "a b", "0.0.0.0", "[::]", "a:b", "[1.2.3.4", "-a",
    "a..b", "größe", "x" * 64,
)  # fmt: skip


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
        {"domain": "7"},
        {"domain": True},
        {"lease": "2"},
        {"accept": "all"},
        {"sign": "yes"},
        {"sign": 1},
        {"transport": None},
        {"transport": ""},
        {"profiles": ("genesis3",)},
        {"events": 1},
        {"peers": (1,)},
        {"peers": 7},
        {"tags": {"a": 1}},
        {"state_dir": 3},
        {"key_file": ""},
        {"max_result_bytes": 0},
        {"let_in_services": ()},
        {"let_in_functions": []},
        {"let_in_tags": ""},
        *({"peers": (peer,)} for peer in WRONG_PEERS),
    ],
)
def test_settings_that_cannot_work_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(
        ConfigError, match=name.removesuffix("_bytes") if name == "fragment_bytes" else name
    ) as caught:
        DatabusConfig(**wrong)
    assert "\n" not in str(caught.value)


def test_values_that_can_only_mean_one_thing_are_taken(tmp_path):
    config = DatabusConfig(
        peers="127.0.0.1, plant-b.example:7410",
        tags=["a"],
        trust_file=str(tmp_path / "t"),
        state_dir=str(tmp_path),
        let_in_services="calc,shop",
        lease=3,
    )
    assert config.peers == ("127.0.0.1", "plant-b.example:7410")
    assert (config.tags, config.let_in_services) == (("a",), ("calc", "shop"))
    assert config.trust_path == tmp_path / "t"
    assert config.key_path == tmp_path / "databus" / "key.pem"


def test_a_misspelt_option_is_told_with_the_nearest_one():
    for make in (DatabusConfig, Client, SyncClient):
        with pytest.raises(ConfigError, match="'peer'") as caught:
            make(peer="127.0.0.1")
        assert caught.value.hint == "did you mean peers?"
    with pytest.raises(ConfigError, match="directory=False"):
        Client(directory=False)


@pytest.mark.parametrize("peer", ["10.0.0.7", "10.0.0.7:7410", "host", "a-b.example.:1", "::1", "[::1]:7410"])
def test_names_and_addresses_are_peers(peer):
    assert HostSettings.model_validate({"databus": {"peers": peer}}).databus.peers == (peer,)


@pytest.mark.parametrize("peer", WRONG_PEERS)
def test_what_is_neither_name_nor_address_is_told_as_a_setting_too(peer):
    with pytest.raises(ConfigError, match=r"databus\.peers"):
        HostSettings(databus={"peers": [peer]})


@given(st.text(max_size=30))
def test_no_text_breaks_the_reader_of_peers(text):
    with suppress(ValueError):
        _, port = parse_peer(text)
        assert port is None or 1 <= port <= 65535


def test_an_empty_list_never_comes_to_let_in_everything():
    for name in ("let_in_services", "let_in_functions", "let_in_tags"):
        for empty in ([], "", ",", None):
            with pytest.raises(ConfigError, match="leave the key out"):
                HostSettings(databus={name: empty})
    assert config_of(HostSettings()).let_in_services is None


def test_peers_without_an_address_never_reach_the_library(dds_domain):
    pytest.importorskip("cyclonedds")
    code = (
        "from enginehost.databus import SyncClient\n"
        f"with SyncClient(domain={dds_domain}, peers='nope.invalid,127.0.0.1:7410,::1') as bus:\n"
        "    about = bus._client.describe()\n"
        "    print(about['unresolved_peers'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "['nope.invalid', '::1']\n"), done.stderr
    assert "left out: nope.invalid, ::1" in done.stderr


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


@pytest.mark.parametrize(
    "failure",
    [MemoryError("no room"), ImportError("libddsc.so: cannot allocate"), ModuleNotFoundError("x", name="x")],
)
async def test_a_library_that_cannot_be_loaded_says_why(monkeypatch, failure):
    class Failing:
        def find_spec(self, name, *_):
            if name == "enginehost.databus.cyclone":
                raise failure

    for name in ("enginehost.databus.cyclone", "enginehost.databus.cyclone.transport"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Failing(), *sys.meta_path])
    with pytest.raises(EngineUnavailable, match=f"cannot be loaded: {type(failure).__name__}"):
        find_transport("cyclone", {})(DatabusConfig())


async def test_a_full_domain_is_called_full(monkeypatch):
    domain = pytest.importorskip("enginehost.databus.cyclone.domain")
    monkeypatch.setattr(domain, "is_full", lambda number, most: most == 111)
    assert "is full" in domain.not_joined(DatabusConfig()).message
    assert "enginehost databus" in domain.not_joined(DatabusConfig()).message


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
