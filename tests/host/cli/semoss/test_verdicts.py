"""Each file is told whether it runs, why not, and what would bring it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.host.cli.conftest import Cli

from .conftest import codes, only
from .files import NEW_LAYOUT, OLD_LAYOUT, SUMS, engine, python, tree


@pytest.mark.parametrize("kind", ["storage.S3", "model.M", "vector.Faiss", "guardrail.G", "rdbms.X"])
def test_an_engine_of_another_type_is_left_out_and_no_fault(
    cli: Cli, imported: Any, home: Path, kind: str
) -> None:
    files = OLD_LAYOUT | engine(kind, package="prerna.engine.impl.")
    other = imported(files)["files"][0]
    assert (other["verdict"], other["action"]) == ("other type", "left out")
    assert other["reason"].startswith("a SEMOSS ")
    assert tree(home / "out") == OLD_LAYOUT


def test_a_source_without_any_function_engine_fails(imported: Any, home: Path) -> None:
    assert imported(engine("model.M", package="prerna.engine.impl."), code=1)["other"] == 1
    assert not (home / "out").exists()


@pytest.mark.parametrize(
    ("simple", "package", "hint"),
    [
        ("LocalPythonnFunctionEngine", "prerna.engine.impl.function.", "did you mean"),
        ("BraveSearchFunctionEngine", "prerna.engine.impl.function.", "REST"),
        ("AWSTextractFunctionEngine", "prerna.engine.impl.function.", "boto3"),
        ("AWSTextractCustomEmbeddingsFunctionEngine", "prerna.engine.impl.function.", "boto3"),
        ("SMTPFunctionEngine", "prerna.engine.impl.function.", "smtplib"),
        ("LocalRFunctionEngine", "prerna.engine.impl.function.", 'Command runs R: COMMAND = ["Rscript"'),
        ("RFunctionEngine", "prerna.engine.impl.function.", 'Command runs R: COMMAND = ["Rscript"'),
        ("OrderLookupFunctionEngine", "com.example.semoss.", "docs/reactor.md"),
        ("NobodyKnowsFunctionEngine", "prerna.engine.impl.function.", "install a plugin"),
    ],
)
def test_a_class_that_nobody_provides_is_told_with_what_would_bring_it(
    imported: Any, home: Path, simple: str, package: str, hint: str
) -> None:
    file = only(imported(engine(simple, package=package), code=1))
    assert (file["verdict"], file["action"], codes(file)) == ("cannot", "left out", ["unsupported"])
    assert hint in file["diagnostics"][0]["hint"]
    assert file["reason"]
    assert not (home / "out").exists()


def test_the_script_of_an_r_engine_is_named_for_the_command(imported: Any) -> None:
    files = engine("LocalRFunctionEngine") | {"E1__1/app_root/version/assets/forecast.R": "1"}
    hint = only(imported(files, code=1))["diagnostics"][0]["hint"]
    assert 'COMMAND = ["Rscript", "E1__1/app_root/version/assets/forecast.R", …]' in hint


def test_a_missing_script_is_told(imported: Any) -> None:
    file = only(imported(python(""), code=1))
    assert (file["verdict"], codes(file)) == ("cannot", ["script-missing"])
    assert file["diagnostics"][0]["line"]


def test_a_function_that_is_not_in_its_script_is_told(imported: Any) -> None:
    file = only(imported(python("def other(): pass\n"), code=1))
    assert (file["verdict"], file["action"]) == ("cannot", "left out")


@pytest.mark.parametrize(
    ("module", "hint"),
    [
        ("no_such_module_of_mine", "install what brings no_such_module_of_mine"),
        ("gaas_gpt_model", "SEMOSS's own"),
    ],
)
def test_code_that_does_not_load_is_told(imported: Any, home: Path, module: str, hint: str) -> None:
    file = only(imported(python(f"import {module}\ndef f1(): pass\n"), code=1))
    assert (file["verdict"], codes(file)) == ("cannot", ["open-failed"])
    (found,) = file["diagnostics"]
    assert "main.py:1" in found["message"]
    assert hint in found["hint"]
    assert str(home) not in found["message"], "a path of the copy helps nobody"


def test_code_is_not_called_and_where_asked_not_loaded(imported: Any, home: Path) -> None:
    mark = home / "mark"
    script = f"open({str(mark)!r}, 'a').write('loaded')\ndef f1(): open({str(mark)!r}, 'a').write('called')\n"
    report = imported(python(script), "--no-load", "--dry-run")
    assert not mark.exists()
    assert (only(report)["verdict"], report["loaded"]) == ("runs", False)
    assert only(imported({}))["verdict"] == "runs"
    assert mark.read_text() == "loaded"


def test_one_bad_file_never_hurts_another(imported: Any, home: Path) -> None:
    bad = {"Bad__1.smss": "\\u12", "Worse__2.smss": "\0" * 100, "Crash__5.smss": "ENGINE_TYPE\n"}
    files = bad | OLD_LAYOUT | python("import os; os._exit(1)\ndef f3(): pass\n", 3)
    (home / "function").mkdir()
    (home / "function" / "Big__4.smss").write_bytes(b"#" * (5 << 20))
    verdicts = {one["file"]: one["verdict"] for one in imported(files, code=1)["files"]}
    assert verdicts.pop(f"{SUMS}.smss") == "runs"
    assert set(verdicts.values()) == {"cannot"}
    assert len(verdicts) == 5
    assert tree(home / "out") == OLD_LAYOUT


def test_keys_without_effect_are_listed_and_promises_are_warnings(imported: Any) -> None:
    more = "FORCE_PORT\t5555\nTCP_WORKER_CP\t\nVIRTUAL_ENV_ENGINE\tvenv-1\n"
    files = python("def f1(): pass\n", more=more)
    file = only(imported(files))
    assert file["verdict"] in ("runs", "runs with warnings")
    assert "FORCE_PORT" in file["keys_without_effect"]
    assert "TCP_WORKER_CP" not in file["keys_without_effect"], "a form wrote it blank"


def test_what_forms_write_into_every_file_is_not_told(imported: Any) -> None:
    assert only(imported(OLD_LAYOUT))["keys_without_effect"] == []


def test_guardrails_that_would_be_lost_are_told(imported: Any) -> None:
    place = f"{SUMS}/app_root/version/assets/pipeline.json"
    assert codes(only(imported(NEW_LAYOUT | {place: '{"input": [], "output": []}'}, "--dry-run"))) == []
    rails = '{"input": [{"guardrailEngineId": "g-1"}]}'
    assert codes(only(imported(NEW_LAYOUT | {place: rails}, "--dry-run"))) == ["no-guardrails"]


def test_a_script_outside_of_the_engines_folder_is_not_run_and_not_taken(imported: Any, home: Path) -> None:
    mark = home / "mark"
    (home / "elsewhere.py").write_text(f"open({str(mark)!r}, 'w')\ndef f1(): pass\n")
    text = engine("LocalPythonFunctionEngine", 1, f"PYTHON_FILE_NAME\t{home / 'elsewhere.py'}\n")
    file = only(imported(text | {"E1__1/x": ""}, code=1))
    assert (file["verdict"], codes(file)) == ("cannot", ["script-outside"])
    assert not mark.exists()


def test_what_cannot_run_comes_where_that_is_asked_for(imported: Any, home: Path) -> None:
    files = python("") | engine("model.M", 2, package="prerna.engine.impl.")
    report = imported(files, "--all", code=1)
    assert [one["action"] for one in report["files"]] == ["imported", "left out"]
    assert list(tree(home / "out")) == ["E1__1.smss"]
