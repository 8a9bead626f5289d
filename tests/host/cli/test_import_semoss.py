"""``enginehost import semoss``: what SEMOSS wrote is taken, and each file is told whether it runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from enginehost.cli.semoss import placing

from .conftest import Cli, running, write
from .semoss_files import (
    NEW_LAYOUT,
    OLD_LAYOUT,
    SUMS,
    SUMS_SCRIPT,
    SUMS_SMSS,
    TIDES,
    TIDES_SMSS,
    Raw,
    engine,
    export,
    lay_out,
    python,
    raw_archive,
    tree,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where the commands run."""
    return tmp_path


@pytest.fixture
def imported(cli: Cli, home: Path) -> Any:
    """``imported(files, "--force")``: import a folder of these files into ``out``; the report as JSON."""

    def run(files: dict[str, str], *words: str, code: int = 0) -> Any:
        source = lay_out(home / "function", files)
        done = cli("import", "semoss", str(source), "--to", "out", "--json", *words)
        assert done.code == code, (done.out, done.err)
        return done.json

    return run


def only(report: Any) -> Any:
    (file,) = report["files"]
    return file


def codes(file: Any) -> list[str]:
    return [found["code"] for found in file["diagnostics"]]


@pytest.mark.parametrize("files", [OLD_LAYOUT, NEW_LAYOUT], ids=["2024", "2026"])
def test_a_folder_of_semoss_is_taken_as_it_is_and_serves(
    cli: Cli, imported: Any, home: Path, files: dict[str, str]
) -> None:
    file = only(imported(files))
    assert (file["file"], file["verdict"], file["action"]) == (f"{SUMS}.smss", "runs", "imported")
    assert file["functions"] == ["sum_order"]
    assert tree(home / "out") == files
    assert cli("call", "sum_order", "--folder", "out", "--json", '{"amounts": [1, 2]}').out == "3\n"


def test_an_export_archive_is_taken_as_it_is_and_serves(cli: Cli, home: Path) -> None:
    export(home / "export.zip", NEW_LAYOUT)
    done = cli("import", "semoss", "export.zip", "--to", "out")
    assert done.code == 0
    assert "1 file: 1 runs" in done.out
    assert tree(home / "out") == NEW_LAYOUT
    assert cli("call", "sum_order", "--folder", "out", "--json", '{"amounts": [1, 2]}').out == "3\n"


def test_an_archive_that_holds_the_whole_base_folder_is_taken_too(cli: Cli, home: Path) -> None:
    files = {f"base/function/{name}": text for name, text in NEW_LAYOUT.items()}
    files["base/model/M__1.smss"] = "ENGINE\t1\nENGINE_TYPE\tprerna.engine.impl.model.OpenAiEngine\n"
    done = cli("import", "semoss", str(export(home / "all.zip", files)), "--to", "out", "--json")
    assert [one["verdict"] for one in done.json["files"]] == ["runs", "other type"]
    assert tree(home / "out") == NEW_LAYOUT


def test_the_folder_served_is_the_default(cli: Cli, home: Path) -> None:
    export(home / "export.zip", NEW_LAYOUT)
    assert cli("import", "semoss", "export.zip").code == 0
    assert (home / "smss" / f"{SUMS}.smss").is_file()


def test_a_running_host_serves_what_is_imported(cli: Cli, home: Path, folder: Path) -> None:
    export(home / "export.zip", NEW_LAYOUT)
    with running(folder) as host:
        assert cli("import", "semoss", "export.zip").code == 0
        assert host.process.stderr is not None
        next(line for line in host.process.stderr if "(sum_order)" in line)
        assert cli("call", "sum_order", "--url", host.url, "--json", '{"amounts": [1]}').out == "1\n"


# verdicts


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


