"""Each pluggy plugin is loaded alone; what it adds is collected once."""

from __future__ import annotations

import inspect
import logging
from typing import Any

import pytest

from enginehost import hooks
from enginehost.contributions import collect, implementations, load_pluggy
from enginehost.errors import ConfigError
from enginehost.record import CallRecord
from enginehost.signature import FunctionSignature

RECORD = CallRecord("", "f", "e", "s", "", "python", "", "", "", "ok", 0.1)


def test_every_hook_has_a_specification_with_types_and_a_meaning() -> None:
    specified = [value for value in vars(hooks).values() if hasattr(value, "enginehost_spec")]
    assert {function.__name__ for function in specified} == {
        "engine_secrets",
        "secret",
        "register_signature_mappers",
        "register_function_types",
        "register_transports",
        "register_faces",
        "observe_call",
    }
    for function in specified:
        assert len(inspect.getdoc(function) or "") > 40
        assert all(parameter.annotation for parameter in inspect.signature(function).parameters.values())


def test_plugins_are_asked_in_the_order_of_their_distributions(site: Any) -> None:
    for name in ("beta", "alpha", "gamma"):
        site.add_hooks(name, f"hooks_{name}", f"@hookimpl\ndef secret(name):\n    return '{name}'\n")
    site.add_hooks("zz-first", "hooks_zz", "@hookimpl(tryfirst=True)\ndef secret():\n    return 'zz'\n")
    found = collect(site.registry()).secrets
    assert [one.plugin for one in found] == ["zz-first", "alpha", "beta", "gamma"]
    assert [one.call(name="x") for one in found] == ["zz", "alpha", "beta", "gamma"]


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import not_there_at_all", "does not load: ModuleNotFoundError"),
        ("raise SystemExit('bye')", "does not load: SystemExit"),
        ("@hookimpl\ndef secret(nom): ...", "does not register: PluginValidationError"),
        ("@hookimpl\ndef secrets(name): ...", "implements secrets, which is no hook"),
        ("@hookimpl(wrapper=True)\ndef secret(name):\n    return (yield)", "wrappers are not supported"),
        ("@hookimpl\ndef register_faces(register):\n    raise ValueError('no')", "ValueError: no"),
        ("@hookimpl\ndef register_faces(register):\n    raise SystemExit", "SystemExit"),
        ("@hookimpl\ndef register_faces(register):\n    register('bad', 5)", "bad is a int, not callable"),
        ("@hookimpl\ndef register_faces(register):\n    register([], print)", "TypeError"),
        (
            "@hookimpl\ndef register_signature_mappers(register):\n    register('openai', print)",
            "openai already comes from the host",
        ),
        (
            "@hookimpl\ndef register_signature_mappers(register):\n    register('x', lambda signature: {})",
            "x cannot be called with (signature, name)",
        ),
        ("@hookimpl\ndef register_faces(register):\n    register('x', lambda: 1)", "called with (host)"),
        (
            "@hookimpl\ndef register_transports(register):\n    register('x', lambda a, b: 1)",
            "called with (config)",
        ),
    ],
)
def test_a_plugin_that_fails_is_reported_and_the_others_work(site: Any, source: str, what: str) -> None:
    site.add_hooks("broken", "hooks_broken", source)
    site.add_hooks(
        "sound", "hooks_sound", "@hookimpl\ndef register_faces(register):\n    register('mine', dict)"
    )
    registry = site.registry()
    assert [(name, made.plugin) for name, made in collect(registry).faces.items()] == [("mine", "sound")]
    (problem,) = registry.problems
    assert problem.distribution == "broken"
    assert what in problem.message


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("    return signature.nothing", "AttributeError: "),
        ("    return [name]", "its mapper answers with list, not dict"),
        ("    raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_mapper_that_fails_is_told_with_its_plugin(site: Any, body: str, told: str) -> None:
    source = f"""
@hookimpl
def register_signature_mappers(register):
    register("acme", acme)

def acme(signature, name):
{body}
"""
    site.add_hooks("acme-tools", "hooks_acme", source)
    mapper = collect(site.registry()).signature_mappers["acme"]
    with pytest.raises(
        ConfigError, match=f"^the plugin acme-tools cannot show add as acme: {told}"
    ) as failed:
        mapper(FunctionSignature("add"), "add")
    assert (failed.value.reason, failed.value.hint) == ("plugin-broken", "mend or uninstall acme-tools")


def test_an_unknown_hook_gets_the_nearest_and_the_plugin_s_other_hooks_work(site: Any) -> None:
    source = "@hookimpl\ndef secretz(name): ...\n@hookimpl\ndef secret(name):\n    return 'here'"
    site.add_hooks("newer", "hooks_newer", source)
    registry = site.registry()
    assert [one.call(name="x") for one in collect(registry).secrets] == ["here"]
    assert registry.problems[0].hint == "did you mean secret?"


def test_two_plugins_that_register_one_name_are_reported(site: Any) -> None:
    for name in ("b", "a"):
        source = (
            f"@hookimpl\ndef register_transports(register):\n    register('udp', lambda config: '{name}')"
        )
        site.add_hooks(name, f"hooks_twice_{name}", source)
    registry = site.registry()
    assert collect(registry).transports["udp"].call(None) == "a"
    assert [problem.distribution for problem in registry.problems] == ["b"]


def test_two_entry_points_of_one_distribution_are_two_plugins(site: Any) -> None:
    header = "from enginehost.hooks import hookimpl\n@hookimpl\ndef secret(name):\n    return __name__\n"
    site.add(
        "twins", "[enginehost]\none = twin_one\ntwo = twin_two\n", {"twin_one": header, "twin_two": header}
    )
    registry = site.registry()
    assert {one.call(name="x") for one in collect(registry).secrets} == {"twin_one", "twin_two"}
    assert registry.problems == []


def test_one_object_behind_two_entry_points_is_reported(site: Any) -> None:
    site.add("same", "[enginehost]\none = same_hooks\ntwo = same_hooks\n", {"same_hooks": ""})
    registry = site.registry()
    load_pluggy(registry)
    assert ["does not register" in problem.message for problem in registry.problems] == [True]


def test_engine_classes_made_at_run_get_an_alias(site: Any) -> None:
    source = """
        from enginehost.engine import AbstractFunctionEngine
        @hookimpl
        def register_function_types(register):
            register("MadeAtRun", type("Made", (AbstractFunctionEngine,), {}))
            register("NotAClass", print)
    """
    site.add_hooks("maker", "hooks_maker", source)
    registry = site.registry()
    collect(registry)
    assert registry.engine_class("madeatrun").__name__ == "Made"
    assert ["not an engine class" in problem.message for problem in registry.problems] == [True]


def test_an_observer_that_fails_is_logged_and_the_others_observe(site: Any, caplog: Any) -> None:
    site.add_hooks("bad", "hooks_bad", "@hookimpl\ndef observe_call(record):\n    raise ValueError('no')")
    site.add_hooks(
        "good", "hooks_good", "seen = []\n@hookimpl\ndef observe_call(record):\n    seen.append(record)"
    )
    with caplog.at_level(logging.ERROR):
        for observe in collect(site.registry()).observers:
            observe(RECORD)
    import hooks_good  # pyright: ignore[reportMissingImports]

    assert hooks_good.seen == [RECORD]
    assert "plugin bad failed to observe a call" in caplog.text


def test_implementations_of_a_hook_that_nobody_has_are_none(site: Any) -> None:
    assert implementations(load_pluggy(site.registry()), "secret") == ()
