"""An engine's own keys become its config model; what is wrong stands at the key and shows no secret."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AliasChoices,
    BaseModel,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from enginehost.config import EngineConfig, check_keys, config_keys, config_of, read_config
from enginehost.diagnostics import Severity
from enginehost.errors import ConfigError
from enginehost.interpret import Declaration, Sources, interpret
from enginehost.keys import NO_EFFECT, NO_EFFECT_PREFIXES

SECRET = "hunter2-hunter2"


class Colour(Enum):
    RED = "red"


class Retry(BaseModel):
    attempts: int
    wait: float = 1.0


class Config(EngineConfig):
    url: str = Field(
        validation_alias=AliasChoices("API_ENDPOINT_URL", "URL"), description="Where the service is."
    )
    content_type: str = Field("JSON", json_schema_extra={"blank": "keep"})
    headers: dict[str, str] = Field(default_factory=dict)
    retry: Retry | None = None
    body: Annotated[dict[str, Any] | str | None, Field(description="A text or an object.")] = None
    api_key: SecretStr | None = None
    timeout: float = 30
    workers: int = Field(1, ge=1)
    verify: bool = True
    colour: Colour = Colour.RED
    mode: Literal["process", "none"] = "process"
    script: Path | None = None

    @field_validator("script")
    @classmethod
    def _no_shell(cls, value: Path | None) -> Path | None:
        if value and value.suffix == ".sh":
            raise ValueError(f"{value} is a shell script")
        return value


def declare(text: str, **outside: str) -> Declaration:
    return interpret(text.encode(), Path("x.smss"), Sources(env=outside.get, secret=outside.get))


def config(text: str, **outside: str) -> Config:
    declaration = declare(text, **outside)
    result = read_config(declaration, Config)
    assert not declaration.diagnostics
    assert result is not None
    return result


def test_keys_become_fields() -> None:
    result = config(
        'api_endpoint_url = https://h.example \nHEADERS={"A": "b"}\nRETRY={"attempts": 2}\nTIMEOUT=2.5\n'
        "WORKERS= 3 \nVERIFY=false\nCOLOUR=red\nMODE=none\nSCRIPT=a/b.py\nAPI_KEY=k "
    )
    assert result.url == "https://h.example"
    assert result.headers == {"A": "b"}
    assert result.retry == Retry(attempts=2)
    assert (result.timeout, result.workers, result.verify) == (2.5, 3, False)
    assert (result.colour, result.mode, result.script) == (Colour.RED, "none", Path("a/b.py"))
    assert result.api_key is not None
    assert result.api_key.get_secret_value() == "k "


def test_further_spellings_are_read_and_a_blank_one_gives_way() -> None:
    assert config("URL=u").url == "u"
    assert config("API_ENDPOINT_URL=\nURL=u").url == "u"


def test_two_spellings_with_values_are_a_warning() -> None:
    declaration = declare("URL=a\nAPI_ENDPOINT_URL=b")
    result = read_config(declaration, Config)
    assert result is not None
    assert result.url == "b"
    assert [(d.code, d.severity, d.line) for d in declaration.diagnostics] == [
        ("shadowed-key", Severity.WARNING, 1)
    ]


def test_a_blank_value_is_the_default_unless_the_field_keeps_it() -> None:
    result = config("URL=u\nTIMEOUT=\nHEADERS=\nAPI_KEY=  \nCONTENT_TYPE=")
    assert (result.timeout, result.headers, result.api_key) == (30, {}, None)
    assert result.content_type == ""
    assert config("URL=u").content_type == "JSON"


def test_a_field_of_text_or_json_reads_both() -> None:
    assert config('URL=u\nBODY={"a": [1]}').body == {"a": [1]}
    assert config("URL=u\nBODY=plain").body == "plain"


def test_json_values_are_filled_in_after_they_are_read() -> None:
    result = config('URL=u\nHEADERS={"Authorization": "Bearer ${env:T}"}', T='x"y')
    assert result.headers == {"Authorization": 'Bearer x"y'}


@pytest.mark.parametrize(
    ("text", "code", "line", "mentions"),
    [
        ("A=1", "missing-key", 0, "API_ENDPOINT_URL (or URL)"),
        ("A=1\nURL= ", "blank-key", 2, "URL"),
        ("URL=u\nTIMEOUT=soon", "bad-value", 2, "TIMEOUT"),
        ("URL=u\nWORKERS=0", "bad-value", 2, "has to be at least 1"),
        ("URL=u\nMODE=fast", "bad-value", 2, "'process' or 'none'"),
        ('URL=u\nHEADERS={"A": [1]}', "bad-value", 2, "HEADERS at /A"),
        ("URL=u\nHEADERS=[1]", "bad-value", 2, "HEADERS"),
        ("URL=u\nRETRY={}", "bad-value", 2, "RETRY at /attempts"),
        ("URL=u\nHEADERS={a", "malformed-json", 2, "HEADERS"),
        ("URL=u\nSCRIPT=run.sh", "bad-value", 2, "run.sh is a shell script"),
    ],
)
def test_what_is_wrong_stands_at_the_key(text: str, code: str, line: int, mentions: str) -> None:
    declaration = declare(text)
    assert read_config(declaration, Config) is None
    (found,) = declaration.diagnostics
    assert (found.code, found.line, found.severity) == (code, line, Severity.ERROR)
    assert mentions in found.message
    assert "Value error" not in found.message


class Leaky(EngineConfig):
    """Its validators put values into their messages, as authors do."""

    password: SecretStr
    plain: str = ""
    token: str = ""

    @field_validator("password", mode="before")
    @classmethod
    def _loud(cls, value: str) -> str:
        if value == SECRET:
            raise ValueError(f"{value.upper()} is too short")
        return value

    @field_validator("plain", "token")
    @classmethod
    def _echo(cls, value: str) -> str:
        raise ValueError(f"bad value {value}")


class LeakyTogether(EngineConfig):
    password: SecretStr
    user: str = ""

    @model_validator(mode="after")
    def _both(self) -> LeakyTogether:
        raise ValueError(f"{self.user}:{self.password.get_secret_value()} is refused")


@pytest.mark.parametrize(
    ("text", "model"),
    [
        (f"PASSWORD={SECRET}", Leaky),
        ("PASSWORD=good\nTOKEN=${secret:s}", Leaky),
        ("PASSWORD=good\nINNER=${env:s}\nTOKEN=pre ${INNER} post", Leaky),
        (f"PASSWORD={SECRET}\nPLAIN={SECRET}", Leaky),
        (f"PASSWORD={SECRET}\nUSER=me", LeakyTogether),
    ],
)
def test_no_message_shows_a_secret(text: str, model: type[EngineConfig]) -> None:
    declaration = declare(text, s=SECRET)
    assert read_config(declaration, model) is None
    assert declaration.diagnostics
    for found in declaration.diagnostics:
        assert SECRET not in str(found)
        assert SECRET.upper() not in str(found)


def test_an_overlaid_value_is_as_secret_as_a_secret_field() -> None:
    declaration = declare("PASSWORD=good")
    declaration.overlay({"TOKEN": SECRET})
    assert read_config(declaration, Leaky) is None
    assert all(SECRET not in str(found) for found in declaration.diagnostics)


def test_a_config_is_frozen_and_shows_no_secret() -> None:
    result = config(f"URL=u\nAPI_KEY={SECRET}")
    assert SECRET not in repr(result)
    with pytest.raises(ValidationError):
        result.url = "other"  # pyright: ignore[reportAttributeAccessIssue]


def test_the_reference_of_keys_comes_from_the_model() -> None:
    keys = {key.name: key for key in config_keys(Config)}
    url = keys["API_ENDPOINT_URL"]
    assert (url.accepted, url.required, url.form) == (("API_ENDPOINT_URL", "URL"), True, "text")
    assert url.description == "Where the service is."
    assert (keys["API_KEY"].secret, keys["API_KEY"].form) == (True, "text")
    assert [keys[name].form for name in ("HEADERS", "RETRY", "BODY")] == ["json", "json", "either"]
    assert (keys["CONTENT_TYPE"].keeps_blank, keys["WORKERS"].default) == (True, 1)
    assert (keys["HEADERS"].default, keys["API_ENDPOINT_URL"].default, keys["API_KEY"].default) == (
        {},
        None,
        None,
    )


def test_a_default_is_made_when_it_is_asked_for() -> None:
    def broken() -> int:
        raise OSError("asked for")

    class Lazy(EngineConfig):
        size: int = Field(default_factory=broken)
        twice: int = Field(default_factory=lambda data: 2 * data["size"])

    declaration = declare("SIZE=3")
    assert read_config(declaration, Lazy) == Lazy(size=3, twice=6)
    size, twice = config_keys(Lazy)
    assert twice.default is None
    with pytest.raises(OSError, match="asked for"):
        _ = size.default


def test_an_unknown_key_is_a_warning_with_the_nearest_known_one() -> None:
    declaration = declare(
        "FUNCTION_NAM=f\nTIMEOUTT=1\nZZZ=1\nURL=u\nPIPELINE=p\nmail.smtp.host=h\nDEFAULT_THRESHOLD=1"
    )
    check_keys(declaration, Config)
    assert [(d.line, d.code, d.hint) for d in declaration.diagnostics] == [
        (1, "unknown-key", "did you mean FUNCTION_NAME?"),
        (2, "unknown-key", "did you mean TIMEOUT?"),
        (3, "unknown-key", "no engine of this kind reads it"),
    ]


@pytest.mark.parametrize("key", ["ENDPOINTS", "COUNTR", "STORAGE_PAHT", "API_KEY_VALUES"])
def test_only_keys_that_this_engine_reads_are_suggested(key: str) -> None:
    class Small(EngineConfig):
        script: str = ""

    declaration = declare(f"{key}=x")
    check_keys(declaration, Small)
    assert [(d.code, d.hint) for d in declaration.diagnostics] == [
        ("unknown-key", "no engine of this kind reads it")
    ]


@pytest.mark.parametrize("key", [*NO_EFFECT, *(f"{start}ANYTHING" for start in NO_EFFECT_PREFIXES)])
def test_a_key_that_does_nothing_yet_is_told(key: str) -> None:
    declaration = declare(f"{key}=x")
    check_keys(declaration, Config)
    (found,) = declaration.diagnostics
    assert (found.code, found.message) == ("no-effect", f"{key} has no effect in this version")
    assert found.hint


def test_a_key_without_effect_is_not_told_where_it_has_one_or_is_blank() -> None:
    class Repeating(EngineConfig):
        retries: int = 0
        agent_card: str = ""

    declaration = declare("RETRIES=3\nAGENT_CARD=x\nVIRTUAL_ENV_ENGINE=  \nMODEL_NAME=m")
    check_keys(declaration, Repeating)
    assert not declaration.diagnostics


def test_a_misspelt_key_of_the_engine_is_not_taken_for_one_without_effect() -> None:
    class Agent(EngineConfig):
        agent_card_url: str = ""

    declaration = declare("AGENT_CARD_ULR=x")
    check_keys(declaration, Agent)
    assert [(d.code, d.hint) for d in declaration.diagnostics] == [
        ("unknown-key", "did you mean AGENT_CARD_URL?")
    ]


def test_a_key_that_another_value_takes_in_is_not_unknown() -> None:
    declaration = declare("INIT_FUNCTION_ENGINE=set('${currency}', '${SIGN:-x}')\nCURRENCY=EUR\nSIGN=s")
    check_keys(declaration)
    assert not declaration.diagnostics


@given(
    st.text()
    | st.lists(st.sampled_from(["$", "{", "}", "\\", "a", "=", "\n", "${", "$${", "${URL}"])).map("".join)
)
def test_properties_that_are_filled_in_are_read_as_they_are(text: str) -> None:
    config = config_of({"url": "u", "CONTENT_TYPE": text, "HEADERS": json.dumps({"x": text})}, Config)
    assert config.content_type == text.strip()
    assert config.headers == {"x": text}
    declaration = interpret(f"URL = u\nCONTENT_TYPE = {'$${a}'}".encode(), Path("a.smss"))
    assert config_of(declaration.properties(), Config).content_type == "${a}"


def test_properties_that_make_no_config_raise_the_first_error() -> None:
    with pytest.raises(ConfigError, match="WORKERS") as raised:
        config_of({"URL": "u", "API_ENDPOINT_URL": "v", "WORKERS": "0"}, Config)
    assert raised.value.reason == "bad-value"
