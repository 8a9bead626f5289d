import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from enginehost.checked_model import Section
from enginehost.errors import ConfigError
from enginehost.settings import HostSettings, load_settings
from enginehost.settings_layers import unknown_variables

TOKEN = "a-token-of-some-length"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    smss = tmp_path / "smss"
    smss.mkdir()
    return smss


def load(
    folder: Path, text: str = "", environ: dict[str, str] | None = None, **overrides: Any
) -> HostSettings:
    if text:
        (folder.parent / "enginehost.yaml").write_text(text)
    return load_settings(folder, environ=environ or {}, **overrides)


def test_the_defaults_listen_on_loopback_and_trust_no_file(folder: Path):
    settings = load(folder)
    assert settings.http.address == "127.0.0.1:8484"
    assert (settings.http.max_body_bytes, settings.max_result_bytes) == (10 * 2**20, 16 * 2**20)
    assert (settings.databus.domain, settings.databus.interface) == (0, "lo")
    assert (settings.drain_seconds, settings.default_timeout) == (10, 60)
    assert not settings.in_process_python
    assert settings.config_file is None


def test_the_later_source_wins_key_by_key(folder: Path):
    text = "http: {address: '127.0.0.1:1', docs: off}\ndrain_seconds: 3\nmax_in_flight: 7\n"
    environ = {"ENGINEHOST_HTTP": ":2", "ENGINEHOST_DRAIN_SECONDS": "4", "ENGINEHOST_DOMAIN": "5"}
    settings = load(folder, text, environ, drain_seconds=6)
    assert (settings.http.port, settings.http.docs) == (2, False)
    assert (settings.drain_seconds, settings.max_in_flight, settings.databus.domain) == (6, 7, 5)
    assert settings.config_file == folder.parent / "enginehost.yaml"


def test_the_file_is_the_given_one_else_beside_the_folder_else_in_the_current_directory(folder: Path):
    Path("enginehost.yaml").write_text("drain_seconds: 1")
    assert load(folder).drain_seconds == 1
    assert load(folder, "drain_seconds: 2").drain_seconds == 2
    other = folder / "other.yaml"
    other.write_text("drain_seconds: 3")
    assert load(folder, environ={"ENGINEHOST_CONFIG": str(other)}).drain_seconds == 3
    assert load(folder, config=other).drain_seconds == 3
    with pytest.raises(ConfigError):
        load(folder, config=folder / "missing.yaml")


@pytest.mark.parametrize("off", ["http: off", "http: 'no'", "http: {enabled: false}"])
def test_a_face_is_switched_off_in_a_word(folder: Path, off: str):
    assert not load(folder, off).http.enabled
    assert not load(folder, environ={"ENGINEHOST_DATABUS": "off"}).databus.enabled
    assert not load(folder, http=False).http.enabled
    assert load(folder, environ={"ENGINEHOST_HTTP": "on"}).http.enabled


def test_an_option_left_out_counts_as_not_given(folder: Path):
    assert load(folder, "http: ':9'", http=None, domain=None).http.port == 9
    assert load(folder, environ={"ENGINEHOST_HTTP": " "}).http.port == 9


def test_overrides_name_keys_sections_or_models(folder: Path):
    settings = load(folder, http__docs=False, databus={"domain": 3}, log={"level": "DEBUG"})
    assert (settings.http.docs, settings.databus.domain, settings.log.level) == (False, 3, "debug")
    assert load(folder, "http: {docs: false}", http=settings.http).http.docs is False


def test_lists_come_from_text_in_the_environment(folder: Path):
    environ = {
        "ENGINEHOST_HTTP__ALLOWED_HOSTS": "a.example, b.example",
        "ENGINEHOST_TOKENS": f'[{{name: me, token: "{TOKEN}"}}]',
    }
    settings = load(folder, environ=environ)
    assert settings.http.allowed_hosts == ("a.example", "b.example")
    assert settings.tokens[0].name == "me"


def test_relative_paths_in_the_file_start_at_the_file(folder: Path):
    text = "policy: p.yaml\naudit: logs/audit\nsecrets: {folder: s}\nstate_dir: state\n"
    text += "tokens: [{name: a, token_file: t/a}]\n"
    settings = load(folder, text)
    base = folder.parent
    assert settings.policy is not None
    assert settings.policy.file == base / "p.yaml"
    assert (settings.audit.path, settings.secrets.folder) == (base / "logs/audit", base / "s")
    assert (settings.state_dir, settings.tokens[0].token_file) == (base / "state", base / "t/a")


def test_the_state_directory_follows_xdg(folder: Path):
    assert load(folder, environ={"XDG_STATE_HOME": "/var/s"}).state_dir == Path("/var/s/enginehost")
    assert load(folder, environ={"XDG_STATE_HOME": "relative"}).state_dir.is_absolute()


