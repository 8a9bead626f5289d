import logging
from typing import Any

import pytest
from pydantic import ValidationError

from enginehost.engine import EngineContext
from enginehost.errors import ConfigError, InvalidArguments
from enginehost.signature import FunctionSignature
from enginehost_engines.rest import RestConfig, RestEngine
from enginehost_engines.rest.request import make_plan


def plan(kit: Any, parameters: str | FunctionSignature = "", bound: Any = (), **keys: Any) -> Any:
    keys.setdefault("URL", "https://api.example/v1")
    if isinstance(parameters, str):
        parameters = kit.signature(**{name: {} for name in parameters.split()})
    return make_plan(kit.config(**keys), parameters, bound)


def headers(message: Any) -> dict[str, str]:
    return {name.decode().lower(): value.decode() for name, value in message.headers}


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("api.example/x", "http://"),
        ("/only/a/path", "http://"),
        ("ftp://api.example", "http://"),
        ("http://", "no host"),
        ("http:///x", "no host"),
        ("http://{host}/x", "in its host"),
        ("http://a{b}.example", "in its host"),
        ("http://user:pw@api.example", "user name"),
        ("http://api.example:99999/", "no URL"),
        ("http://api.example\\@evil.example/", "backslash"),
        ("http://api.example/a b", "blank"),
        ("http://api.example/\r\nX: y", "control"),
        ("http://api.exa%mple/", "characters"),
        ("http://api.example/{a", "unbalanced"),
        ("http://api.example/{}", "unbalanced"),
        ("http://api.example/a}b", "unbalanced"),
        ("http://[::1", "no URL"),
    ],
)
def test_an_address_that_is_none_is_refused_at_load(kit: Any, url: str, problem: str) -> None:
    with pytest.raises(ConfigError, match="API_ENDPOINT_URL") as refused:
        plan(kit, "a", URL=url)
    assert problem in refused.value.message
    assert "pw" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "host", "target"),
    [
        ("http://API.example", "api.example", "/"),
        ("https://api.example:443/x?y=1#z", "api.example", "/x?y=1"),
        ("http://api.example:8080/a%2Fb/100%", "api.example:8080", "/a%2Fb/100%25"),
        ("http://[::1]:8080/é", "[::1]:8080", "/%C3%A9"),
        ("http://bücher.example/", "xn--bcher-kva.example", "/"),
    ],
)
def test_the_address_is_sent_as_it_is_written(kit: Any, url: str, host: str, target: str) -> None:
    message = plan(kit, URL=url).message({})
    assert (headers(message)["host"], message.target.decode()) == (host, target)


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "GET\r\nX: y", "", "FETCH"])
def test_a_method_that_is_none_is_refused_at_load(kit: Any, method: str) -> None:
    with pytest.raises(ValidationError, match="'GET', 'HEAD', 'POST'"):
        plan(kit, HTTP_METHOD=method)


