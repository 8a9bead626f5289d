import fnmatch
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.caller import LOCAL, Caller, anonymous
from enginehost.databus import DatabusConfig
from enginehost.errors import ConfigError
from enginehost.host import Host
from enginehost.policy import (
    CALL,
    VIEW,
    Policy,
    authenticated_policy,
    load_policy,
    open_policy,
    policy_for,
)
from enginehost.policy_rules import PolicyRules, Rule
from enginehost.settings import HostSettings
from enginehost.signature import UNREAD, FunctionSignature

ADD = FunctionSignature("add", tags=("math", "public"))
ALICE = Caller("alice", tenant="acme", scopes=frozenset({"read", "write"}), face="http")


def policy(*rules: dict[str, Any], default: str = "deny") -> Policy:
    return Policy(PolicyRules.model_validate({"default": default, "rules": list(rules)}))


def test_what_no_rule_allows_is_denied():
    assert not policy().may_view(ALICE, ADD)
    assert not policy().may_call(ALICE, ADD)


def test_to_call_implies_to_view():
    only_view = policy({"allow": "view", "callers": "anyone"})
    assert only_view.may_view(ALICE, ADD)
    assert not only_view.may_call(ALICE, ADD)
    assert policy({"allow": "call", "callers": "anyone"}).may_view(ALICE, ADD)


@pytest.mark.parametrize("order", [1, -1])
def test_deny_wins_wherever_it_stands(order: int):
    rules = [{"allow": "call", "subjects": "alice"}, {"deny": "call", "functions": "add"}][::order]
    assert policy(*rules).may_view(ALICE, ADD)
    assert not policy(*rules, default="call").may_call(ALICE, ADD)


def test_who_may_not_view_may_not_call():
    hidden = policy({"deny": "view", "tags": ["math"]}, default="call")
    assert not hidden.may_call(ALICE, ADD)
    assert hidden.may_call(ALICE, FunctionSignature("other"))


@pytest.mark.parametrize(
    ("who", "holds"),
    [
        ({"subjects": ["alice"]}, True),
        ({"subjects": "bob, al*"}, True),
        ({"subjects": ["Alice"]}, False),
        ({"subjects": ["a[l]ice"]}, False),
        ({"scopes": ["read"]}, True),
        ({"scopes": ["admin", "write"]}, True),
        ({"scopes": ["read write"]}, True),
        ({"scopes": ["read admin"]}, False),
        ({"tenants": ["acme"], "subjects": ["bob"]}, False),
        ({"tenants": ["a?me"], "faces": ["http", "mcp"], "callers": "authenticated"}, True),
        ({"callers": "anonymous"}, False),
        ({"callers": "anyone", "faces": ["mcp"]}, False),
    ],
)
def test_a_rule_applies_when_everything_in_it_holds(who: dict[str, Any], holds: bool):
    assert policy({"allow": "call", **who}).may_call(ALICE, ADD) is holds


def test_an_anonymous_caller_matches_no_subject_even_by_that_name():
    rules = policy({"allow": "call", "subjects": ["*"]})
    assert not rules.may_call(anonymous("http"), ADD)
    assert rules.may_call(Caller("anonymous", face="http"), ADD)


def test_the_embedding_program_is_not_bound_and_nobody_else_passes_for_it():
    rules = policy({"deny": "view"})
    double = Caller(LOCAL.subject, face=LOCAL.face)
    assert double == LOCAL
    assert not rules.may_call(double, ADD)
    assert rules.may_call(LOCAL, ADD)
    assert not rules.may_call(double, ADD)


def test_a_function_whose_tags_change_is_judged_anew():
    rules = policy({"allow": "call", "callers": "anyone", "tags": ["public"]})
    assert rules.may_call(ALICE, ADD)
    assert not rules.may_call(ALICE, FunctionSignature("add", tags=("math",)))
    assert rules.may_call(ALICE, ADD)


def test_many_subjects_leave_bounded_memory():
    rules = policy({"allow": "call", "subjects": ["user-*"]})
    for number in range(25_000):
        assert rules.may_call(Caller(f"user-{number}"), ADD)
    assert len(rules._callers) <= 10_000
    assert len(rules._groups) == 1