SECRET = "s3cr3t-of-the-customer"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("API_KEY_VALUE", SECRET),
        ("AUTH_PASSWORD", SECRET),
        ("HEADERS", '{"X-Api-Key": "' + SECRET + '"}'),
        ("HEADERS", '{"Authorization": "Bearer ' + SECRET + '"}'),
        ("HEADERS", "{'authorization': 'Basic " + SECRET + "'}"),
        ("URL", f"https://tides.example.invalid/?api_key={SECRET}"),
        ("SECRET_KEY", SECRET),
    ],
)
def test_a_secret_in_clear_text_is_kept_and_told_but_not_shown(
    cli: Cli, home: Path, key: str, value: str
) -> None:
    lines = [line for line in TIDES_SMSS.splitlines() if not line.startswith(f"{key} ")]
    text = "\n".join([*lines, f"{key} = {value}", ""])
    lay_out(home / "function", {f"{TIDES}.smss": text})
    done = cli("import", "semoss", "function", "--to", "out", "--json")
    assert done.code == 0
    file = only(done.json)
    (found,) = (one for one in file["diagnostics"] if one["code"] == "secret-in-file")
    assert file["verdict"] == "runs with warnings"
    assert found["line"] == len(lines) + 1
    assert key in found["message"]
    assert SECRET not in done.out
    assert SECRET not in done.err
    assert tree(home / "out") == {f"{TIDES}.smss": text}


def test_a_secret_in_the_commands_that_run_first_is_told(imported: Any) -> None:
    more = f"INIT_FUNCTION_ENGINE\tapi_key = '{SECRET}'\n"
    assert "secret-in-file" in codes(only(imported(python("def f1(): pass\n", more=more))))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("HEADERS", '{"Authorization": "Bearer ${env:TIDE_TOKEN:-x}", "Accept": "text/plain"}'),
        ("HEADERS", '{"X-Api-Key": ""}'),
        ("API_KEY_HEADER_NAME", "X-Api-Key"),
        ("URL", "https://tides.example.invalid/?page=2"),
    ],
)
def test_what_is_no_secret_is_not_told(imported: Any, key: str, value: str) -> None:
    lines = [line for line in TIDES_SMSS.splitlines() if not line.startswith(f"{key} ")]
    report = imported(
        {f"{TIDES}.smss": "\n".join([*lines, f"{key} = {value}", ""])}, "--dry-run", "--no-load"
    )
    assert "secret-in-file" not in codes(only({"files": report["files"]}))


def test_a_secret_is_told_of_a_file_too_that_comes_to_be_mended(imported: Any) -> None:
    files = python("", more=f"INIT_FUNCTION_ENGINE\tapi_key = '{SECRET}'\n")
    assert codes(only(imported(files, "--all", code=1))) == ["script-missing", "secret-in-file"]


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


# the modules of a reactor

REACTOR = """\
ENGINE\t9
ENGINE_ALIAS\tSum
ENGINE_TYPE\tprerna.engine.impl.function.AbstractReactorFunctionEngine
REACTOR_CLASS_NAME\t{module}.SumReactor
FUNCTION_NAME\tsum_up
FUNCTION_DESCRIPTION\tSums up
FUNCTION_PARAMETERS\t[{{"parameterName":"lines","parameterType":"array"}}]
"""
CLASS = """\
from enginehost.reactor import Reactor
{imports}

class SumReactor(Reactor):
    keys_to_get = ("lines",)

    def execute(self):
        return add(self.get_nouns("lines"))
"""
ADDS = "def add(lines):\n    return sum(lines)\n"
SHARED = {
    "Sum__9.smss": REACTOR.format(module="lib.sums"),
    "lib/sums.py": CLASS.format(imports="") + ADDS,
}


