"""Ids that stay, and who may have them."""

from __future__ import annotations

import uuid

import pytest

from enginehost.databus.identity import Identity
from enginehost.databus.metadata import is_incarnation


def opened_and_closed(*arguments):
    identity = Identity(*arguments)
    identity.close()
    return identity


def test_a_host_keeps_its_id_and_gets_a_new_incarnation(tmp_path):
    first = opened_and_closed(tmp_path / "state", tmp_path / "smss")
    second = opened_and_closed(tmp_path / "state", tmp_path / "smss")
    assert first.host_id == second.host_id
    assert first.incarnation != second.incarnation
    assert first.function_id("s", "add") == second.function_id("s", "add")


def test_each_folder_has_its_host(tmp_path):
    one = opened_and_closed(tmp_path, tmp_path / "one")
    two = opened_and_closed(tmp_path, tmp_path / "two")
    assert one.host_id != two.host_id


def test_a_second_host_on_a_folder_gets_an_id_of_its_own(tmp_path, caplog):
    first = Identity(tmp_path)
    second = opened_and_closed(tmp_path)
    first.close()
    assert second.host_id != first.host_id
    assert "not kept" in caplog.text
    assert opened_and_closed(tmp_path).host_id == first.host_id


def test_a_spoilt_file_is_written_anew(tmp_path):
    first = opened_and_closed(tmp_path)
    (file,) = (tmp_path / "databus").iterdir()
    file.write_bytes(b"\xff nonsense of any length, longer than an id has ever been")
    second = opened_and_closed(tmp_path)
    assert second.host_id != first.host_id
    assert opened_and_closed(tmp_path).host_id == second.host_id


def test_a_place_that_cannot_be_written_gives_an_id_that_is_not_kept(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    assert uuid.UUID(opened_and_closed(tmp_path / "file" / "state").host_id)
    assert "not kept" in caplog.text


def test_function_ids_are_version_5_and_told_apart_by_service_and_name():
    identity = Identity(None)
    ids = {identity.function_id(s, n) for s, n in (("s", "add"), ("s", "sub"), ("t", "add"), ("sa", "dd"))}
    assert len(ids) == 4
    assert {uuid.UUID(one).version for one in ids} == {5}


@pytest.mark.parametrize("folder", [None, "smss"])
def test_without_a_state_folder_the_id_is_new_each_time(folder, tmp_path):
    place = tmp_path / folder if folder else None
    assert opened_and_closed(None, place).host_id != opened_and_closed(None, place).host_id


def test_incarnations_are_in_the_order_of_the_starts(monkeypatch):
    now = [1_700_000_000_123_000_000]
    monkeypatch.setattr("time.time_ns", lambda: now[0])
    first = Identity(None).incarnation
    now[0] += 1_000_000
    second = Identity(None).incarnation
    assert is_incarnation(first)
    assert first < second
    assert int(first[:12], 16) == 1_700_000_000_123


def test_a_renewed_id_is_fresh_and_not_kept(tmp_path):
    identity = Identity(tmp_path)
    kept, incarnation = identity.host_id, identity.incarnation
    identity.renew()
    assert identity.host_id != kept
    assert identity.incarnation == incarnation
    identity.close()
    assert opened_and_closed(tmp_path).host_id == kept
