"""What is registered, what a text in ENGINE_CLASS means, and what happens to plugins that are wrong."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginehost.errors import ConfigError
from enginehost.plugins import (
    COMMANDS,
    Alias,
    DottedClass,
    PluginRegistry,
    Registered,
    Unsupported,
)


def test_the_host_s_own_engines_come_through_entry_points() -> None:
    names = {alias.name for alias in PluginRegistry().aliases()}
    assert {"LocalPython", "REST", "Reactor"} <= names


def test_aliases_are_listed_without_importing(site: Any) -> None:
    site.add_engine("acme", "Acme", "acme_plugin_a", "raise RuntimeError('imported')")
    (alias,) = site.registry().aliases()
    assert alias == Alias("Acme", "acme_plugin_a:Engine", "enginehost.engines", "acme", "1.0")
    assert "acme_plugin_a" not in sys.modules


def test_an_engine_class_is_loaded_when_first_used_and_once(site: Any) -> None:
    site.add_engine("acme", "Acme", "acme_plugin_b")
    registry = site.registry()
    first = registry.engine_class("Acme")
    assert registry.engine_class("Acme") is first
    assert registry.problems == []


def test_the_exact_alias_goes_before_the_one_in_another_case(site: Any) -> None:
    site.add("acme", "[enginehost.engines]\nACME = m:A\nacme = m:B\n")
    registry = site.registry()
    resolved = [registry.resolve_engine_class(text) for text in ("acme", "ACME", " Acme ")]
    assert [r.alias.value for r in resolved if isinstance(r, Registered)] == ["m:B", "m:A", "m:A"]


def test_an_alias_of_two_distributions_stays_with_the_first_name_and_is_reported(site: Any) -> None:
    site.add("zeta", "[enginehost.engines]\nSame = m:Z\n")
    site.add("alpha", "[enginehost.engines]\nSame = m:A\n")
    registry = site.registry()
    (alias,) = registry.aliases()
    assert alias.distribution == "alpha"
    (problem,) = registry.problems
    assert problem.distribution == "zeta"
    assert "already provided by alpha" in problem.message


def test_no_plugin_takes_an_alias_from_the_host(site: Any) -> None:
    site.add("enginehost", "[enginehost.engines]\nREST = m:Ours\n")
    site.add("aardvark", "[enginehost.engines]\nREST = m:Theirs\n")
    registry = site.registry()
    (alias,) = registry.aliases()
    assert alias.value == "m:Ours"
    assert [problem.distribution for problem in registry.problems] == ["aardvark"]


def test_names_of_distributions_are_compared_normalised(site: Any) -> None:
    site.add("Acme_Tools", "[enginehost.commands]\nacme = m:app\n")
    (alias,) = site.registry().aliases(COMMANDS)
    assert alias.distribution == "acme-tools"


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import a_module_that_is_not_there", "ModuleNotFoundError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("def broken(:", "SyntaxError"),
        ("x = 1", "AttributeError"),
        ("Engine = 5", "not an engine class but a int"),
        ("class Engine:\n    def open(self): ...", "lacks close, functions, watched"),
    ],
)
def test_a_plugin_that_does_not_load_is_a_problem_and_a_config_error(
    site: Any, source: str, what: str
) -> None:
    site.add_engine("broken", "Broken", "broken_plugin", source)
    site.add_engine("sound", "Sound", "sound_plugin")
    registry = site.registry()
    for _ in range(2):
        with pytest.raises(ConfigError, match="broken") as raised:
            registry.engine_class("Broken")
        assert raised.value.reason == "plugin-broken"
        assert str(site.folder) not in str(raised.value)
    (problem,) = registry.problems
    assert problem.distribution == "broken"
    assert "Broken = broken_plugin:Engine" in problem.entry_point
    assert what in problem.message
    assert problem.hint
    assert registry.engine_class("Sound").__name__ == "Engine"


@pytest.mark.parametrize(
    "text", ["[enginehost.engines]\nno value here\n", "[enginehost.engines]\nX = not a reference\n"]
)
def test_malformed_entry_points_hurt_only_their_distribution(site: Any, text: str) -> None:
    site.add("odd", text)
    site.add_engine("sound", "Sound", "sound_plugin_b")
    registry = site.registry()
    if isinstance(registry.resolve_engine_class("X"), Registered):
        with pytest.raises(ConfigError):
            registry.engine_class("X")
    assert [problem.distribution.split("-")[0] for problem in registry.problems] == ["odd"]
    assert registry.engine_class("Sound")


def test_missing_metadata_hurts_only_its_distribution(site: Any) -> None:
    site.add("hollow", "[enginehost.engines]\nHollow = m:E\n")
    (site.folder / "hollow-1.0.dist-info" / "METADATA").unlink()
    site.add_engine("sound", "Sound", "sound_plugin_c")
    registry = site.registry()
    assert registry.engine_class("Sound")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=200).map(lambda text: "enginehost\n" + text.replace("\r", "\n")))
def test_no_entry_points_file_stops_the_scan(site: Any, text: str) -> None:
    if not (site.folder / "fuzz-1.0.dist-info").exists():
        site.add("fuzz")
    file = site.folder / "fuzz-1.0.dist-info" / "entry_points.txt"
    file.write_text(text, encoding="utf-8", errors="replace")
    site.registry()


def test_a_dotted_path_goes_to_the_engine_that_runs_classes(site: Any) -> None:
    site.add("enginehost", "[enginehost.engines]\nPythonClass = m:ClassEngine\n")
    resolution = site.registry().resolve_engine_class("my_package.engines:Mine")
    assert isinstance(resolution, DottedClass)
    assert resolution.path == "my_package.engines:Mine"
    assert resolution.runner.value == "m:ClassEngine"


@pytest.mark.parametrize("text", ["os;system:X", "../up:X", "a.b:C()", "a b:C", "a.:C", ":C", "a:", "a:b:c"])
def test_what_is_no_dotted_path_is_unsupported(site: Any, text: str) -> None:
    site.add("enginehost", "[enginehost.engines]\nPythonClass = m:ClassEngine\n")
    assert isinstance(site.registry().resolve_engine_class(text), Unsupported)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("prerna.engine.impl.model.OpenAiEngine", "SEMOSS model engine"),
        ("prerna.engine.impl.storage.S3StorageEngine", "SEMOSS storage engine"),
        ("prerna.engine.impl.vector.FaissDatabaseEngine", "SEMOSS vector engine"),
        ("prerna.engine.impl.guardrail.DetoxifyGuardrail", "SEMOSS guardrail engine"),
        ("prerna.engine.impl.rdbms.RDBMSNativeEngine", "SEMOSS database engine"),
        ("prerna.project.impl.Project", "SEMOSS project engine"),
        (
            "prerna.engine.impl.function.AWSTextractFunctionEngine",
            "function engine AWSTextractFunctionEngine",
        ),
        ("prerna.something.Else", "class of SEMOSS"),
        ("", "blank"),
        ("Nonsense", "no plugin provides"),
    ],
)
def test_a_class_that_nobody_provides_says_why(text: str, reason: str) -> None:
    resolution = PluginRegistry().resolve_engine_class(text)
    assert isinstance(resolution, Unsupported)
    assert reason in resolution.reason
    others = ("model", "storage", "vector", "guardrail", "database", "project")
    assert resolution.other_type == any(f"SEMOSS {kind} engine" in reason for kind in others)


def test_a_typo_gets_the_nearest_alias() -> None:
    resolution = PluginRegistry().resolve_engine_class("LocalPyton")
    assert isinstance(resolution, Unsupported)
    assert resolution.nearest[0] == "LocalPython"
    assert resolution.hint == "did you mean LocalPython?"


@pytest.mark.parametrize("name", ["OCRFunctionEngine", "AWSTextractFunctionEngine", "OpenAIFunctionEngine"])
def test_a_function_engine_of_semoss_is_taken_for_no_other(name: str) -> None:
    resolution = PluginRegistry().resolve_engine_class(f"prerna.engine.impl.function.{name}")
    assert isinstance(resolution, Unsupported)
    assert resolution.nearest == ()
    assert resolution.hint.startswith("install a plugin that provides it")


def test_a_plugin_that_came_after_the_start_is_found_by_the_next_one() -> None:
    resolution = PluginRegistry([]).resolve_engine_class("Greeting")
    assert isinstance(resolution, Unsupported)
    assert "when it starts again" in resolution.hint


@given(st.text())
@settings(max_examples=100, deadline=None)
def test_no_text_stops_the_resolution(text: str) -> None:
    PluginRegistry([]).resolve_engine_class(text)


def test_many_threads_load_a_class_once(site: Any) -> None:
    site.add_engine("broken", "Broken", "broken_plugin_t", "raise ValueError('no')")
    registry = site.registry()

    def load(_: int) -> str:
        with pytest.raises(ConfigError) as raised:
            registry.engine_class("Broken")
        return raised.value.message

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(load, range(32)))) == 1
    assert len(registry.problems) == 1


def test_a_dotted_name_without_a_colon_gets_the_way_to_write_it() -> None:
    resolution = PluginRegistry([]).resolve_engine_class("com.example.OrderLookupEngine")
    assert isinstance(resolution, Unsupported)
    assert resolution.hint == "a Python class is written package.module:Class"


def test_reading_the_registry_imports_no_engine_and_nothing_heavy() -> None:
    code = (
        "import sys; from enginehost.plugins import PluginRegistry; PluginRegistry().aliases();"
        "heavy = 'pluggy', 'pydantic', 'enginehost_engines', 'httpx2', 'anyio';"
        "print([module for module in heavy if module in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
