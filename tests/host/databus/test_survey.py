"""What ``enginehost databus`` sees and says, with raw DDS peers that are at fault in every way."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
import uuid
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from enginehost.databus.config import DatabusConfig
from enginehost.databus.keys import new_key, written
from enginehost.databus.sight import Clock, Program, Sight
from enginehost.databus.signing import sign_capability
from enginehost.databus.signing_setup import Signing
from enginehost.databus.survey import Survey, judged, survey
from enginehost.databus.survey_events import happenings, judgements
from enginehost.databus.survey_findings import findings_of, skew_words
from enginehost.databus.trust import KeyEntry, trust_key

pytest.importorskip("cyclonedds")

from enginehost.databus.cyclone.survey import Observer

from .raw_peers import GOOD, Raw, findings, looked


async def test_a_provider_that_is_well_is_shown_as_callable_and_nothing_is_wrong(raw: Raw) -> None:
    raw.offer(GOOD)
    raw.answer()
    found = await looked(raw)
    assert found.findings == ()
    assert found.ok
    (member,) = found.members
    assert (member.kind, member.services, member.functions) == ("other", ("shop",), 1)
    assert (member.takes_requests, member.writes_replies, member.program.vendor) == (
        True,
        True,
        "Cyclone DDS",
    )
    assert member.program.pid > 0
    assert member.program.lease == raw.config.lease
    (function,) = found.capabilities
    assert (function.callable, function.why_not, function.schema_shortened) == (True, "", False)
    assert function.age < 30
    assert [(one.name, one.writers, one.readers, one.known) for one in found.topics] == [
        ("FunctionCapability", 1, 0, True),
        ("FunctionExecutionReply", 1, 0, True),
        ("FunctionExecutionRequest", 0, 1, True),
    ]


async def test_nobody_on_the_domain_is_told_with_likely_reasons(dds_domain: int) -> None:
    found = await survey(DatabusConfig(domain=dds_domain), 0.1)
    (finding,) = found.findings
    assert finding.code == "nobody"
    assert "--domain" in finding.hint
    assert "--bus-interface" in finding.hint
    assert found.ok


async def test_a_function_whose_provider_reads_no_requests_is_not_callable(raw: Raw) -> None:
    raw.offer(GOOD)
    found = await looked(raw)
    assert found.capabilities[0].why_not == "offers functions but reads no FunctionExecutionRequest"
    assert len(findings(found, "not-callable")) == 1
    assert not found.ok


async def test_two_programs_with_one_host_id_are_told(raw: Raw) -> None:
    for _ in range(2):
        whose = raw.join()
        raw.offer(GOOD, whose=whose)
        raw.answer(whose)
    said = findings(await looked(raw), "same-host-id")
    assert len(said) == 1
    assert "'a-host'" in said[0]


@pytest.mark.parametrize(("ahead", "told"), [(3600.0, ["3,600 s ahead"]), (0.0, [])])
async def test_a_clock_that_is_an_hour_ahead_is_told(raw: Raw, ahead: float, told: list[str]) -> None:
    raw.offer(GOOD, ahead=ahead)
    raw.answer()
    found = await looked(raw)
    said = findings(found, "clock-skew")
    assert [one.partition(" is ")[2].replace("3,599", "3,600") for one in said] == told
    assert found.capabilities[0].age < 30


def test_skew_is_said_as_one_says_it() -> None:
    said = [skew_words(ahead) for ahead in (3600.4, -3600.4, 0.05, -2.54)]
    assert said == ["3,600 s ahead", "3,600 s behind", "in step", "2.5 s behind"]


def test_a_clock_behind_is_told_where_a_host_made_a_writer_for_us() -> None:
    program = Program("0110" + "0" * 28, pid=7)
    sight = Sight(programs=(program,), clocks=(Clock(program.key, -3600.0, exact=True),))
    said = [one.message for one in findings_of(DatabusConfig(), sight, Signing())]
    assert said == ["the clock of process 7 is 3,600 s behind"]


async def test_a_service_that_two_trusted_keys_sign_is_told(raw: Raw, tmp_path: Path) -> None:
    trusted = tmp_path / "trusted.yaml"
    keys = {"plant-a": new_key(), "plant-b": new_key()}
    for name, key in keys.items():
        trust_key(trusted, KeyEntry(name=name, key=written(key.public)))
        raw.offer(sign_capability(replace(GOOD, function_id=str(uuid.uuid4())), key), whose=raw.join())
    found = await survey(replace(raw.config, trust_file=trusted), 0.05)
    (said,) = findings(found, "service-of-two-keys")
    assert "'shop'" in said
    assert "'plant-a'" in said
    assert "'plant-b'" in said
    assert findings(await looked(raw), "service-of-two-keys") == []
    trusted.write_text(trusted.read_text() + "  services: [stock]\n")  # of plant-b
    found = await survey(replace(raw.config, trust_file=trusted), 0.05)
    assert findings(found, "service-of-two-keys") == []
    (said,) = findings(found, "service-of-another-key")
    assert "the service 'shop' with the key of 'plant-b'" in said


async def test_a_full_domain_is_told(dds_domain: int) -> None:
    with ExitStack() as stack:
        for index in range(112):
            taken = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            try:
                taken.bind(("0.0.0.0", 7410 + 250 * dds_domain + 2 * index))
            except OSError:
                continue  # it is taken as it is
        found = await survey(DatabusConfig(domain=dds_domain), 0.1)
    assert [one.code for one in found.findings] == ["domain-full"]
    assert not found.ok


CHILD = """
import sys, time
from enginehost.databus.cyclone.domain import enter_domain
from enginehost.databus.config import DatabusConfig
sys.path.insert(0, sys.argv[2])
import peer
from cyclonedds.pub import DataWriter
enter_domain(DatabusConfig(domain=int(sys.argv[1]), lease=10.0))
participant = peer.DomainParticipant(int(sys.argv[1]))
kind = peer.FunctionCapability
writer = DataWriter(participant, peer.Topic(participant, "FunctionCapability", kind), peer.DISCOVERY)
writer.write(kind(function_id="6f1a5f0e-6c1c-5d8c-9a53-0d3a4f1f6e11", name="add"))
print("written", flush=True)
sys.stdin.read()
"""


async def test_a_provider_that_hangs_is_told_and_seen_again_when_it_goes_on(dds_domain: int) -> None:
    folder = str(__file__).rpartition("/")[0]
    config = DatabusConfig(domain=dds_domain)
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(dds_domain), folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        try:
            assert child.stdout is not None
            await asyncio.to_thread(child.stdout.readline)
            with Observer(config) as looking:

                def until(state: list[bool]) -> Survey:
                    end = time.monotonic() + 20
                    while True:
                        looking.look()
                        sight = looking.seen()
                        if [one.lost for one in sight.offers] == state:
                            return judged(config, sight, Signing(), findings_of(config, sight, Signing()))
                        assert time.monotonic() < end, sight.offers

                there = until([False])
                child.send_signal(signal.SIGSTOP)
                lost = until([True])
                assert len(findings(lost, "silent")) == 1
                assert lost.capabilities[0].why_not == "its provider is not heard of any more"
                child.send_signal(signal.SIGCONT)
                back = until([False])
                assert child.stdin is not None
                child.stdin.close()
                gone = until([])
        finally:
            child.kill()
    assert [one.event for one in happenings(there, lost)] == ["function-lost"]
    assert [one.event for one in happenings(lost, back)] == ["function-back"]
    assert [one.event for one in judgements(lost, back) if one.about["code"] == "silent"] == ["finding-over"]
    assert "function-gone" in [one.event for one in happenings(back, gone)]


async def test_a_bad_trust_file_is_told_with_its_line(dds_domain: int, tmp_path: Path) -> None:
    trusted = tmp_path / "trusted.yaml"
    trusted.write_text("keys: [{name: a, key: nonsense}]\n")
    found = await survey(DatabusConfig(domain=dds_domain, trust_file=trusted), 0.1)
    (said,) = findings(found, "keys")
    assert "trusted.yaml:1:" in said
    assert not found.ok


def test_what_the_settings_name_and_is_not_there_is_told(raw: Raw, tmp_path: Path) -> None:
    config = replace(raw.config, trust_file=tmp_path / "none.yaml")
    sight = Sight(programs=(Program("0110" + "0" * 28),), lost_peers=("nope.invalid",))
    said = findings_of(config, sight, Signing())
    assert [one.code for one in said] == ["lost-peers", "keys"]
    assert "nope.invalid" in said[0].message


async def test_a_missing_library_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "enginehost.databus.cyclone.survey", raising=False)
    monkeypatch.setitem(sys.modules, "cyclonedds._clayer", None)
    found = await survey(DatabusConfig(), 0.1)
    assert [(one.code, one.hint) for one in found.findings] == [("no-dds-library", "pip install cyclonedds")]