@pytest.mark.parametrize("place", ["", "Sum__9/", "Sum__9/py/", "Sum__9/app_root/version/assets/"])
def test_the_module_of_a_reactor_and_what_it_imports_come_along(
    imported: Any, cli: Cli, home: Path, place: str
) -> None:
    files = {
        "Sum__9.smss": REACTOR.format(module="sums"),
        f"{place}sums.py": CLASS.format(imports="from adding.up import add"),
        f"{place}adding/up.py": "from .plus import add\n",
        f"{place}adding/plus.py": ADDS,
    }
    beside = {"unused.py": "1/0", "adding/unused.py": "1/0"}
    assert only(imported(files | beside))["verdict"] == "runs"
    assert tree(home / "out") == files
    assert cli("call", "sum_up", "--folder", "out", "lines:=[1, 2]").out == "3\n"
    assert only(imported(files))["action"] == "already there"


def test_a_package_comes_whole_and_a_class_in_it_is_found(imported: Any, home: Path) -> None:
    files = {
        "Sum__9.smss": REACTOR.format(module="pack.r"),
        "pack/__init__.py": "from pack.deep.a import add\n",
        "pack/r.py": CLASS.format(imports="from . import add"),
        "pack/deep/a.py": ADDS,
        "pack/x.json": "{}",
    }
    assert only(imported(files))["action"] == "imported"
    assert tree(home / "out") == files


def test_a_module_that_another_reactor_shares_is_neither_twice_nor_overwritten(
    imported: Any, home: Path
) -> None:
    other = SHARED | {"Sum__8.smss": SHARED["Sum__9.smss"].replace("\t9", "\t8").replace("sum_up", "other")}
    imported(SHARED)
    lay_out(home / "out", {"lib/mine.py": "1"})
    before = (home / "out" / "lib" / "sums.py").stat().st_ino
    done = imported(other)
    assert [one["action"] for one in done["files"]] == ["imported", "already there"]
    assert (home / "out" / "lib" / "sums.py").stat().st_ino == before
    lay_out(home / "out", {"lib/sums.py": SHARED["lib/sums.py"] + "# mine\n"})
    assert {one["action"] for one in imported(other, code=1)["files"]} == {"not overwritten"}
    assert {one["action"] for one in imported(other, "--force")["files"]} == {"replaced"}
    assert tree(home / "out") == other | {"lib/mine.py": "1"}


def test_a_link_in_the_place_of_a_modules_folder_is_not_written_through(imported: Any, home: Path) -> None:
    (home / "precious").mkdir()
    (home / "out").mkdir()
    (home / "out" / "lib").symlink_to(home / "precious")
    assert only(imported(SHARED, code=1))["action"] == "not overwritten"
    assert only(imported(SHARED, "--force"))["action"] == "replaced"
    assert list((home / "precious").iterdir()) == []
    assert tree(home / "out") == SHARED


def test_a_reactor_without_its_module_is_told_where_it_is_looked_for(imported: Any) -> None:
    file = only(imported({"Sum__9.smss": REACTOR.format(module="sums"), "Sum__9/x": ""}, code=1))
    (found,) = [one for one in file["diagnostics"] if one["severity"] == "error"]
    assert found["message"] == "REACTOR_CLASS_NAME: there is no module sums"
    assert found["hint"] == "put sums.py beside the smss file, or into Sum__9, or install the package"


# what is there already


def test_a_second_import_changes_nothing(imported: Any, home: Path) -> None:
    imported(OLD_LAYOUT)
    before = (home / "out" / f"{SUMS}.smss").stat().st_ino
    (home / "out" / SUMS / "cache.db").write_text("written by the function")
    assert only(imported(OLD_LAYOUT))["action"] == "already there"
    assert (home / "out" / f"{SUMS}.smss").stat().st_ino == before


@pytest.mark.parametrize("name", [f"{SUMS}.smss", f"{SUMS}/order_sums.py"])
def test_an_engine_that_was_edited_is_overwritten_with_force_only(
    imported: Any, home: Path, name: str
) -> None:
    imported(OLD_LAYOUT)
    edited = OLD_LAYOUT | {name: OLD_LAYOUT[name] + "# mine\n"}
    lay_out(home / "out", edited)
    lay_out(home / "out", {f"{SUMS}/of_old.py": ""})
    assert only(imported(OLD_LAYOUT, code=1))["action"] == "not overwritten"
    assert tree(home / "out") == edited | {f"{SUMS}/of_old.py": ""}
    assert only(imported(OLD_LAYOUT, "--force"))["action"] == "replaced"
    assert tree(home / "out") == OLD_LAYOUT