def test_private_networks_are_closed_once_others_can_reach_the_host(folder: Path):
    assert load(folder).private_networks
    assert not load(folder, http="0.0.0.0:80").private_networks
    assert not load(folder, databus={"interface": "eth0"}).private_networks
    assert load(folder, databus={"interface": "eth0", "enabled": False}).private_networks
    assert load(folder, http="0.0.0.0:80", private_networks=True).private_networks


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("http:\n  adress: ':1'\n", (2, 3), "unknown key 'http.adress'", "address"),
        ("htttp: off\n", (1, 1), "unknown key 'htttp'", "http?"),
        ("http:\n  address: nowhere\n", (2, 3), "http.address: 'nowhere'", ""),
        ("http: nowhere\n", (1, 1), "is no address", ""),
        ("http: [1]\n", (1, 1), "http", ""),
        ("a: 1\na: 2\n", (2, 1), "twice", ""),
        ("default_timeout: -1\n", (1, 1), "default_timeout has to be above 0", ""),
        ("drain_seconds: .inf\n", (1, 1), "finite", ""),
        ("max_result_bytes: 5 lightyears\n", (1, 1), "max_result_bytes", ""),
        ("policy:\n  rules:\n    - allow: call\n", (3, 7), "says to whom", ""),
        ("policy: {file: x, default: call}\n", (1, 1), "not both", ""),
        ("policy:\nhttp: off\n", (1, 1), "give a policy file or rules", ""),
        ("policy:\n  rules:\n", (2, 3), "has to be a list", ""),
        ("policy:\n  rules: [{deny: view, faces: }]\n", (2, 24), "must not be empty", ""),
        ("tokens:\n  - name: a\n", (2, 5), "one way only", ""),
        ("tokens: [{name: local, token_env: X}]\n", (1, 11), "host itself gives", ""),
        ("tokens: [{name: anonymous, token_env: X}]\n", (1, 11), "host itself gives", ""),
        ("tokens:\n  - {name: a, token: 1234567890123456}\n", (2, 5), "quotes", ""),
        ("oidc:\n  - issuer: http://i.example\n    audience: a\n", (2, 5), "https", ""),
        ("oidc:\n  - {issuer: 'https://i', audience: a, algorithms: [HS256]}\n", (2, 40), "HS256 is not", ""),
        ("oidc:\n  - {issuer: 'https://i', audience: []}\n", (2, 27), "must not be empty", ""),
        ("oidc: [{issuer: 'https://i', audience: a, tenant_claim: }]\n", (1, 43), "must not be empty", ""),
        ("just text\n", (1, 0), "keys with values", ""),
        ("databus: {domain: 233}\n", (1, 11), "232", ""),
    ],
)
def test_a_mistake_in_the_file_is_reported_with_place_and_hint(
    folder: Path, text: str, place: tuple[int, int], message: str, hint: str
):
    with pytest.raises(ConfigError) as caught:
        load(folder, text)
    error = caught.value
    assert error.path == str(folder.parent / "enginehost.yaml")
    assert (error.line, error.column) == place
    assert message in error.message
    assert hint in error.hint


def test_a_mistake_in_the_environment_names_the_variable(folder: Path):
    for name, value in (
        ("ENGINEHOST_HTTP__ADRESS", ":1"),
        ("ENGINEHOST_DOMAIN", "x"),
        ("ENGINEHOST_HTTP__DOCS__X", "1"),
        ("ENGINEHOST_TOKENS", "[{"),
        ("ENGINEHOST_OIDC", "1"),
    ):
        with pytest.raises(ConfigError) as caught:
            load(folder, "drain_seconds: 1", {name: value})
        assert caught.value.path == name


def test_an_unknown_option_is_refused(folder: Path):
    with pytest.raises(ConfigError, match=r"unknown setting 'htp'.*http"):
        load(folder, htp="x")


def test_variables_that_set_nothing_are_told_apart_from_other_programs(folder: Path):
    environ = {
        "ENGINEHOST_HTP": "1",
        "ENGINEHOST_SERVICE_HOST": "10.0.0.1",
        "ENGINEHOST_SECRET_KEY": "s",
        "ENGINEHOST_HTTP": "off",
        "ENGINEHOST_CONFIG": "",
        "ENGINEHOST_DOMAIN": "1",
    }
    load(folder, environ=environ)
    found = unknown_variables(HostSettings, environ, known=("ENGINEHOST_SERVICE_",))
    assert [(one.path, one.hint) for one in found] == [("ENGINEHOST_HTP", "did you mean http?")]


def test_a_token_is_kept_as_its_digest_and_shown_nowhere(folder: Path):
    settings = load(folder, f"tokens: [{{name: a, token: {TOKEN}}}]")
    assert settings.tokens[0].token is None
    assert TOKEN not in repr(settings) + str(settings.model_dump())
    assert settings.tokens[0].token_sha256 not in (None, *repr(settings).split("'"))


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "a", "token": "short-secret"},
        {"name": "a", "token": "secret with blanks inside"},
        {"name": "a", "token": TOKEN, "scope": []},
        {"name": 5, "token": TOKEN},
        {"name": "a", "token": TOKEN, "token_env": "X"},
        {"name": "a", "token": TOKEN, "token_sha256": "0" * 64},
        {"name": "a", "token_sha256": TOKEN},
        {"name": "a", "token": [TOKEN]},
    ],
)
def test_an_error_about_a_token_never_prints_it(folder: Path, entry: dict[str, Any]):
    with pytest.raises(ConfigError) as caught:
        load(folder, tokens=[entry])
    with pytest.raises(ConfigError) as direct:
        HostSettings(tokens=[entry])  # pyright: ignore[reportArgumentType]
    said = f"{caught.value} {caught.value!r} {caught.value.detail} {direct.value}"
    assert not any(str(secret) in said for secret in (TOKEN, "short-secret", "secret with blanks"))


