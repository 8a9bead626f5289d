"""What monitors are told of the log."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from enginehost.databus.config import DatabusConfig
from enginehost.databus.log_events import LOGS
from enginehost.errors import ConfigError
from enginehost.settings import load_settings

from .monitored import SECRET, running


async def test_the_log_goes_out_without_secrets_paths_and_what_functions_print() -> None:
    async with running(LOGS) as on:
        on.host.redactor.add(SECRET)
        await on.start()
        log = logging.getLogger("enginehost.host")
        log.warning("the key %s of /home/ada/smss/x.smss does not fit", SECRET)
        log.info("not severe enough")
        await asyncio.to_thread(log.warning, "from another thread")
        logging.getLogger("enginehost.engine.e").error("a function printed its arguments")
        logging.getLogger("enginehost.databus").error("would go round in circles")
        try:
            raise ValueError("of a function's arguments")
        except ValueError:
            log.exception("it broke")
        await on.monitor.until(lambda: len(on.told(LOGS)) == 3)
    first, elsewhere, second = on.told(LOGS)
    assert first["message"] == "the key *** of x.smss does not fit"
    assert (first["level"], first["level_name"]) == (logging.WARNING, "WARNING")
    assert (first["source_id"], first["source_name"]) == (on.identity.host_id, "shop")
    assert (first["logger_name"], first["file_name"]) == ("enginehost.host", "test_log_events.py")
    assert second["message"] == "it broke (ValueError)"
    assert elsewhere["message"] == "from another thread"
    assert elsewhere["thread_name"] != first["thread_name"] == "MainThread"
    assert not any(type(one).__name__ == "LogEvents" for one in logging.getLogger("enginehost").handlers)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"log_level": "info"}, ["info", "warning"]),
        ({"log_level": "error"}, []),
        ({"log_level": "off"}, []),
        ({"interface": "192.0.2.1"}, []),
        ({"interface": "192.0.2.1", "log_level": "warning"}, ["warning"]),
        ({"events": False}, []),
    ],
)
async def test_the_settings_say_how_much_of_the_log_goes_out(
    config: dict[str, Any], told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "enginehost")
    async with running(LOGS) as on:
        await on.start(**config)
        logging.getLogger("enginehost.host").info("info")
        logging.getLogger("enginehost.host").warning("warning")
        await asyncio.sleep(0)  # in which they reach the events, whose last are written at the end
    assert [event["message"] for event in on.told(LOGS)] == told


async def test_a_program_without_logging_of_its_own_still_prints_its_warnings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("enginehost"), "handlers", [])  # what another test has left
    async with running(LOGS) as on:
        await on.start()
        monkeypatch.setattr(logging.getLogger(), "handlers", [])
        logging.getLogger("enginehost.host").warning("printed, and told")
        await on.monitor.until(lambda: on.told(LOGS))
    assert capsys.readouterr().err.count("printed, and told") == 1


def test_the_settings_of_events_are_read(tmp_path: Any) -> None:
    file = tmp_path / "enginehost.yaml"
    file.write_text("databus: {events: false, log_level: off}\n")
    bus = load_settings(config=file, environ={}).databus
    assert (bus.events, bus.log_level) == (False, "off")
    with pytest.raises(ConfigError, match="loud"):
        DatabusConfig(log_level="loud")