def test_a_folder_alone_that_is_there_is_not_overwritten_either(imported: Any, home: Path) -> None:
    lay_out(home / "out", {f"{SUMS}/precious": "1"})
    assert only(imported(OLD_LAYOUT, code=1))["action"] == "not overwritten"
    assert tree(home / "out") == {f"{SUMS}/precious": "1"}


def test_a_link_in_the_folder_served_is_replaced_and_not_written_through(imported: Any, home: Path) -> None:
    outside = home / "precious.smss"
    outside.write_text("1")
    (home / "out").mkdir()
    (home / "out" / f"{SUMS}.smss").symlink_to(outside)
    assert only(imported(OLD_LAYOUT, "--force"))["action"] == "replaced"
    assert outside.read_text() == "1"
    assert tree(home / "out") == OLD_LAYOUT


def test_an_engine_that_is_there_under_another_name_does_not_come_twice(imported: Any, home: Path) -> None:
    lay_out(home / "out", {"renamed.smss": SUMS_SMSS})
    file = only(imported(OLD_LAYOUT, "--force", code=1))
    assert (file["action"], codes(file)) == ("not overwritten", ["duplicate-engine-id"])
    assert tree(home / "out") == {"renamed.smss": SUMS_SMSS}


def test_a_function_name_that_is_taken_is_told(imported: Any, home: Path) -> None:
    lay_out(home / "out", {"mine.smss": "ENGINE_CLASS = LocalPython\nFUNCTION_NAME = sum_order\n"})
    file = only(imported(OLD_LAYOUT))
    assert (file["verdict"], file["action"]) == ("runs with warnings", "imported")
    assert codes(file) == ["name-conflict"]


def test_two_files_with_one_id_do_not_both_come(imported: Any) -> None:
    second = {"Copy.smss": SUMS_SMSS}
    actions = {one["file"]: one["action"] for one in imported(OLD_LAYOUT | second, code=1)["files"]}
    assert sorted(actions.values()) == ["imported", "not overwritten"]


def test_two_files_of_one_name_in_two_folders_are_told(imported: Any) -> None:
    files = {f"{place}/{name}": text for place in ("a", "b") for name, text in OLD_LAYOUT.items()}
    first, second = imported(files, code=1)["files"]
    assert (first["action"], second["action"], codes(second)) == ("imported", "left out", ["same-name"])


def test_the_folder_served_itself_is_only_judged(cli: Cli, home: Path) -> None:
    lay_out(home / "here", OLD_LAYOUT)
    done = cli("import", "semoss", "here", "--to", "here", "--json")
    assert (done.code, only(done.json)["action"]) == (0, "already there")
    assert tree(home / "here") == OLD_LAYOUT


# nothing or all


def test_a_dry_run_writes_nothing(imported: Any, home: Path) -> None:
    report = imported(OLD_LAYOUT, "--dry-run")
    assert (report["dry_run"], only(report)["action"]) == (True, "imported")
    assert not (home / "out").exists()
    assert {path.name for path in home.iterdir()} == {"smss", "function", "state"} & {
        path.name for path in home.iterdir()
    }


