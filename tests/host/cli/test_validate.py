from __future__ import annotations

from pathlib import Path

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
    assert [found["code"] for found in done.json["diagnostics"]] == ["settings"]


def test_what_is_no_smss_file_is_refused(cli: Cli) -> None:
    assert cli("validate", "smss/tools.py").code == 2
    assert cli("validate", "nowhere").code == 2


def test_nothing_runs(cli: Cli, folder: Path, tmp_path: Path) -> None:
    write(folder, {"tools.py": f"open({str(tmp_path / 'ran')!r}, 'w')\nasync def add(a, b): ...\n"})
    cli("validate", "smss/add.smss")
    assert not (tmp_path / "ran").exists()
