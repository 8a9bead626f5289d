"""Secrets: where they come from, in which order, and that a failure names the store and no value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginehost.contributions import Implementation
from enginehost.errors import ConfigError
from enginehost.secrets import MAX_FILE_BYTES, Secrets


def store(plugin: str, call: Callable[..., Any], hook: str = "secret") -> Implementation:
    return Implementation(plugin, hook, call)


def test_plugins_go_before_files_and_files_before_variables(tmp_path: Path) -> None:
    (tmp_path / "both").write_text("file")
    (tmp_path / "all").write_text("file")
    secrets = Secrets(
        folder=tmp_path,
        stores=[store("vault", {"all": "plugin"}.get)]
        and [store("vault", lambda name: {"all": "plugin"}.get(name))],
        environ={
            "ENGINEHOST_SECRET_ALL": "env",
            "ENGINEHOST_SECRET_BOTH": "env",
            "ENGINEHOST_SECRET_ONE": "env",
        },
    )
    assert [secrets.secret(name) for name in ("all", "both", "one", "none")] == [
        "plugin",
        "file",
        "env",
        None,
    ]


def test_the_first_plugin_that_has_it_answers() -> None:
    stores = [store("a", lambda name: None), store("b", lambda name: "b"), store("c", lambda name: "c")]
    assert Secrets(stores=stores, environ={}).secret("x") == "b"


def test_an_empty_secret_is_a_secret(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    assert Secrets(folder=tmp_path, environ={"ENGINEHOST_SECRET_EMPTY": "env"}).secret("empty") == ""


def test_the_variable_of_a_name_with_signs() -> None:
    assert Secrets(environ={"ENGINEHOST_SECRET_DB_PASSWORD": "pw"}).secret("db-password") == "pw"
    assert Secrets(environ={"MY_DB": "pw"}, env_prefix="MY_").secret("db") == "pw"


@pytest.mark.parametrize(
    ("written", "read"), [(b"pw\n", "pw"), (b"pw\r\n", "pw"), (b"pw\n\n", "pw\n"), (b" pw ", " pw ")]
)
def test_one_line_end_of_a_file_is_dropped(tmp_path: Path, written: bytes, read: str) -> None:
    (tmp_path / "pw").write_bytes(written)
    assert Secrets(folder=tmp_path, environ={}).secret("pw") == read


def test_files_as_kubernetes_mounts_them_are_read(tmp_path: Path) -> None:
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..2026" / "token").write_text("pw")
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "token").symlink_to("..data/token")
    assert Secrets(folder=tmp_path, environ={}).secret("token") == "pw"


@pytest.mark.parametrize(
    "name", ["../outside", "..", ".", "", "sub/inside", ".hidden", "/etc/hostname", "a\0b", "a\nb"]
)
def test_no_name_leaves_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").write_text("no")
    folder = tmp_path / "secrets"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "inside").write_text("no")
    (folder / ".hidden").write_text("no")
    assert Secrets(folder=folder, environ={}).secret(name) is None


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=30))
def test_no_name_stops_the_lookup(tmp_path: Path, name: str) -> None:
    assert Secrets(folder=tmp_path, environ={}).secret(name) is None


@pytest.mark.parametrize("data", [b"\xff\xfe", b"x" * (MAX_FILE_BYTES + 1)])
def test_a_file_that_is_no_secret_is_an_error_without_its_content(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "odd").write_bytes(data)
    with pytest.raises(ConfigError, match="secret 'odd'") as raised:
        Secrets(folder=tmp_path, environ={}).secret("odd")
    assert len(str(raised.value)) < 200


def test_a_folder_in_place_of_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        Secrets(folder=tmp_path, environ={}).secret("dir")


def fail(**arguments: str) -> Any:
    raise RuntimeError("token hunter2 refused")


@pytest.mark.parametrize("answer", [fail, lambda **_: 5, lambda **_: b"hunter2"])
def test_a_store_that_fails_is_named_and_its_value_is_not(answer: Callable[..., Any]) -> None:
    secrets = Secrets(stores=[store("acme-vault", answer)], environ={"ENGINEHOST_SECRET_X": "fallback"})
    with pytest.raises(ConfigError, match="acme-vault") as raised:
        secrets.secret("x")
    assert "hunter2" not in str(raised.value)
    assert raised.value.reason == "secret-store"


@pytest.mark.parametrize(
    "answer", [fail, lambda **_: "text", lambda **_: {"KEY": 5}, lambda **_: [("A", "b")]]
)
def test_an_engine_store_that_fails_is_named(answer: Callable[..., Any]) -> None:
    secrets = Secrets(engine_stores=[store("acme-vault", answer, "engine_secrets")])
    with pytest.raises(ConfigError, match=r"acme-vault.*engine_secrets"):
        secrets.engine_secrets("id", "alias")


def test_engine_secrets_are_merged_and_the_first_plugin_has_a_key() -> None:
    stores = [
        store("a", lambda engine_id, alias: {"api_key": f"a-{engine_id}-{alias}"}, "engine_secrets"),
        store("b", lambda engine_id, alias: {"API_KEY": "b", "Url": "b-url"}, "engine_secrets"),
        store("c", lambda engine_id, alias: None, "engine_secrets"),
    ]
    assert Secrets(engine_stores=stores).engine_secrets("1", "x") == {"API_KEY": "a-1-x", "URL": "b-url"}


def test_names_and_descriptions_in_a_store_are_no_secrets() -> None:
    answers = {"FUNCTION_NAME": "weather", "API_KEY": "hunter22", "FUNCTION_BIND": '{"k": "v"}'}
    secrets = Secrets(engine_stores=[store("a", lambda **_: answers, "engine_secrets")])
    secrets.engine_secrets("e", "a")
    assert secrets.redactor("weather failed: hunter22") == "weather failed: ***"


def test_what_was_resolved_is_redacted(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("from-file\n")
    secrets = Secrets(
        folder=tmp_path,
        environ={"ENGINEHOST_SECRET_TWO": "from-env"},
        engine_stores=[store("a", lambda engine_id, alias: {"K": "from-store"}, "engine_secrets")],
    )
    text = "from-file from-env from-store"
    assert secrets.redactor(text) == text
    secrets.secret("one"), secrets.secret("two"), secrets.engine_secrets("", "")
    assert secrets.redactor(text) == "*** *** ***"
