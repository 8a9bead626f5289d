"""One look at a file finds everything that is wrong with it, each thing at its key as it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import Field, SecretStr, field_validator, model_validator

from enginehost.config import BadValue, EngineConfig
from enginehost.diagnostics import Diagnostic, Severity
from enginehost.engine import AbstractFunctionEngine, EngineContext, HostAccess
from enginehost.errors import ConfigError
from enginehost.loader import Loaded, Loader, sources
from enginehost.plugins import ENGINES, Alias, PluginRegistry
from enginehost.redaction import Redactor
from enginehost.secrets import Secrets

HEAD = "FUNCTION_NAME = f\nFUNCTION_DESCRIPTION = d\n"


class PaintConfig(EngineConfig):
    """Keys of every kind."""

    paint_layers: int = Field(default=1, ge=1, le=9, description="How many layers.")
    paint_colour: str = Field(default="", description="The colour.")
    paint_key: SecretStr | None = Field(default=None, description="The key of the store.")

    @field_validator("paint_colour")
    @classmethod
    def _is_known(cls, colour: str) -> str:
        if colour not in ("", "red"):
            raise BadValue("PAINT_COLOUR is no colour", hint="write red", reason="bad-colour")
        return colour

    @model_validator(mode="after")
    def _fits(self) -> PaintConfig:
        if self.paint_layers > 3 and not self.paint_colour:
            raise BadValue("PAINT_LAYERS needs a colour", hint="add PAINT_COLOUR", key="PAINT_LAYERS")
        return self


class Painter(AbstractFunctionEngine):
    config_model = PaintConfig
    made = 0

    def __init__(self, context: EngineContext, config: PaintConfig) -> None:
        super().__init__(context, config)
        type(self).made += 1
        if (wall := context.properties.get("ENGINE_ALIAS")) == "none":
            raise ConfigError(f"ENGINE_ALIAS: there is no wall {wall}", hint="build one")
        if not config.paint_colour:
            raise ConfigError("there is no colour", hint="write PAINT_COLOUR")

    def execute(self, parameters: dict[str, Any]) -> None:
        """Paint."""


def load(text: str, folder: Path, *engines: tuple[str, Any]) -> Loaded:
    registry = PluginRegistry()
    for name, engine in engines:
        registry.add_engine_class(Alias(name, f"tests:{name}", ENGINES, "tests", ""), engine)
    redactor = Redactor()
    secrets = Secrets(redactor=redactor, environ={})
    loader = Loader(
        registry, secrets, sources(secrets, folder, {}), HostAccess(), redactor, lambda path: None
    )
    return loader.load_text(text.encode(), folder / "wall.smss")


def findings(text: str, folder: Path, *engines: tuple[str, Any]) -> list[tuple[int, str]]:
    found = load(text, folder, *engines).record.diagnostics
    return sorted((one.line, one.code) for one in found)


def only(text: str, folder: Path, *engines: tuple[str, Any]) -> Diagnostic:
    (found,) = load(text, folder, *engines).record.diagnostics
    return found


def test_wrong_limits_hide_no_missing_script(tmp_path: Path) -> None:
    text = (
        f"ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = none.py\nTIMEOUT_SECONDS = many\n"
        f"RATE_LIMIT = lots\nAPPROVAL = maybe\nFUNCTION_BIND = []\nINIT_FUNCTION_ENGINE = =\n"
        f"IDLE_TIMEOUT = never\n{HEAD}"
    )
    assert findings(text, tmp_path) == [
        (2, "script-missing"),
        (3, "bad-limit"),
        (4, "bad-limit"),
        (5, "bad-approval"),
        (6, "bad-bind"),
        (7, "script-syntax"),
        (8, "bad-value"),
    ]


def test_malformed_parameters_hide_nothing_that_can_be_known_without_them(tmp_path: Path) -> None:
    text = (
        "ENGINE_CLASS = REST\nURL = ftp://x/{a}\nHTTP_METHOD = GOT\n"
        'PARAMETER_PLACEMENT = {"b": "nowhere"}\nHEADERS = {"a b": 1}\nRESPONSE_PATH = a[[\n'
        f'FUNCTION_PARAMETERS = [{{"name": "a" "type"\nFUNCTION_RESULT = 1\n{HEAD}'
    )
    assert findings(text, tmp_path) == [
        (2, "bad-url"),
        (3, "bad-value"),
        (4, "bad-placement"),
        (5, "bad-header"),
        (6, "bad-response-path"),
        (7, "malformed-json"),
        (8, "bad-schema"),
    ]


def test_nobody_is_told_of_undeclared_parameters_where_the_declared_ones_cannot_be_read(
    tmp_path: Path,
) -> None:
    text = f"ENGINE_CLASS = REST\nURL = http://x/{{a}}\nFUNCTION_PARAMETERS = [{{\n{HEAD}"
    assert findings(text, tmp_path) == [(3, "malformed-json")]
    text = (
        'ENGINE_CLASS = REST\nURL = http://x/\nPARAMETER_PLACEMENT = {"a": "query"}\nFUNCTION_BIND = 1\n'
        + HEAD
    )
    assert findings(text, tmp_path) == [(4, "bad-bind")]


def test_what_is_not_resolved_is_told_once(tmp_path: Path) -> None:
    text = f"ENGINE_CLASS = REST\nURL = ${{env:NO}}/x\nAUTH = api_key\nAPI_KEY_VALUE = ${{secret:no}}\n{HEAD}"
    assert findings(text, tmp_path) == [(2, "unresolved-env"), (4, "unresolved-secret")]


def test_a_slip_in_the_class_hides_no_error_of_the_signature(tmp_path: Path) -> None:
    text = "ENGINE_CLASS = LocalPyton\nFUNCTION_NAME = f\nFUNCTION_PARAMETERS = [\nQUEUE_LIMIT = x\n"
    assert findings(text, tmp_path) == [(1, "unsupported"), (3, "malformed-json"), (4, "bad-limit")]


def test_an_engine_is_asked_what_else_is_wrong(tmp_path: Path) -> None:
    painter = ("Painter", Painter)
    text = f"ENGINE_CLASS = Painter\nENGINE_ALIAS = none\nQUEUE_LIMIT = x\n{HEAD}"
    assert findings(text, tmp_path, painter) == [(2, "config"), (3, "bad-limit")]
    text = f"ENGINE_CLASS = Painter\nENGINE_ALIAS = none\nPAINT_COLOUR = ${{env:NO}}\n{HEAD}"
    assert findings(text, tmp_path, painter) == [(2, "config"), (3, "unresolved-env")]


def test_what_an_engine_misses_for_want_of_a_broken_key_is_not_told(tmp_path: Path) -> None:
    painter = ("Painter", Painter)
    text = f"ENGINE_CLASS = Painter\nPAINT_COLOUR = ${{env:NO}}\nPAINT_LAYERS = 7\n{HEAD}"
    assert findings(text, tmp_path, painter) == [(2, "unresolved-env")]
    text = f"ENGINE_CLASS = Painter\nPAINT_COLOUR = blue\n{HEAD}"
    assert findings(text, tmp_path, painter) == [(2, "bad-colour")]


def test_an_engine_that_cannot_be_made_of_a_broken_file_adds_nothing(tmp_path: Path) -> None:
    class Breaking(Painter):
        def __init__(self, context: EngineContext, config: PaintConfig) -> None:
            raise SystemExit(3)

    text = f"ENGINE_CLASS = Breaking\nQUEUE_LIMIT = x\n{HEAD}"
    assert findings(text, tmp_path, ("Breaking", Breaking)) == [(2, "bad-limit")]


def test_an_error_stands_at_the_key_as_the_file_has_it(tmp_path: Path) -> None:
    found = only(f"ENGINE_CLASS = REST\n\nURL = http://x/{{missing}}\n{HEAD}", tmp_path)
    assert (found.line, found.code) == (3, "undeclared-parameter")
    assert found.message.startswith("URL names 'missing'")
    found = only(f"ENGINE_TYPE = no_such_module:Thing\n{HEAD}", tmp_path)
    assert (found.line, found.message.partition(":")[0]) == (1, "ENGINE_TYPE")


def test_the_reason_names_the_file_and_the_line(tmp_path: Path) -> None:
    loaded = load(f"ENGINE_CLASS = REST\nURL = http://x/{{missing}}\n{HEAD}", tmp_path)
    assert loaded.record.reason.startswith("wall.smss:2: URL names 'missing'")
    loaded = load("ENGINE_CLASS = REST\nURL = http://x/\n", tmp_path)
    assert loaded.record.reason == "wall.smss: the key FUNCTION_NAME is missing"
    (tmp_path / "f.py").write_text("def f(:\n")
    loaded = load(f"ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = f.py\n{HEAD}", tmp_path)
    assert loaded.record.reason.startswith("wall.smss:2: f.py:1:7: ")


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        (
            "PAINT_LAYERS = many",
            "PAINT_LAYERS has to be a whole number, at least 1 and at most 9, not 'many'",
            "How many layers. (without the key: 1)",
        ),
        (
            "PAINT_LAYERS = 10",
            "PAINT_LAYERS has to be at most 9, not '10'",
            "How many layers. (without the key: 1)",
        ),
        ("PAINT_COLOUR = blue", "PAINT_COLOUR is no colour", "write red"),
        ("PAINT_LAYERS = 4", "PAINT_LAYERS needs a colour", "add PAINT_COLOUR"),
    ],
)
def test_a_wrong_value_is_quoted_with_what_is_allowed(
    tmp_path: Path, line: str, message: str, hint: str
) -> None:
    found = only(f"ENGINE_CLASS = Painter\n{line}\n{HEAD}", tmp_path, ("Painter", Painter))
    assert (found.line, found.message, found.hint) == (2, message, hint)


def test_a_value_from_outside_is_not_quoted(tmp_path: Path) -> None:
    text = f"ENGINE_CLASS = Painter\nPAINT_LAYERS = ${{file:n.txt}}\nRATE_LIMIT = ${{file:n.txt}}\n{HEAD}"
    (tmp_path / "n.txt").write_text("hush-hush")
    loaded = load(text, tmp_path, ("Painter", Painter))
    assert len(loaded.record.diagnostics) == 2
    assert "hush" not in str(loaded.record)


@pytest.mark.parametrize(
    ("kind", "type_", "warned"),
    [
        ("LocalPython", "prerna.engine.impl.function.RESTFunctionEngine", True),
        ("LocalPython", "REST", True),
        ("LocalPython", "LocalPyton", True),
        ("LocalPython", "prerna.engine.impl.function.LocalPythonFunctionEngine", False),
        ("LocalPython", "localpython", False),
        ("LocalPython", "prerna.engine.impl.function.SomethingOfJava", False),
        ("LocalPython", " ", False),
    ],
)
def test_two_classes_that_contradict_each_other_are_a_warning(
    tmp_path: Path, kind: str, type_: str, warned: bool
) -> None:
    (tmp_path / "f.py").write_text("def f(): return 1\n")
    text = f"ENGINE_CLASS = {kind}\nENGINE_TYPE = {type_}\nPYTHON_SCRIPT_PATH = f.py\n{HEAD}"
    loaded = load(text, tmp_path)
    assert loaded.engine is not None
    found = [(one.line, one.code, one.severity) for one in loaded.record.diagnostics]
    assert found == ([(2, "shadowed-key", Severity.WARNING)] if warned else [])


def test_a_secret_that_callers_would_read_is_refused_before_anybody_is_asked_for_it(tmp_path: Path) -> None:
    text = "ENGINE_CLASS = REST\nURL = http://x/\nFUNCTION_NAME = f\nFUNCTION_DESCRIPTION = {}\n"
    for description in ("${secret:nono}", "${env:API_TOKEN}"):
        found = only(text.format(description), tmp_path)
        assert (found.line, found.code) == (4, "secret-in-public-key")
    text = text.format("${INNER}\nINNER = ${secret:nono}")
    assert findings(text, tmp_path) == [(4, "secret-in-public-key"), (5, "unresolved-secret")]


@pytest.mark.parametrize(
    ("placeholder", "message", "hint"),
    [
        ("${file:/proc/self/environ}", "it lies in a folder of the kernel's", "a file of your own"),
        ("${file:none.txt}", "No such file", "the path starts in the folder of the smss file"),
        ("${file:/none.txt}", "No such file", "make the file"),
        ("${file:.}", "it is no regular file", ""),
        ("${env:NONE}", "which is not set", "set the environment variable NONE"),
        ("${secret:none}", "which is not known", "set the variable ENGINEHOST_SECRET_NONE"),
    ],
)
def test_the_hint_fits_why_a_value_cannot_be_had(
    tmp_path: Path, placeholder: str, message: str, hint: str
) -> None:
    found = only(f"ENGINE_CLASS = REST\nURL = http://x/\nAUTH_TOKEN = {placeholder}\n{HEAD}", tmp_path)
    assert found.line == 3
    assert message in found.message
    assert hint in found.hint
    assert ("smss file" in found.hint) == (placeholder == "${file:none.txt}")


def test_a_store_that_fails_is_the_one_to_see_to(tmp_path: Path) -> None:
    from enginehost.contributions import Implementation

    def vault(name: str) -> str:
        raise OSError("sealed")

    secrets = Secrets(stores=(Implementation("boom", "secret", vault),), environ={})
    loader = Loader(
        PluginRegistry(), secrets, sources(secrets, tmp_path, {}), HostAccess(), Redactor(), lambda path: None
    )
    text = f"ENGINE_CLASS = REST\nURL = http://x/\nAUTH_TOKEN = ${{secret:boom}}\n{HEAD}"
    (found,) = loader.load_text(text.encode(), tmp_path / "a.smss").record.diagnostics
    assert "the secret store boom failed" in found.message
    assert "ENGINEHOST_SECRET" not in found.hint
    assert "boom" in found.hint


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ('[{"name": "a"', "with a backslash"),
        ('[{"name": "a" "type": 1}]', "double quotes"),
        ('["a', "close the string"),
    ],
)
def test_malformed_json_says_what_to_do(tmp_path: Path, value: str, hint: str) -> None:
    text = f"ENGINE_CLASS = REST\nURL = http://x/\nFUNCTION_PARAMETERS = {value}\n{HEAD}"
    found = only(text, tmp_path)
    assert found.code == "malformed-json"
    assert hint in found.hint
