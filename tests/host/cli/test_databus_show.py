"""``enginehost databus``: the page, its JSON, what happens meanwhile, and words that make no sense."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from enginehost.cli.databus.page import shortened

from .conftest import Cli

pytest.importorskip("cyclonedds")


@contextmanager
def running(folder: Path, domain: int) -> Generator[subprocess.Popen[str]]:
    """A host of the folder on the bus, without HTTP; ready when this begins."""
    command = (sys.executable, "-m", "enginehost", "run", str(folder), "--no-http", "--log", "json")
    with subprocess.Popen(
        (*command, "--domain", str(domain)), stderr=subprocess.PIPE, text=True, cwd=folder.parent
    ) as host:
        try:
            assert host.stderr is not None
            seen: list[str] = []
            for line in host.stderr:
                seen.append(line)
                if json.loads(line)["event"] == "ready":
                    break
            else:
                raise AssertionError("".join(seen))
            yield host
        finally:
            host.kill()


def test_an_empty_domain_is_told_in_words_and_is_no_failure(cli: Cli, dds_domain: int) -> None:
    outcome = cli("databus", "--domain", str(dds_domain), "--wait", "0.1")
    assert outcome.code == 0
    assert f"domain     {dds_domain} on lo (127.0.0.1), this machine only" in outcome.out
    assert f"nobody else is on domain {dds_domain}" in outcome.out
    assert "0 wrong, 1 doubtful" in outcome.out


def test_the_same_as_json(cli: Cli, dds_domain: int) -> None:
    outcome = cli("databus", "smss", "--json", "--domain", str(dds_domain), "--wait", "0.1")
    assert (outcome.code, outcome.json["ok"], outcome.json["place"]["domain"]) == (0, True, dds_domain)
    assert [one["code"] for one in outcome.json["findings"]] == ["nobody"]


def test_the_folders_settings_say_where_to_look(cli: Cli, folder: Path, dds_domain: int) -> None:
    (folder.parent / "enginehost.yaml").write_text(f"databus: {{domain: {dds_domain}, service: shop}}\n")
    outcome = cli("databus", "smss", "--json", "--wait", "0.1")
    assert outcome.json["place"]["domain"] == dds_domain


def test_a_word_that_is_neither_folder_nor_command_is_told(cli: Cli) -> None:
    outcome = cli("databus", "kygen", "--json")
    assert outcome.code == 2
    assert "no such command" in outcome.error["message"]
    assert "keygen" in outcome.error["detail"]["hint"]


def test_a_full_domain_is_told_before_watching_begins(cli: Cli, dds_domain: int) -> None:
    with ExitStack() as stack:
        for index in range(111):
            taken = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            with suppress(OSError):  # it is taken as it is
                taken.bind(("0.0.0.0", 7410 + 250 * dds_domain + 2 * index))
        outcome = cli("databus", "--watch", "--json", "--domain", str(dds_domain))
    error = json.loads(outcome.err.splitlines()[-1])["error"]
    assert error["detail"]["reason"] == "domain-full"
    assert "--domain" in error["detail"]["hint"]


def test_the_other_commands_of_databus_run_beside_a_folder_argument(cli: Cli) -> None:
    assert "FunctionCapability" in cli("databus", "idl").out
    assert "FunctionCapability" in cli("databus", "--domain", "3", "idl", "--format", "xml").out


def test_an_interface_that_is_not_there_is_an_error_that_names_those_there_are(cli: Cli) -> None:
    outcome = cli("databus", "--bus-interface", "nowhere0", "--json")
    assert outcome.error["code"] == "config"
    assert "lo" in outcome.error["detail"]["hint"]


def test_a_running_host_is_shown_with_its_functions_and_its_clock(
    cli: Cli, folder: Path, dds_domain: int
) -> None:
    where = ("--domain", str(dds_domain))
    with running(folder, dds_domain):
        found = cli("databus", *where, "--json", "--wait", "1.5")
        page = cli("databus", *where, "--wait", "1")
    assert found.code == 0, found.out
    (host,) = [one for one in found.json["participants"] if one["kind"] == "enginehost"]
    assert (host["services"], host["functions"]) == (["enginehost"], 4)
    assert host["takes_requests"]
    assert host["writes_replies"]
    assert host["clock"]["exact"]
    assert abs(host["clock"]["ahead"]) < 1
    assert [(one["name"], one["callable"]) for one in found.json["capabilities"]] != []
    assert all(one["callable"] for one in found.json["capabilities"])
    assert "enginehost.add" in page.out
    assert "in step" in page.out
    assert "all is well" in page.out


def test_a_long_name_of_a_peer_is_shown_without_its_middle() -> None:
    assert shortened("shop." + "x" * 250 + ".last") == f"shop.{'x' * 25}…{'x' * 24}.last"
    assert shortened("x" * 60) == "x" * 60


def test_watch_tells_of_arrivals_and_departures_until_it_is_interrupted(
    folder: Path, dds_domain: int
) -> None:
    words = ("databus", "--domain", str(dds_domain), "--watch", "--json")
    with subprocess.Popen(
        [sys.executable, "-m", "enginehost", *words],
        cwd=folder.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ),
    ) as watching:  # fmt: skip
        assert watching.stdout is not None
        assert watching.stderr is not None

        def until(event: str) -> dict[str, Any]:
            for line in watching.stdout or ():
                said = json.loads(line)
                if said["event"] == event:
                    return said
            raise AssertionError(f"no {event}")

        until("watching")
        with running(folder, dds_domain) as host:
            assert until("participant-arrived")["pid"] == host.pid
            assert until("function-arrived")["service"] == "enginehost"
            host.send_signal(signal.SIGTERM)
            host.wait(30)
            assert until("function-gone")["service"] == "enginehost"
            until("participant-left")
        watching.send_signal(signal.SIGINT)
        assert watching.wait(20) == 0
        assert watching.stderr.read() == ""
