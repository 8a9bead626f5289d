"""Words of a policy that mean nothing here are pointed out, those that may mean something are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.auth_settings import TokenSettings
from enginehost.caller import anonymous
from enginehost.databus.keys import written
from enginehost.databus.trust import KeyEntry
from enginehost.diagnostics import Severity
from enginehost.policy import Policy, load_policy
from enginehost.policy_rules import PolicyRules, Rule
from enginehost.policy_words import FACES, idle_callers, idle_functions, unknown_faces
from enginehost.signature import FunctionSignature

NAMES = st.text("abc*?", min_size=1, max_size=4)


def policy(**words: tuple[str, ...]) -> Policy:
    return Policy(PolicyRules(rules=(Rule.model_validate({"deny": "call", **words}),)))


@pytest.mark.parametrize("face", [*sorted(FACES), "telex", "http*", "*"])
def test_a_face_of_the_host_or_of_a_plugin_is_known(face: str) -> None:
    assert unknown_faces(policy(faces=(face,)), ["telex"]) == []


@pytest.mark.parametrize(
    ("face", "hint"), [("htpp", "did you mean http?"), ("x", "there are databus, http, py")]
)
def test_any_other_is_told_with_the_nearest(face: str, hint: str) -> None:
    (found,) = unknown_faces(policy(faces=("http", face)), [])
    assert found.severity is Severity.WARNING
    assert found.message == f"rule 1: there is no face {face!r}"
    assert found.hint.startswith(hint)


def test_the_line_is_told(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("rules:\n- name: r\n  deny: call\n  faces: [htpp]\n")
    (found,) = unknown_faces(load_policy(file), [])
    assert (found.path, found.line) == (str(file), 4)
    assert found.message.startswith("rule 'r': ")


def test_functions_and_tags_that_nothing_has_are_told() -> None:
    signatures = [FunctionSignature("add", tags=("math",)), FunctionSignature("weather")]
    found = idle_functions(
        policy(functions=("add", "wether", "w*", "x*"), tags=("maths", "math", "m?th")), signatures
    )
    assert [one.message.split(": ")[1] for one in found] == [
        "there is no function 'wether'",
        "there is no function 'x*'",
        "there is no tag 'maths'",
    ]
    assert found[0].hint == "did you mean weather?"


def test_what_no_token_has_is_told() -> None:
    token = TokenSettings(name="ci", token_sha256="0" * 64, scopes=("math:use",), tenant="acme")
    words = policy(subjects=("ci", "cj"), scopes=("math:use", "math:* other"), tenants=("acme", "acne"))
    assert [one.message.split(": ", 1)[1] for one in idle_callers(words, [token])] == [
        "there is no token named 'cj'",
        "there is no token with the scope 'other'",
        "there is no token of the tenant 'acne'",
    ]
    key = KeyEntry(name="cj", key=written(bytes([1]) * 32), scopes=("other",))
    assert [one.message.split(": ", 1)[1] for one in idle_callers(words, [token], [key])] == [
        "there is no token or trusted key of the tenant 'acne'",
    ]


@settings(max_examples=100)
@given(st.lists(NAMES, min_size=1, max_size=4), st.sets(st.text("abc", min_size=1, max_size=3), max_size=5))
def test_any_word_is_told_exactly_where_its_rule_covers_nothing(words: list[str], names: set[str]) -> None:
    signatures = [FunctionSignature(name) for name in names]
    told = {
        one.message.rpartition("function ")[2]
        for one in idle_functions(policy(functions=tuple(words)), signatures)
    }
    for word in words:
        alone = Policy(PolicyRules(rules=(Rule(allow="call", callers="anyone", functions=(word,)),)))
        covers = any(alone.may_call(anonymous("http"), signature) for signature in signatures)
        assert (repr(word) in told) is not covers