def test_issuers_are_kept_apart(folder: Path):
    one = {"issuer": "https://a.example", "audience": "us"}
    other = {"issuer": "https://b.example", "audience": ["us"], "subject_prefix": "b:"}
    assert load(folder, oidc=[one, other]).authenticates
    for wrong in ([one, {**other, "subject_prefix": ""}], [one, {**one, "subject_prefix": "x"}]):
        with pytest.raises(ConfigError):
            load(folder, oidc=wrong)


def test_settings_cannot_be_changed_afterwards():
    with pytest.raises(ValidationError):
        HostSettings().http.docs = False  # pyright: ignore[reportAttributeAccessIssue]


def test_every_setting_is_described():
    def sections(model: type[BaseModel]) -> list[type[BaseModel]]:
        return [model, *(deep for sub in model.__subclasses__() for deep in sections(sub))]

    for section in sections(Section):
        assert section.__doc__, section
        for name, field in section.model_fields.items():
            assert field.description, f"{section.__name__}.{name}"


@given(st.text(alphabet="htpdocsauditenabledomain: \n-[]{}*&'\"0123456789.", max_size=100))
def test_no_settings_file_breaks_the_loader(tmp_path_factory: pytest.TempPathFactory, text: str):
    file = tmp_path_factory.getbasetemp() / "fuzzed.yaml"
    file.write_text(text)
    with suppress(ConfigError):
        load_settings(config=file, environ={})


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "HTTP",
                "HTTP__X",
                "HTTP__",
                "__",
                "",
                "DOMAIN",
                "TOKENS",
                "OIDC",
                "POLICY__RULES",
                "LOG",
                "A__B",
            ]
        ),
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
    )
)
def test_no_environment_breaks_the_loader(environ: dict[str, str]):
    with suppress(ConfigError):
        load_settings(config=None, environ={f"ENGINEHOST_{key}": value for key, value in environ.items()})


def test_importing_the_package_does_not_load_the_settings():
    code = "import sys, enginehost; print('enginehost.settings' in sys.modules, 'pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize(
    ("fields", "message", "hint"),
    [
        ({"foo": 1}, "unknown key 'foo'", "there are"),
        ({"default_timeout": "soon"}, "default_timeout has to be a number", ""),
        ({"max_workers": 0}, "max_workers has to be above 0", ""),
        ({"max_result_bytes": "big"}, "max_result_bytes has to be a size", ""),
        ({"http": {"docs": "perhaps"}}, "http.docs has to be true or false", ""),
        ({"databus": {"enabled": "perhaps"}}, "databus.enabled has to be true or false, or 'auto'", ""),
    ],
)
def test_a_program_hears_of_a_mistake_as_a_file_does(fields: dict[str, Any], message: str, hint: str):
    with pytest.raises(ConfigError) as caught:
        HostSettings(**fields)
    assert caught.value.message.startswith(message)
    assert hint in caught.value.hint


@pytest.mark.parametrize("text", ["http: 1.2.3.4:99999\n", "databus: {domain: 900}\n"])
def test_one_mistake_counts_as_one(folder: Path, text: str):
    (folder.parent / "enginehost.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(folder)
    assert caught.value.others == ()


def test_all_mistakes_are_told_at_once_each_at_its_place(folder: Path):
    text = "http:\n  adress: x\n  max_connections: none\ndrain_secs: 1\ntokens: [{nmae: a, token_env: A}]\n"
    environ = {"ENGINEHOST_HTTP__PROT": "1", "ENGINEHOST_DOMAIN": "far"}
    with pytest.raises(ConfigError) as caught:
        load(folder, text, environ)
    error = caught.value
    file = str(folder.parent / "enginehost.yaml")
    assert {(one.path, one.line, one.message) for one in (error, *error.others)} == {
        (file, 2, "unknown key 'http.adress'"),
        (file, 3, "http.max_connections has to be a whole number"),
        (file, 4, "unknown key 'drain_secs'"),
        (file, 5, "unknown key 'tokens.0.nmae'"),  # and not that the name is missing
        ("ENGINEHOST_HTTP__PROT", 0, "unknown setting 'http.prot'"),
        ("ENGINEHOST_DOMAIN", 0, "databus.domain has to be a whole number"),
    }
    assert all(one.message in str(error) for one in error.others)


def test_a_key_that_is_missing_beside_another_that_is_misspelt_is_told(folder: Path):
    with pytest.raises(ConfigError) as caught:
        load(folder, "oidc: [{isuer: https://a.example}]\n")
    assert [one.message for one in (caught.value, *caught.value.others)] == [
        "oidc.0.audience is missing",
        "unknown key 'oidc.0.isuer'",
    ]
