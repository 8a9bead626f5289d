"""Which database is meant, and by whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginehost.errors import ConfigError
from enginehost.settings import HostSettings, load_settings
from enginehost.store import make_store
from enginehost.store.place import Place, database_url, parse_place


def test_a_setting_goes_before_the_variable_and_that_before_the_state_folder(tmp_path: Path) -> None:
    variable = {"DATABASE_URL": " postgres://db/x "}
    assert database_url("sqlite:///a.db", tmp_path, variable) == "sqlite:///a.db"
    assert database_url(None, tmp_path, variable) == "postgres://db/x"
    assert database_url(None, tmp_path, {"DATABASE_URL": ""}) == f"sqlite:///{tmp_path / 'sessions.db'}"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("sqlite:///a/b%20c.db", Place(Path("a/b c.db"))),
        ("sqlite:////var/x.db", Place(Path("/var/x.db"))),
        ("postgres://u:p@h:5/x", Place(postgres="postgresql://u:p@h:5/x")),
        ("postgresql+psycopg://h/x?sslmode=require", Place(postgres="postgresql://h/x?sslmode=require")),
        ("postgresql://", Place(postgres="postgresql://")),
    ],
)
def test_urls_as_other_programs_write_them(url: str, place: Place) -> None:
    assert parse_place(url) == place


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "mysql://u:s3cret@h/x",
        "x",
        "postgres://u:s3cret@h:p/x",
    ],
)
def test_what_cannot_be_a_database_of_sessions_is_told_without_secrets(url: str) -> None:
    with pytest.raises(ConfigError) as told:
        parse_place(url)
    assert "s3cret" not in str(told.value)
    assert told.value.hint


def test_settings_say_which_and_how_and_never_show_the_url() -> None:
    settings = load_settings(environ={"ENGINEHOST_STORE": "postgresql://u:s3cret@h/x"})
    assert settings.store.url == "postgresql://u:s3cret@h/x"
    assert "s3cret" not in repr(settings)
    settings = load_settings(
        environ={"ENGINEHOST_STORE__SYNCHRONOUS": "normal", "ENGINEHOST_STORE__RETENTION": "30"}
    )
    assert (settings.store.synchronous, settings.store.retention) == ("normal", 30)
    for wrong in ({"synchronous": "never"}, {"retention": 0}, {"readers": 0}):
        with pytest.raises(ConfigError):
            load_settings(environ={}, store=wrong)


async def test_a_host_has_its_store_in_its_state_folder_and_keeps_it_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    store = make_store(HostSettings(state_dir=tmp_path / "state"))
    await store.open()
    await store.close()
    assert (tmp_path / "state" / "sessions.db").stat().st_mode & 0o777 == 0o600
