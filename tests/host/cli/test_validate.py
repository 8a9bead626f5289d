from __future__ import annotations

import os
from pathlib import Path

import pytest

from .conftest import ADD, BROKEN, Cli, write


def test_good_files_are_counted(cli: Cli) -> None:
    done = cli("validate")
    assert done.code == 0
    assert done.out == "4 files, 0 errors, 0 warnings\n"


def test_an_error_names_its_place_and_fails(cli: Cli, folder: Path) -> None:
    (folder / "broken.smss").write_text(BROKEN)
    done = cli("validate")
    assert done.code == 1
    assert done.out.startswith("smss/broken.smss:1:1: error: ")
    assert "hint: did you mean LocalPython?" in done.out
    assert cli("validate", "smss/add.smss").code == 0


def test_warnings_fail_where_that_is_asked_for(cli: Cli, folder: Path) -> None:
    write(folder, {"add.smss": ADD + "\n    FUNCTION_TGS = x\n"})
    assert cli("validate").code == 0
    assert cli("validate", "--strict").code == 1


HINT = "install the plugin enginehost-openai, and start the host again"


@pytest.mark.parametrize(
    "other", ["model.OpenAiEngine", "storage.S3", "vector.Faiss", "guardrail.G", "rdbms.RDBMSNativeEngine"]
)
def test_a_semoss_file_of_another_type_is_a_warning_with_its_reason(
    cli: Cli, folder: Path, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEHOST_HTTP__ADDRESS", "127.0.0.1:0")
    (folder / "other.smss").write_text(f"ENGINE\tid-1\nENGINE_TYPE\tprerna.engine.impl.{other}\n")
    done = cli("validate", "--json")
    assert done.code == 0
    (found,) = done.json["diagnostics"]
    assert (found["code"], found["severity"], found["line"]) == ("unsupported", "warning", 2)
    assert found["message"].startswith("a SEMOSS ")
    assert found["hint"] == ("" if other != "model.OpenAiEngine" else HINT)
    assert cli("validate", "--strict").code == 1
    assert cli("doctor").code == 0
    assert "1 unsupported" in cli("doctor").out
    assert cli("list").err == ""


def test_a_semoss_function_that_cannot_serve_is_an_error(cli: Cli, folder: Path) -> None:
    (folder / "other.smss").write_text("ENGINE_TYPE prerna.engine.impl.function.AWSTextractFunctionEngine\n")
    assert cli("validate").code == 1


def test_findings_are_json(cli: Cli, folder: Path) -> None:
    (folder / "broken.smss").write_text(BROKEN)
    for words in (["--json"], ["--format", "json"]):
        done = cli("validate", *words)
        assert done.code == 1
        assert done.json["files"] == 5
        assert done.json["errors"] == 1
        (found,) = done.json["diagnostics"]
        assert found["path"] == "smss/broken.smss"
        assert found["code"] == "unsupported"


def test_findings_are_github_annotations(cli: Cli, folder: Path) -> None:
    (folder / "broken.smss").write_text(BROKEN)
    done = cli("validate", "--format", "github")
    assert done.out.startswith("::error file=smss/broken.smss,line=1,col=1,title=unsupported::")


def test_two_files_with_one_name_or_id_are_told(cli: Cli, folder: Path) -> None:
    write(folder, {"add.smss": ADD + "\n    ENGINE = same\n", "plus.smss": ADD + "\n    ENGINE = same\n"})
    codes = {found["code"] for found in cli("validate", "--json").json["diagnostics"]}
    assert codes == {"name-conflict", "duplicate-engine-id"}


def test_wrong_settings_are_findings_too(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "enginehost.yaml").write_text("policy:\n  file: none.yaml\n")
    done = cli("validate", "--json")
    assert done.code == 1
    assert [found["code"] for found in done.json["diagnostics"]] == ["policy"]


def test_what_is_no_smss_file_is_refused(cli: Cli) -> None:
    assert cli("validate", "smss/tools.py").code == 2
    assert cli("validate", "nowhere").code == 2


def test_nothing_runs(cli: Cli, folder: Path, tmp_path: Path) -> None:
    write(folder, {"tools.py": f"open({str(tmp_path / 'ran')!r}, 'w')\nasync def add(a, b): ...\n"})
    cli("validate", "smss/add.smss")
    assert not (tmp_path / "ran").exists()


def test_what_is_named_like_a_file_and_is_none_is_told_and_counted(cli: Cli, folder: Path) -> None:
    (folder / "gone.smss").symlink_to("nowhere.smss")
    os.mkfifo(folder / "pipe.smss")
    done = cli("validate", "--json")
    assert done.code == 0
    assert (done.json["files"], done.json["warnings"]) == (6, 2)
    assert [one["path"] for one in done.json["diagnostics"]] == ["smss/gone.smss", "smss/pipe.smss"]
    assert "the link leads to no file" in cli("validate", "smss/gone.smss").out
    assert "neither a file nor a folder" in cli("doctor").out


def test_a_broken_policy_is_a_finding_beside_those_of_the_files(cli: Cli, folder: Path) -> None:
    (folder.parent / "enginehost.yaml").write_text("policy: policy.yaml\n")
    (folder.parent / "policy.yaml").write_text("dfault: call\n")
    (folder / "broken.smss").write_text(BROKEN)
    codes = {one["code"] for one in cli("validate", "--json").json["diagnostics"]}
    assert "policy" in codes
    assert len(codes) == 2


def test_a_secret_that_is_missing_says_where_it_could_be(cli: Cli, folder: Path) -> None:
    (folder / "ask.smss").write_text(
        "ENGINE_CLASS = REST\nAPI_ENDPOINT_URL = ${secret:my-url}\nFUNCTION_NAME = ask\n"
        "FUNCTION_DESCRIPTION = Ask.\n"
    )
    assert "set the variable ENGINEHOST_SECRET_MY_URL" in cli("validate").out
    (folder.parent / "enginehost.yaml").write_text("secrets: {folder: kept}\n")
    assert f"write the file {folder.parent / 'kept' / 'my-url'}" in cli("validate").out


def test_a_limit_says_what_it_may_be(cli: Cli, folder: Path) -> None:
    write(folder, {"add.smss": ADD + "\n    TIMEOUT_SECONDS = soon\n    MAX_CONCURRENCY = 0\n"})
    out = cli("validate").out
    assert "TIMEOUT_SECONDS has to be a number of seconds above 0, not 'soon'" in out
    assert "MAX_CONCURRENCY has to be a whole number of at least 1, not '0'" in out


def test_code_that_does_not_load_is_found_where_that_is_asked_for(cli: Cli, folder: Path) -> None:
    script = "import no_such_module\ndef f(): return 1\n"
    file = """
        ENGINE_CLASS = LocalPython
        PYTHON_SCRIPT_PATH = f.py
        FUNCTION_NAME = f
        FUNCTION_DESCRIPTION = d
    """
    write(folder, {"f.py": script, "f.smss": file})
    assert cli("validate").code == 0
    done = cli("validate", "--load", "--json")
    assert done.code == 1
    (found,) = done.json["diagnostics"]
    assert (found["code"], found["path"]) == ("open-failed", "smss/f.smss")
    assert "ModuleNotFoundError: No module named 'no_such_module'" in found["message"]
    write(folder, {"f.py": "def f(): return 1\n"})
    assert cli("validate", "--load").code == 0


@pytest.mark.parametrize(
    "words", [["validate"], ["validate", "--format", "github"], ["list"], ["doctor"], ["call", "add", "a=1"]]
)
def test_no_name_of_a_file_and_no_text_in_it_steers_a_terminal_or_a_ci_system(
    cli: Cli, folder: Path, words: list[str]
) -> None:
    forged = "\x1b[31m\n::error::forged"
    (folder / f"bad{forged}.smss").write_text(BROKEN.replace("Pythn", "\x1b[2J"))
    (folder / f"gone{forged}.smss").symlink_to("nowhere")
    done = cli(*words)
    text = done.out + done.err
    assert all(line.isprintable() for line in text.split("\n"))
    assert not any(line.lstrip().startswith("::error::") for line in text.splitlines())
    assert "::error::forged" in text or "%3A%3Aforged" in text or words[0] == "call"