def test_an_explanation_names_the_rule_with_its_line(tmp_path: Path):
    file = tmp_path / "policy.yaml"
    file.write_text(
        "rules:\n  - allow: call\n    callers: anyone\n  - name: no sums\n    deny: call\n    tags: math\n"
    )
    loaded = load_policy(file)
    why = loaded.explain(ALICE, ADD)
    assert (why.may_view, why.may_call) == (True, False)
    assert why.view_by == f"allowed by rule 1 ({file}:2)"
    assert why.call_by == f"denied by rule 'no sums' ({file}:4)"
    assert str(why).startswith("view: yes, ")
    assert "owns the host" in loaded.explain(LOCAL, ADD).call_by
    assert policy().explain(ALICE, ADD).view_by == "the default (deny)"


def test_the_built_in_policies():
    assert open_policy().may_call(anonymous("http"), ADD)
    assert not authenticated_policy().may_view(anonymous("databus"), ADD)
    assert authenticated_policy().may_call(ALICE, ADD)


def test_the_settings_choose_the_policy(tmp_path: Path):
    token = {"name": "a", "token": "x" * 16}
    nobody = anonymous("http")
    assert policy_for(HostSettings()).may_call(nobody, ADD)
    assert not policy_for(HostSettings(tokens=[token])).may_call(nobody, ADD)  # pyright: ignore
    reachable = HostSettings.model_validate({"databus": {"interface": "eth0"}})
    assert not policy_for(reachable).may_call(nobody, ADD)
    inline = HostSettings.model_validate({"policy": {"default": "view"}})
    assert policy_for(inline).rights(nobody, ADD) == VIEW
    file = tmp_path / "p.yaml"
    file.write_text("default: call\n")
    assert policy_for(HostSettings.model_validate({"policy": str(file)})).rights(nobody, ADD) == VIEW | CALL


NOBODY = anonymous("databus")


def test_functions_may_be_opened_to_unsigned_requests_under_any_policy(tmp_path: Path):
    file = tmp_path / "p.yaml"
    file.write_text("default: deny\n")
    opened = {"databus": {"interface": "eth0", "allow_unsigned": "add, weather_*"}}
    for policy_given in ({}, {"policy": str(file)}, {"policy": {"default": "view"}}):
        made = policy_for(HostSettings.model_validate(opened | policy_given))
        assert made.may_call(NOBODY, ADD)
        assert "'databus.allow_unsigned'" in made.explain(NOBODY, ADD).call_by
        assert not made.may_call(NOBODY, FunctionSignature("subtract"))
        assert made.may_call(NOBODY, FunctionSignature("weather_now"))
        assert not made.may_call(anonymous("http"), ADD)


def test_what_is_opened_to_unsigned_requests_can_be_denied(tmp_path: Path):
    file = tmp_path / "p.yaml"
    file.write_text("rules:\n- name: no sums\n  deny: call\n  functions: add\n")
    settings = {"databus": {"allow_unsigned": ["*"]}, "policy": str(file)}
    made = policy_for(HostSettings.model_validate(settings))
    assert made.rights(NOBODY, ADD) == VIEW
    assert "'no sums'" in made.explain(NOBODY, ADD).call_by


def test_a_policy_that_is_read_again_keeps_what_is_opened_to_unsigned_requests(tmp_path: Path):
    file = tmp_path / "p.yaml"
    file.write_text("default: deny\n")
    settings = HostSettings.model_validate(
        {"databus": {"allow_unsigned": ["add"]}, "policy": str(file), "state_dir": tmp_path}
    )
    host = Host(None, None, settings=settings)
    assert host.policy.may_call(NOBODY, ADD)
    file.write_text("default: view\n")
    host.reload_policy()
    assert host.policy.rights(anonymous("http"), ADD) == VIEW
    assert host.policy.may_call(NOBODY, ADD)