def test_a_move_that_fails_undoes_those_before_it(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(home / "out", {f"{SUMS}.smss": "old", f"{SUMS}/old.py": "old"})
    before = tree(home / "out")
    lay_out(home / "function", OLD_LAYOUT | SHARED | {f"{TIDES}.smss": TIDES_SMSS})
    move = placing._move

    def failing(source: Path, goal: Path, moved: list[tuple[Path, Path]]) -> None:
        if goal.name.startswith("Tide"):
            raise OSError(28, "No space left on device", str(goal))
        move(source, goal, moved)

    monkeypatch.setattr(placing, "_move", failing)
    done = cli("import", "semoss", "function", "--to", "out", "--force")
    assert done.code == 2
    assert "No space left on device" in done.err
    assert tree(home / "out") == before
    assert sorted(path.name for path in (home / "out").iterdir()) == [SUMS, f"{SUMS}.smss"]


def test_what_cannot_run_comes_where_that_is_asked_for(imported: Any, home: Path) -> None:
    files = python("") | engine("model.M", 2, package="prerna.engine.impl.")
    report = imported(files, "--all", code=1)
    assert [one["action"] for one in report["files"]] == ["imported", "left out"]
    assert list(tree(home / "out")) == ["E1__1.smss"]


def test_an_archive_that_is_refused_leaves_nothing_behind(cli: Cli, home: Path) -> None:
    entries = [Raw(f"{SUMS}.smss".encode(), SUMS_SMSS.encode()), Raw(b"../../evil.smss")]
    raw_archive(home / "bad.zip", entries)
    done = cli("import", "semoss", "bad.zip", "--to", "new/out", "--json")
    assert done.code == 2
    assert "leads out of" in done.error["message"]
    assert done.error["detail"]["hint"]
    assert not (home / "new").exists()
    assert not list(home.rglob("evil.smss"))


def test_an_import_that_is_stopped_leaves_nothing_behind(folder: Path, home: Path) -> None:
    mark = home / "mark"
    script = f"import os, time\nopen({str(mark)!r}, 'w').write(f'{{os.getpid()}} ')\ntime.sleep(600)\n"
    lay_out(home / "function", OLD_LAYOUT | python(f"{script}def f1(): pass\n"))
    words = ("import", "semoss", "function", "--to", "new/out")
    process = subprocess.Popen([sys.executable, "-m", "enginehost", *words], cwd=home)
    try:
        while not mark.exists() or not mark.read_text().endswith(" "):
            assert process.poll() is None
            time.sleep(0.01)
        process.terminate()
        assert process.wait(60) == 143
    finally:
        process.kill()
    assert not (home / "new").exists()
    worker = Path("/proc", mark.read_text().strip())
    until = time.monotonic() + 20
    while worker.exists():
        assert time.monotonic() < until, "the process that loads the script is still there"
        time.sleep(0.01)


# what is not taken


def test_what_does_not_belong_to_an_engine_is_noted(imported: Any, home: Path) -> None:
    files = {"E9__9.temp": "", "Lost__8/x": "", "inner.zip": "PK", "README.md": "hello"}
    report = imported(OLD_LAYOUT | files)
    assert sorted(note["path"] for note in report["notes"]) == ["E9__9.temp", "Lost__8", "inner.zip"]
    assert tree(home / "out") == OLD_LAYOUT


def test_an_archive_in_an_archive_is_noted_and_one_in_an_engine_is_its_own(cli: Cli, home: Path) -> None:
    inside = f"{SUMS}/data.zip"
    export(home / "a.zip", OLD_LAYOUT | {inside: "PK", "B__2.zip": "PK"})
    done = cli("import", "semoss", "a.zip", "--to", "out", "--json")
    assert [note["path"] for note in done.json["notes"]] == ["B__2.zip"]
    assert inside in tree(home / "out")


def test_links_that_lead_out_of_the_folder_are_not_followed(imported: Any, home: Path) -> None:
    (home / "secret.txt").write_text("of the machine")
    (home / "machine").mkdir()
    (home / "machine" / "more.txt").write_text("of the machine")
    engine_folder = lay_out(home / "function", OLD_LAYOUT) / SUMS
    (engine_folder / "leak.txt").symlink_to(home / "secret.txt")
    (engine_folder / "machine").symlink_to(home / "machine")
    (engine_folder / "inner.py").symlink_to("order_sums.py")
    os.mkfifo(engine_folder / "pipe")
    report = imported({})
    noted = sorted(note["path"] for note in report["notes"])
    assert noted == [f"{SUMS}/leak.txt", f"{SUMS}/machine", f"{SUMS}/pipe"]
    assert tree(home / "out") == OLD_LAYOUT | {f"{SUMS}/inner.py": SUMS_SCRIPT}


def test_a_smss_file_that_is_a_link_out_of_the_folder_is_left_out(imported: Any, home: Path) -> None:
    lay_out(home / "elsewhere", OLD_LAYOUT)
    source = lay_out(home / "function", {f"{SUMS}/order_sums.py": SUMS_SCRIPT})
    (source / f"{SUMS}.smss").symlink_to(home / "elsewhere" / f"{SUMS}.smss")
    report = imported({}, "--all", code=1)
    assert (only(report)["action"], codes(only(report))) == ("left out", ["unreadable"])
    assert [note["path"] for note in report["notes"]] == [f"{SUMS}.smss"]
    assert not (home / "out").exists()


def test_history_caches_and_wide_permissions_are_not_taken(imported: Any, home: Path) -> None:
    extra = {
        f"{SUMS}/app_root/version/.git/config": "x",
        f"{SUMS}/__pycache__/order_sums.cpython-311.pyc": "x",
    }
    source = lay_out(home / "function", OLD_LAYOUT | extra)
    (source / f"{SUMS}.smss").chmod(0o600)
    (source / SUMS / "order_sums.py").chmod(0o4755)
    imported({})
    assert tree(home / "out") == OLD_LAYOUT
    assert (home / "out" / f"{SUMS}.smss").stat().st_mode & 0o7777 == 0o600
    assert (home / "out" / SUMS / "order_sums.py").stat().st_mode & 0o7777 == 0o755


# what is asked for wrongly


@pytest.mark.parametrize(
    ("source", "to", "message"),
    [
        ("nowhere", "out", "there is no nowhere"),
        ("empty", "out", "there is no smss file in empty"),
        ("smss/add.smss", "out", "single file"),
        ("text.txt", "out", "text.txt is no ZIP archive"),
        ("smss", "smss/inner", "lie in one another"),
        ("smss/inner", "smss", "lie in one another"),
        ("smss", "text.txt", "is no folder"),
    ],
)
def test_a_source_or_target_that_makes_no_sense_is_told(
    cli: Cli, home: Path, source: str, to: str, message: str
) -> None:
    (home / "empty").mkdir()
    (home / "smss" / "inner").mkdir()
    write(home, {"text.txt": "text"})
    done = cli("import", "semoss", source, "--to", to)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert not (home / "out").exists()


def test_the_table_says_for_each_file_what_it_is_and_why(cli: Cli, home: Path) -> None:
    other = engine("model.M", 2, package="prerna.engine.impl.")
    lay_out(home / "function", OLD_LAYOUT | python("") | other)
    done = cli("import", "semoss", "function", "--to", "out")
    assert done.code == 1
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert lines[:4] == [
        "FILE FUNCTION VERDICT ACTION",
        "E1__1.smss f1 cannot left out",
        "E2__2.smss - other type (model) left out",
        f"{SUMS}.smss sum_order runs imported",
    ]
    assert "E1__1.smss:6:1: error: PYTHON_FILE_NAME: there is no file main.py [script-missing]" in lines
    assert lines[-2:] == ["3 files: 1 runs, 1 cannot, 1 other type", "into out: 1 imported, 2 left out"]


def test_a_name_that_would_steer_a_terminal_does_not(cli: Cli, home: Path) -> None:
    lay_out(home / "function", {"E\x1b[2J__1.smss": "ENGINE\t1\n"})
    done = cli("import", "semoss", "function", "--to", "out")
    assert "\x1b" not in done.out + done.err
