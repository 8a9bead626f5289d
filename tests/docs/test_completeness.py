"""What the code knows, the documentation has; what it links to exists; what is made of the code is fresh."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import enginehost
import enginehost.testing
from enginehost.agents.counts import AGENT_METRICS
from enginehost.catalog import EngineRecord
from enginehost.cli.app import HostCommands
from enginehost.engine import EngineState, IFunctionEngine
from enginehost.entrypoints import COMMANDS, ENGINES, HOOKS
from enginehost.errors import ERROR_TABLE, EngineHostError
from enginehost.host import Host
from enginehost.keys import COMMON_KEYS, NO_EFFECT, SEMOSS_KEYS
from enginehost.llm.counting import METRICS as OF_MODELS
from enginehost.metrics import METRICS
from enginehost.plugins import CLASS_RUNNER, PluginRegistry
from enginehost.policy_rules import PolicyRules, Rule
from enginehost.record import CallRecord, RawRecord
from enginehost.serve.routes import Routes
from enginehost.settings import HostSettings
from enginehost.sinks import line
from enginehost.specs import SPEC_KINDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(DOCS.glob("*.md"))


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def missing(names: Any, text: str) -> list[str]:
    """The names that do not stand in ``text`` as code."""
    code = " ".join(re.findall(r"`+([^`]+)`+", text))
    return [name for name in names if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", code) is None]


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_generated_parts_are_up_to_date(generate: ModuleType) -> None:
    stale = [one.name for one in DOCS.glob("*.md") if generate.generated(page(one.name)) != page(one.name)]
    assert stale == [], "run: .venv/bin/python docs/generate.py"


def test_every_generated_part_stands_on_a_page(generate: ModuleType) -> None:
    text = "".join(page(one.name) for one in DOCS.glob("*.md"))
    assert set(re.findall(r"<!-- generated: (\S+) -->", text)) == set(generate.PARTS)


def test_every_smss_key_is_in_the_reference(generate: ModuleType) -> None:
    engines = [cls.config_model for _, cls in generate.builtin_engines() if cls.config_model]
    own = [key for model in engines for field in enginehost_keys(model) for key in field]
    assert own
    assert missing([*COMMON_KEYS, *own, *SEMOSS_KEYS, *NO_EFFECT], page("smss-reference.md")) == []


def enginehost_keys(model: Any) -> Iterator[tuple[str, ...]]:
    from enginehost.config import config_keys

    return (key.accepted for key in config_keys(model))


def test_every_engine_kind_has_a_page(generate: ModuleType) -> None:
    kinds = [name for name, cls in generate.builtin_engines() if cls.config_model]
    names = (
        "python-function.md",
        "rest-api.md",
        "reactor.md",
        "mcp-servers.md",
        "openapi.md",
        "command.md",
        "model-scripted.md",
        "agents.md",
        "plugins.md",
    )
    pages = "".join(map(page, names))
    words = {CLASS_RUNNER: "package.module:Class"}  # a file does not name what runs its class
    assert [kind for kind in kinds if f"ENGINE_CLASS = {words.get(kind, kind)}" not in pages] == []


def test_every_name_that_plugins_lists_is_described() -> None:
    ours = [one.name for one in PluginRegistry().aliases() if one.distribution == "enginehost"]
    assert missing(ours, "".join(page(one.name) for one in DOCS.glob("*.md"))) == []


def test_every_setting_is_in_the_reference(generate: ModuleType) -> None:
    names = [row[0].strip("`") for row in generate._settings(HostSettings, "")]
    assert set(HostSettings.model_fields) <= set(names)
    assert missing(names, page("settings.md")) == []


def test_every_command_and_option_is_in_the_reference() -> None:
    from typer.main import get_command

    from enginehost.cli.app import app

    root: Any = get_command(app)
    text = page("cli.md")
    for name in HostCommands.own:
        command = root.get_command(None, name).load()
        assert f"## `enginehost {name}" in text
        options = [o for p in command.params if p.param_type_name == "option" for o in p.opts]
        assert missing(options, text) == [], name


def test_every_http_route_is_described(tmp_path: Path) -> None:
    host = Host(None, None, settings=HostSettings(state_dir=tmp_path))
    paths = [re.sub(r":path\}", "}", route.path) for route in Routes(host).all()]  # pyright: ignore
    files = ("/docs/", "/docs.")  # what the page itself is made of
    assert missing([one for one in paths if not one.startswith(files)], page("http.md")) == []


def test_every_metric_is_described() -> None:
    assert missing({**METRICS, **OF_MODELS, **AGENT_METRICS}, page("metrics.md")) == []


def test_every_field_of_a_log_line_is_described() -> None:
    error = EngineHostError("x")
    error.__cause__ = ValueError("y")
    raw = RawRecord(1.0, "f", "e", "s", "t", "http", 1, 2, 3, "internal", 0.1, error, {}, 1)
    import orjson

    fields = orjson.loads(line(raw, "call", cause=True, values=True))
    assert missing(fields, page("metrics.md")) == []


def test_every_field_of_a_call_record_is_described() -> None:
    names = [field.name for field in dataclasses.fields(CallRecord)]
    assert missing(names, page("plugins.md")) == []


def test_every_error_is_described() -> None:
    assert missing(ERROR_TABLE, page("errors.md")) == []


def test_every_hook_and_entry_point_group_is_described() -> None:
    from enginehost import hooks

    names = [name for name in hooks.__all__ if name not in ("PROJECT", "hookspec")]
    assert missing([*names, ENGINES, COMMANDS, HOOKS], page("plugins.md")) == []


def test_every_kind_of_tool_is_described() -> None:
    assert missing(SPEC_KINDS, page("tools.md")) == []


def test_every_state_of_an_engine_is_described() -> None:
    assert missing([str(state) for state in EngineState], page("reliability.md")) == []


def test_every_key_of_a_policy_is_described() -> None:
    names = [*PolicyRules.model_fields, *Rule.model_fields]
    assert missing(names, page("policy-and-tokens.md")) == []


def test_every_public_name_is_described() -> None:
    text = page("plugins.md") + page("library.md")
    names = [name for name in enginehost.__all__ if not name.startswith("__")]
    contract = [name for name in vars(IFunctionEngine) if not name.startswith("_")]
    assert missing([*names, *contract, *vars_of(Host), EngineRecord.__name__], text) == []
    assert missing(set(enginehost.testing.__all__) - {"Example"}, page("plugins.md")) == []


def vars_of(cls: type) -> list[str]:
    """The methods that users of a host call. Faces have the rest."""
    faces = {
        "visible",
        "new_call",
        "call_json",
        "stream_json",
        "refuse",
        "watch_starts",
        "watch_ends",
        "steps",
        "place",
        "called",
        "recorded",
        "face_names",
        "accepting",
        "in_flight",
        "policy",
    }
    return [name for name in vars(cls) if not name.startswith("_") and name not in faces]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_link_leads_somewhere(path: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+://", target):
            continue
        name, _, anchor = target.partition("#")
        file = path if not name else (path.parent / name).resolve()
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), target


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        one = waiting.pop()
        if one in reached or one.suffix != ".md":
            continue
        reached.add(one)
        links = re.findall(r"\]\(([\w./-]+\.md)", one.read_text(encoding="utf-8"))
        waiting += [(one.parent / link).resolve() for link in links]
    assert [str(one) for one in DOCS.glob("*.md") if one not in reached] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_page_names_a_place_that_only_one_machine_has(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = re.findall(
        r"(?<![\w.])/(?:tmp|home|root|work|Users)/\S*|\b(?:pypi|files\.pythonhosted)\.org\S*", text
    )
    assert found == []
    assert "TODO" not in text
