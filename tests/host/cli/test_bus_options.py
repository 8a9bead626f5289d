"""The commands that ask the databus in place of a folder."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("list", "--domain", "7"), "--domain has no effect without --bus"),
        (("call", "add", "--bus-interface", "lo"), "--bus-interface has no effect without --bus"),
        (("list", "--bus", "--url", "http://127.0.0.1:1"), "http://127.0.0.1:1 has no effect beside --bus"),
        (("describe", "add", "--bus", "--folder", "smss"), "smss has no effect beside --bus"),
    ],
)
def test_options_that_contradict_each_other_are_refused(cli, words, message):
    done = cli(*words)
    assert done.code != 0
    assert message in done.err
    assert "hint:" in done.err


def test_a_function_that_nobody_offers_is_unknown(cli, dds_domain):
    pytest.importorskip("cyclonedds")
    done = cli("call", "nothing", "--bus", "--domain", str(dds_domain))
    assert (done.code, done.out) == (3, "")
    assert "no function named 'nothing'" in done.err


def test_an_empty_bus_has_no_functions(cli, dds_domain):
    pytest.importorskip("cyclonedds")
    done = cli("list", "--bus", "--domain", str(dds_domain))
    assert (done.code, done.out) == (0, "no functions\n")