def test_every_method_is_read_in_any_case(kit: Any) -> None:
    for method in ("get", "Head", " post ", "PUT", "patch", "delete"):
        assert plan(kit, HTTP_METHOD=method).message({}).method == method.strip().upper()


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"PARAMETER_PLACEMENT": {"missing": "query"}}, "'missing', which is no parameter"),
        ({"URL": "https://api.example/{missing}"}, "'missing', which is no parameter"),
        ({"PARAMETER_PLACEMENT": {"a": "somewhere"}}, "'somewhere'"),
        ({"PARAMETER_PLACEMENT": {"a": "path"}}, "the URL does not hold it"),
        ({"PARAMETER_PLACEMENT": {"a": "query"}, "URL": "https://api.example/{a}"}, "the URL holds {a}"),
        ({"PARAMETER_PLACEMENT": {"a": "raw:x"}}, "'raw:x'"),
        ({"PARAMETER_PLACEMENT": {"a": "header:X Y"}}, "a name it cannot have"),
        ({"PARAMETER_PLACEMENT": {"a": "header:X\r\nY"}}, "a name it cannot have"),
        ({"PARAMETER_PLACEMENT": {"a": "header:Host"}}, "which no parameter may set"),
        ({"PARAMETER_PLACEMENT": {"a": "header:transfer-encoding"}}, "which no parameter may set"),
        ({"PARAMETER_PLACEMENT": {"a": "header:Content-Length"}}, "which no parameter may set"),
        ({"PARAMETER_PLACEMENT": {"a": "cookie:x;y"}}, "a name it cannot have"),
        ({"PARAMETER_PLACEMENT": {"a": "body:/x~2"}}, "malformed JSON Pointer"),
        ({"PARAMETER_PLACEMENT": {"a": "query:x", "b": "query:x"}}, "is the place of 'a' too"),
        ({"PARAMETER_PLACEMENT": {"a": "header:X", "b": "header:x"}}, "is the place of 'a' too"),
        ({"PARAMETER_PLACEMENT": {"a": "raw", "b": "body"}}, "nothing else can be in it"),
        ({"PARAMETER_PLACEMENT": {"a": "body:/x", "b": "body:/x/y"}}, "in the body"),
        ({"PARAMETER_PLACEMENT": {"b": "body:/a/y", "a": "body"}}, "in the body"),
        ({"PARAMETER_PLACEMENT": {"a": "body:/x", "b": "form"}}, "the body is no JSON"),
        ({"PARAMETER_PLACEMENT": {"a": "body:/x"}, "CONTENT_TYPE": "form"}, "the body is no JSON"),
        ({"PARAMETER_PLACEMENT": {"a": "body:/x/y"}, "BODY_CONSTANTS": {"x": 1}}, "in the body"),
        ({"PARAMETER_PLACEMENT": {"a": "body:/x/7"}, "BODY_CONSTANTS": {"x": [1]}}, "in the body"),
        ({"PARAMETER_PLACEMENT": {"a": "query:k"}, "URL": "https://api.example/?k=1"}, "which the file sets"),
        ({"PARAMETER_PLACEMENT": {"a": "header:x-k"}, "HEADERS": {"X-K": "1"}}, "which the file sets"),
        ({"PARAMETER_PLACEMENT": {"a": "header:Authorization"}, "AUTH_TOKEN": "t"}, "which the file sets"),
        ({"HEADERS": {"X\n": "1"}}, "no header name"),
        ({"HEADERS": {"X": "1\r\nY: 2"}}, "line break"),
        ({"HEADERS": {"Content-Length": "5"}}, "set by the connection"),
        ({"HEADERS": {"X": ["a"]}}, "must be text"),
        ({"AUTH": "api_key"}, "API_KEY_VALUE is missing"),
        ({"AUTH": "bearer"}, "AUTH_TOKEN is missing"),
        ({"AUTH": "basic"}, "AUTH_USERNAME is missing"),
        ({"AUTH_USERNAME": "a:b"}, "colon"),
        ({"API_KEY_VALUE": "hush", "API_KEY_HEADER_NAME": "X Y"}, "API_KEY_HEADER_NAME"),
        ({"AUTH_TOKEN": "hush\r\nX: y"}, "AUTH"),
        ({"RESPONSE_PATH": "a["}, "RESPONSE_PATH"),
        ({"RESPONSE_PATH": "/a~"}, "RESPONSE_PATH is a malformed JSON Pointer"),
        ({"PARAMETER_PLACEMENT": {"a": 'form:x"y'}, "CONTENT_TYPE": "multipart/form-data"}, "in names here"),
        ({"BODY_CONSTANTS": {"c": {"[": 1}}, "FORM_STYLE": "indexed", "CONTENT_TYPE": ""}, "BODY_CONSTANTS"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused_at_load(kit: Any, keys: Any, problem: str) -> None:
    context = EngineContext("e", signature=kit.signature(a={}, b={}))
    keys = {"URL": "https://api.example/v1", "HTTP_METHOD": "POST", **keys}
    with pytest.raises(ConfigError) as refused:
        RestEngine(context, kit.config(**keys))
    assert problem in refused.value.message
    assert "hush" not in str(refused.value)


def test_parameters_go_where_semoss_sends_them_unless_the_file_says_otherwise(kit: Any) -> None:
    given = {"a": "x y", "b": 1}
    for method in ("GET", "HEAD", "DELETE"):
        message = plan(kit, "a b", HTTP_METHOD=method).message(given)
        assert (message.target, message.body) == (b"/v1?a=x%20y&b=1", b"")
        assert "content-type" not in headers(message)
    for method in ("POST", "PUT", "PATCH"):
        message = plan(kit, "a b", HTTP_METHOD=method).message(given)
        assert (message.target, message.body) == (b"/v1", b'{"a":"x y","b":1}')


@pytest.mark.parametrize(
    ("content_type", "is_json"),
    [
        (None, True),
        ("json", True),
        ("JSON", True),
        (" Json ", True),
        ("", False),
        ("x-www-form-urlencoded", False),
    ],
)
def test_the_content_type_follows_semoss(kit: Any, content_type: str | None, is_json: bool) -> None:
    keys = {} if content_type is None else {"CONTENT_TYPE": content_type}
    message = plan(kit, "a", HTTP_METHOD="POST", **keys).message({"a": "b c"})
    expected = (
        ("application/json", b'{"a":"b c"}') if is_json else ("application/x-www-form-urlencoded", b"a=b+c")
    )
    assert (headers(message)["content-type"], message.body) == expected


def test_a_media_type_that_looks_like_json_but_means_a_form_is_warned_of(
    kit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        RestEngine(EngineContext("e"), kit.config(URL="http://x/", CONTENT_TYPE="application/json"))
    assert "CONTENT_TYPE=json" in caplog.text


def test_only_the_body_has_a_null_and_absent_is_absent(kit: Any) -> None:
    place = {"q": "query", "h": "header:X-H", "c": "cookie"}
    made = plan(kit, "q h c b d", HTTP_METHOD="POST", PARAMETER_PLACEMENT=place)
    message = made.message({"q": None, "h": None, "c": None, "b": None})
    assert (message.target, message.body) == (b"/v1", b'{"b":null}')
    assert not {"x-h", "cookie"} & set(headers(message))


def test_constants_stand_in_the_body_and_a_parameter_replaces_its_own(kit: Any) -> None:
    keys = {"HTTP_METHOD": "POST", "BODY_CONSTANTS": {"model": "m", "n": 1}}
    made = plan(kit, "n", **keys)
    assert made.message({}).body == b'{"model":"m","n":1}'
    assert made.message({"n": 2}).body == b'{"model":"m","n":2}'
    assert plan(kit, "n", CONTENT_TYPE="", **keys).message({"n": 2}).body == b"model=m&n=2"


def test_calls_do_not_change_the_constants(kit: Any) -> None:
    place = {"text": "body:/messages/0/content"}
    constants = {"messages": [{"role": "user", "content": None}]}
    made = plan(kit, "text", HTTP_METHOD="POST", PARAMETER_PLACEMENT=place, BODY_CONSTANTS=constants)
    assert made.message({"text": "hi"}).body == b'{"messages":[{"role":"user","content":"hi"}]}'
    assert constants["messages"][0]["content"] is None
    assert made.message({}).body == b'{"messages":[{"role":"user","content":null}]}'


def test_defaults_of_the_schema_are_sent(kit: Any) -> None:
    assert plan(kit, kit.signature(a={"default": "x"}, b={})).message({}).target == b"/v1?a=x"


def test_a_missing_path_value_is_refused(kit: Any) -> None:
    made = plan(kit, "a", URL="https://api.example/{a}/x")
    for arguments in ({}, {"a": None}, {"a": ""}):
        with pytest.raises(InvalidArguments) as refused:
            made.message(arguments)
        assert refused.value.detail["errors"][0]["pointer"] == "/a"


def test_a_place_in_the_query_of_the_url_is_filled_and_escaped(kit: Any) -> None:
    made = plan(kit, "a b", URL="https://api.example/s?q={a}&fixed=1")
    assert made.message({"a": "x&y=z", "b": ""}).target == b"/s?q=x%26y%3Dz&fixed=1&b="


def test_an_argument_that_nobody_declared_is_refused(kit: Any) -> None:
    with pytest.raises(InvalidArguments, match="'b' is not a parameter"):
        plan(kit, "a").message({"b": 1})


def test_an_open_signature_takes_more_arguments_but_none_that_the_file_sets(kit: Any) -> None:
    parameters = FunctionSignature(
        "f", parameters={"type": "object", "properties": {"a": {}}, "additionalProperties": True}
    )
    made = plan(kit, parameters, URL="https://api.example/?key=1")
    assert made.message({"a": 1, "b": 2}).target == b"/?key=1&a=1&b=2"
    with pytest.raises(InvalidArguments):
        made.message({"key": 2})
    made = plan(kit, parameters, HTTP_METHOD="POST", BODY_CONSTANTS={"model": "m"})
    with pytest.raises(InvalidArguments):
        made.message({"model": "other"})


def test_a_bound_parameter_is_placed_although_the_signature_hides_it(kit: Any) -> None:
    made = plan(kit, "a", bound=["tenant"], PARAMETER_PLACEMENT={"tenant": "header:X-Tenant"})
    message = made.message({"a": 1, "tenant": "t"})
    assert (headers(message)["x-tenant"], message.target) == ("t", b"/v1?a=1")


@pytest.mark.parametrize(
    ("keys", "name", "value"),
    [
        ({"API_KEY_VALUE": "k"}, "x-api-key", "k"),
        ({"API_KEY_VALUE": "k", "API_KEY_HEADER_NAME": "X-Other"}, "x-other", "k"),
        ({"AUTH_TOKEN": "t"}, "authorization", "Bearer t"),
        ({"AUTH": "BASIC", "AUTH_USERNAME": "ü", "AUTH_PASSWORD": "p:w"}, "authorization", "Basic w7w6cDp3"),
        ({"AUTH": "none", "AUTH_TOKEN": "t"}, "authorization", None),
        ({"HEADERS": {"authorization": "old"}, "AUTH_TOKEN": "t"}, "authorization", "Bearer t"),
        ({"HEADERS": {"X-N": 5}}, "x-n", "5"),
        ({"HEADERS": {"Host": "virtual.example"}}, "host", "virtual.example"),
        ({"HEADERS": {"user-agent": "mine"}}, "user-agent", "mine"),
    ],
)
def test_headers_and_credentials_are_sent_once(kit: Any, keys: Any, name: str, value: str | None) -> None:
    message = plan(kit, **keys).message({})
    sent = [(key.decode().lower(), text.decode()) for key, text in message.headers]
    assert [text for key, text in sent if key == name] == ([] if value is None else [value])
    assert len({key for key, _ in sent}) == len(sent)


def test_a_parameter_may_replace_a_header_that_is_only_ours(kit: Any) -> None:
    message = plan(kit, "a", PARAMETER_PLACEMENT={"a": "header:accept"}).message({"a": "text/csv"})
    assert [value for name, value in message.headers if name.lower() == b"accept"] == [b"text/csv"]


def test_base64_files_are_decoded_where_the_schema_says_so(kit: Any) -> None:
    parameters = kit.signature(a={"type": "string", "contentEncoding": "base64"})
    made = plan(
        kit, parameters, HTTP_METHOD="PUT", PARAMETER_PLACEMENT={"a": "raw"}, CONTENT_TYPE="image/png"
    )
    message = made.message({"a": "AAEC"})
    assert (message.body, headers(message)["content-type"]) == (b"\x00\x01\x02", "image/png")
    with pytest.raises(InvalidArguments, match="base64"):
        made.message({"a": "***"})


def test_secrets_stay_out_of_the_printed_config(kit: Any) -> None:
    config: RestConfig = kit.config(
        URL="http://x/",
        HEADERS={"X": "hush-1"},
        API_KEY_VALUE="hush-2",
        AUTH_TOKEN="hush-3",
        AUTH_PASSWORD="hush-4",
    )
    assert "hush" not in repr(config)