def test_a_program_that_takes_the_bus_off_loopback_opens_nothing_by_that(tmp_path: Path):
    settings = HostSettings(state_dir=tmp_path)
    assert Host(None, DatabusConfig(), settings=settings).policy.may_call(NOBODY, ADD)
    reachable = DatabusConfig(interface="eth0", allow_unsigned=("subtract",))
    policy = Host(None, reachable, settings=settings).policy
    assert not policy.may_view(NOBODY, ADD)
    assert policy.may_call(NOBODY, FunctionSignature("subtract"))


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("rules:\n  - allow: call\n    subject: [a]\n", 3, "unknown key 'rules.0.subject'", "subjects"),
        ("defaults: deny\n", 1, "unknown key 'defaults'", "default"),
        ("rules:\n  - allow: cal\n    callers: anyone\n", 2, "rules.0.allow has to be 'view' or 'call'", ""),
        ("rules:\n  - allow: call\n", 2, "says to whom", ""),
        ("rules:\n  - callers: anyone\n", 2, "either allow or deny", ""),
        ("rules:\n  - allow: call\n    deny: view\n", 2, "either allow or deny", ""),
        ("rules:\n  - deny: call\n    subjects: []\n", 3, "must not be empty", ""),
        ("rules:\n  - deny: call\n    subjects: [42]\n", 3, "has to be text", "quotes"),
        ("rules:\n  - deny: call\n    callers: anonymous\n    scopes: a\n", 2, "only authenticated", ""),
        ("rules: {}\n", 1, "rules", ""),
        ("- allow: call\n", 1, "default and rules", ""),
        ("", 1, "default and rules", ""),
    ],
)
def test_a_mistake_in_the_file_is_reported_with_place_and_hint(
    tmp_path: Path, text: str, line: int, message: str, hint: str
):
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_policy(file)
    assert (caught.value.path, caught.value.line) == (str(file), line)
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize("key", Rule.model_fields)
def test_a_key_whose_entries_were_all_taken_out_does_not_open_everything(tmp_path: Path, key: str):
    said = {"name": "n", "allow": "call", "subjects": "[ci]", "functions": "[add]", key: ""}
    file = tmp_path / "policy.yaml"
    lines = "\n".join(f"    {name}: {value}" for name, value in said.items())
    file.write_text(f"rules:\n  -\n{lines}\n")
    with pytest.raises(ConfigError, match=rf"rules\.0\.{key}: must not be empty") as caught:
        load_policy(file)
    assert caught.value.line == 3 + list(said).index(key)


@given(st.text(alphabet="rulesdenyallowcallview: \n-[]{}*&'\"", max_size=120))
def test_no_policy_file_breaks_the_loader(tmp_path_factory: pytest.TempPathFactory, text: str):
    file = tmp_path_factory.getbasetemp() / "fuzzed-policy.yaml"
    file.write_text(text)
    with suppress(ConfigError):
        load_policy(file).may_call(LOCAL, ADD)


names = st.sampled_from(["add", "ada", "b", "a*", "*", "?d?", "[a]dd"])
words = st.lists(names, min_size=1, max_size=3)
rules_given = st.fixed_dictionaries(
    {"right": st.sampled_from(["view", "call"]), "allow": st.booleans()},
    optional={
        "callers": st.sampled_from(["anyone", "anonymous", "authenticated"]),
        **dict.fromkeys(("subjects", "scopes", "tenants", "faces", "functions", "tags"), words),
    },
)
callers_given = st.builds(
    Caller, names, names, st.frozensets(names, max_size=2), st.sampled_from(["http", "mcp"]), st.booleans()
)
signatures_given = st.builds(
    FunctionSignature, names, tags=st.lists(names, max_size=2, unique=True).map(tuple)
)


def as_written(rule: dict[str, Any]) -> dict[str, Any]:
    written = {key: value for key, value in rule.items() if key not in ("right", "allow")}
    if written.keys() & {"subjects", "scopes", "tenants"}:
        written.pop("callers", None)
    elif rule["allow"]:
        written.setdefault("callers", "anyone")
    return {("allow" if rule["allow"] else "deny"): rule["right"], **written}


def fits(patterns: list[str] | None, values: list[str]) -> bool:
    literal = [pattern.replace("[", "[[]") for pattern in patterns or ()]
    return patterns is None or any(fnmatch.fnmatchcase(v, p) for v in values for p in literal)


