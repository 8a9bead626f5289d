"""Without a licence, and without the library, the host says what is missing and what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from enginehost_connext import plugin

from enginehost.databus import DatabusConfig
from enginehost.errors import EngineUnavailable
from enginehost.hooks import TransportFactory


def test_the_transport_is_called_connext() -> None:
    offered: dict[str, TransportFactory] = {}
    plugin.register_transports(offered.__setitem__)
    assert list(offered) == ["connext"]


def test_nothing_of_rti_s_is_loaded_before_a_host_joins() -> None:
    program = (
        "import sys, enginehost_connext.plugin; print(sorted(m for m in sys.modules if m.startswith('rti')))"
    )
    source = Path(__file__).parents[1] / "src"
    environment = os.environ | {"PYTHONPATH": str(source)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rti.connextdds", None)
    for name in [name for name in sys.modules if name.startswith("enginehost_connext.")]:
        if name != plugin.__name__:
            monkeypatch.delitem(sys.modules, name)
    with pytest.raises(EngineUnavailable, match=r'pip install "rti.connext') as caught:
        plugin.join(DatabusConfig())
    assert caught.value.detail["reason"] == "no-dds-library"


def test_a_missing_licence_is_named_with_where_it_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rti.connextdds", reason="rti.connext is not installed")
    monkeypatch.chdir(tmp_path)
    for name in ("RTI_LICENSE_FILE", "NDDSHOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(EngineUnavailable) as caught:
        plugin.join(DatabusConfig(domain=63))
    assert caught.value.detail["reason"] == "no-licence"
    text = str(caught.value)
    for word in ("No source for License information", "RTI_LICENSE_FILE", "rti_license.dat", "NDDSHOME"):
        assert word in text
    assert "limited licence" in text
    assert "cyclone" in text
    assert str(tmp_path) not in text
    assert capfd.readouterr().err == ""


def test_another_refusal_has_rti_s_own_reason() -> None:
    pytest.importorskip("rti.connextdds", reason="rti.connext is not installed")
    from enginehost_connext.licence import refusal

    error = refusal("\n[ERROR] no such interface eth7\nmore", "DDS domain 3 on eth7")
    assert str(error) == "RTI Connext cannot join DDS domain 3 on eth7: [ERROR] no such interface eth7"
    assert "gives no reason" in str(refusal("", "DDS domain 3 on eth7"))