def holds(rule: dict[str, Any], caller: Caller, function: FunctionSignature) -> bool:
    proven = rule.keys() & {"subjects", "scopes", "tenants"}
    wanted = rule.get("callers", "authenticated" if proven else "anyone")
    return (
        (wanted == "anyone" or (wanted == "authenticated") is caller.authenticated)
        and fits(rule.get("subjects"), [caller.subject])
        and fits(rule.get("scopes"), list(caller.scopes))
        and fits(rule.get("tenants"), [caller.tenant])
        and fits(rule.get("faces"), [caller.face])
        and fits(rule.get("functions"), [function.name])
        and fits(rule.get("tags"), list(function.tags))
    )


def naive(
    rules: list[dict[str, Any]], default: str, caller: Caller, function: FunctionSignature
) -> tuple[bool, bool]:
    ruling = [rule for rule in rules if holds(rule, caller, function)]
    hidden = any(rule.get("deny") == "view" for rule in ruling)
    barred = hidden or any(rule.get("deny") == "call" for rule in ruling)
    callable_ = default == "call" or any(rule.get("allow") == "call" for rule in ruling)
    visible = callable_ or default == "view" or any(rule.get("allow") == "view" for rule in ruling)
    return visible and not hidden, callable_ and not barred


@settings(max_examples=200)
@given(
    st.lists(rules_given, max_size=5),
    st.sampled_from(["deny", "view", "call"]),
    st.lists(st.tuples(callers_given, signatures_given), min_size=1, max_size=12),
)
def test_what_is_compiled_and_remembered_equals_the_plain_reading_of_the_rules(
    given_rules: list[dict[str, Any]], default: str, questions: list[tuple[Caller, FunctionSignature]]
):
    rules = [as_written(rule) for rule in given_rules]
    compiled = policy(*rules, default=default)
    for caller, function in questions + questions[::-1]:
        answer = naive(rules, default, caller, function)
        assert (compiled.may_view(caller, function), compiled.may_call(caller, function)) == answer
        why = compiled.explain(caller, function)
        assert (why.may_view, why.may_call) == answer


NAMELESS = FunctionSignature(UNREAD, tags=("math",))
TAGLESS = FunctionSignature("add", tags=("math", UNREAD))


@pytest.mark.parametrize(
    ("rule", "nameless", "tagless"),
    [
        ({"allow": "view", "subjects": ["alice"]}, True, True),
        ({"allow": "view", "subjects": ["alice"], "functions": ["add"]}, False, True),
        ({"allow": "view", "subjects": ["alice"], "functions": ["*"]}, True, True),
        ({"allow": "view", "subjects": ["alice"], "tags": ["math"]}, True, True),
        ({"allow": "view", "subjects": ["alice"], "tags": ["other"]}, False, False),
        ({"allow": "view", "subjects": ["alice"], "tags": ["math"], "functions": ["a*"]}, False, True),
    ],
)
def test_what_could_not_be_read_of_a_function_allows_nothing(
    rule: dict[str, Any], nameless: bool, tagless: bool
) -> None:
    asked = policy(rule)
    assert (asked.may_view(ALICE, NAMELESS), asked.may_view(ALICE, TAGLESS)) == (nameless, tagless)


@pytest.mark.parametrize(
    ("rule", "nameless", "tagless"),
    [
        ({"deny": "view", "subjects": ["bob"]}, True, True),
        ({"deny": "view", "subjects": ["alice"], "functions": ["other"]}, False, True),
        ({"deny": "view", "subjects": ["alice"], "functions": ["add"]}, False, False),
        ({"deny": "view", "subjects": ["alice"], "tags": ["other"]}, True, False),
        ({"deny": "view", "subjects": ["alice"], "tags": ["other"], "functions": ["other"]}, True, True),
        ({"deny": "view", "subjects": ["alice"], "tags": ["other"], "functions": ["add"]}, True, False),
        ({"deny": "view", "subjects": ["alice"], "tags": ["math"], "functions": ["other"]}, False, True),
    ],
)
def test_what_could_not_be_read_of_a_function_is_denied_where_it_may_be_meant(
    rule: dict[str, Any], nameless: bool, tagless: bool
) -> None:
    asked = policy(rule, default="call")
    assert (asked.may_view(ALICE, NAMELESS), asked.may_view(ALICE, TAGLESS)) == (nameless, tagless)
