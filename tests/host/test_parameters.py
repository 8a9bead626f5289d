"""The signature and the rules of calls that an smss file declares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.diagnostics import Severity
from enginehost.engine import Approval, Limits
from enginehost.interpret import Declaration, Sources, interpret
from enginehost.parameters import SignatureParts, read_name, read_signature
from enginehost.signature import NO_PARAMETERS, UNREAD, Annotations, FunctionSignature

HEAD = "FUNCTION_NAME=f\nFUNCTION_DESCRIPTION=does it\n"


def declare(text: str, sources: Sources | None = None, head: str = HEAD) -> Declaration:
    return interpret((head + text).encode(), Path("f.smss"), sources)


def good(text: str) -> SignatureParts:
    """The parts of a file about which there is nothing to say."""
    declaration = declare(text)
    parts = read_signature(declaration)
    assert not declaration.diagnostics
    assert parts.known
    return parts


def parameters(text: str) -> Any:
    signature = good(text).signature
    assert signature is not None
    return signature.parameters


def found(text: str, head: str = HEAD) -> list[tuple[str, Severity, int]]:
    """Code, severity and line of what is found; what is not known has an error."""
    declaration = declare(text, head=head)
    parts = read_signature(declaration)
    assert parts.known or declaration.has_errors
    assert all(entry.hint for entry in declaration.diagnostics)
    return [(entry.code, entry.severity, entry.line) for entry in declaration.diagnostics]


ERROR, WARNING = Severity.ERROR, Severity.WARNING


# parameters


def test_no_parameters_is_an_empty_object() -> None:
    for text in ("", "FUNCTION_PARAMETERS=", "FUNCTION_PARAMETERS=[]", "FUNCTION_PARAMETERS={}"):
        assert parameters(text) == NO_PARAMETERS == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    "fields",
    [("name", "type", "description"), ("parameterName", "parameterType", "parameterDescription")],
)
def test_both_spellings_of_an_entry_give_one_schema(fields: tuple[str, str, str]) -> None:
    name, kind, description = fields
    entries = [{name: "lat", kind: "Double", description: "Latitude"}, {name: "tags", kind: "List<String>"}]
    text = f'FUNCTION_PARAMETERS={json.dumps(entries)}\nFUNCTION_REQUIRED_PARAMETERS=["lat"]'
    assert parameters(text) == {
        "type": "object",
        "properties": {
            "lat": {"type": "number", "description": "Latitude"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["lat"],
    }
    assert good(text).coerce_text is (name == "parameterName")


def test_null_and_blank_fields_of_a_form_say_nothing() -> None:
    text = 'FUNCTION_PARAMETERS=[{"parameterName":"a","parameterType":null,"parameterDescription":""}]'
    assert parameters(text)["properties"] == {"a": {}}


def test_an_entry_takes_every_keyword_of_json_schema() -> None:
    entry = {
        "name": "n",
        "type": "int",
        "required": True,
        "default": 3,
        "minimum": 1,
        "enum": [1, 2, 3],
        "x-unit": "m",
    }
    schema = parameters(f"FUNCTION_PARAMETERS={json.dumps([entry])}")
    assert schema["properties"]["n"] == {
        "type": "integer",
        "default": 3,
        "minimum": 1,
        "enum": [1, 2, 3],
        "x-unit": "m",
    }
    assert schema["required"] == ["n"]


def test_type_words_count_at_any_depth() -> None:
    entry = {
        "name": "rows",
        "type": "array",
        "items": {
            "type": "Map",
            "properties": {"n": {"type": "int"}, "s": "String"},
            "required": ["n"],
        },
    }
    assert parameters(f"FUNCTION_PARAMETERS={json.dumps([entry])}")["properties"]["rows"]["items"] == {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "s": {"type": "string"}},
        "required": ["n"],
    }
    entry = {"name": "o", "type": "object", "properties": {"a": "int"}, "required": ["a"]}
    schema = parameters(f"FUNCTION_PARAMETERS={json.dumps([entry])}")
    assert schema["properties"]["o"]["required"] == ["a"]
    assert "required" not in schema


def test_the_whole_value_may_be_one_schema() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"type": ["string", "null"]}},
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {"A": {"type": "integer"}},
    }
    text = f'FUNCTION_PARAMETERS={json.dumps(schema)}\nFUNCTION_REQUIRED_PARAMETERS=["b"]'
    assert parameters(text) == {**schema, "type": "object", "required": ["a", "b"]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('FUNCTION_PARAMETERS=[{"name":"a","type":"spam"}]', ("unknown-type", WARNING, 3)),
        ('FUNCTION_PARAMETERS=[{"name":"a","items":{"type":"spam"}}]', ("unknown-type", WARNING, 3)),
        ('FUNCTION_PARAMETERS=[{"name":"a"},{"name":"a"}]', ("duplicate-parameter", WARNING, 3)),
        ('FUNCTION_PARAMETERS=[{"name":"a","minimun":1}]', ("unknown-field", WARNING, 3)),
        ('FUNCTION_PARAMETERS=[{"name":"a"},null]', ("null-parameter", WARNING, 3)),
        ('FUNCTION_REQUIRED_PARAMETERS=["a"]', ("undeclared-required", WARNING, 3)),
        ("FUNCTION_REQUIRED_PARAMETERS=[null]", ("null-parameter", WARNING, 3)),
        ("FUNCTION_PARAMETERS=[{'name':'a'}]", ("lenient-json", WARNING, 3)),
        ('FUNCTION_PARAMETERS=["a"]', ("bad-parameter", ERROR, 3)),
        ('FUNCTION_PARAMETERS=[{"type":"string"}]', ("bad-parameter", ERROR, 3)),
        ('FUNCTION_PARAMETERS=[{"name":null}]', ("bad-parameter", ERROR, 3)),
        ('FUNCTION_PARAMETERS=[{"name":7}]', ("bad-parameter", ERROR, 3)),
        ('FUNCTION_PARAMETERS=[{"name":"a","required":"maybe"}]', ("bad-parameter", ERROR, 3)),
        ("FUNCTION_PARAMETERS=7", ("bad-parameters", ERROR, 3)),
        ('FUNCTION_PARAMETERS="a"', ("bad-parameters", ERROR, 3)),
        ('FUNCTION_PARAMETERS={"name":"a","type":"string"}', ("bad-parameters", ERROR, 3)),
        ('FUNCTION_PARAMETERS={"type":"array","properties":{}}', ("bad-parameters", ERROR, 3)),
        ('FUNCTION_PARAMETERS={"type":"object","properties":[]}', ("bad-parameters", ERROR, 3)),
        ('FUNCTION_PARAMETERS={"type":"object","required":"a"}', ("bad-required", ERROR, 3)),
        ("FUNCTION_PARAMETERS=[{", ("malformed-json", ERROR, 3)),
        ('FUNCTION_PARAMETERS=[{"name":"a","minimum":"x"}]', ("bad-schema", ERROR, 3)),
        ('FUNCTION_PARAMETERS=[{"name":"a","type":["string",7]}]', ("bad-schema", ERROR, 3)),
        ('FUNCTION_PARAMETERS=[{"name":"a","type":7}]', ("bad-schema", ERROR, 3)),
        ('FUNCTION_PARAMETERS=[{"name":"a","pattern":"("}]', ("bad-schema", ERROR, 3)),
        ('FUNCTION_PARAMETERS=[{"name":"a","$ref":"#/$defs/no"}]', ("bad-schema", ERROR, 3)),
        ('FUNCTION_PARAMETERS=[{"name":"a","$ref":"https://h.example/s"}]', ("bad-schema", ERROR, 3)),
        ('FUNCTION_PARAMETERS={"properties":{"a":{"$ref":"other.json"}}}', ("bad-schema", ERROR, 3)),
        (
            'FUNCTION_PARAMETERS={"$schema":"http://json-schema.org/draft-07/schema#","properties":{}}',
            ("bad-schema", ERROR, 3),
        ),
        ('FUNCTION_REQUIRED_PARAMETERS="a"', ("bad-required", ERROR, 3)),
        ("FUNCTION_REQUIRED_PARAMETERS=[1]", ("bad-required", ERROR, 3)),
        ("FUNCTION_RESULT=7", ("bad-schema", ERROR, 3)),
        ('FUNCTION_RESULT={"type":"spam"}', ("unknown-type", WARNING, 3)),
        ('FUNCTION_RESULT={"minimum":"x"}', ("bad-schema", ERROR, 3)),
        ("FUNCTION_ANNOTATIONS=[]", ("bad-annotations", ERROR, 3)),
        ('FUNCTION_ANNOTATIONS={"readOnly":"yes"}', ("bad-annotations", ERROR, 3)),
        ('FUNCTION_ANNOTATIONS={"fast":true}', ("unknown-annotation", WARNING, 3)),
        ("FUNCTION_TAGS=[1]", ("bad-tags", ERROR, 3)),
        ('FUNCTION_TAGS={"a":1}', ("bad-tags", ERROR, 3)),
        ('FUNCTION_TAGS="a"', ("bad-tags", ERROR, 3)),
        ("FUNCTION_TAGS='a', 'b'", ("bad-tags", ERROR, 3)),
        ("FUNCTION_TAGS=(a, b)", ("bad-tags", ERROR, 3)),
        ("FUNCTION_TAGS=a; b", ("bad-tags", ERROR, 3)),
        ("FUNCTION_TAGS=${NOWHERE}", ("bad-tags", ERROR, 3)),
        ("FUNCTION_BIND=[]", ("bad-bind", ERROR, 3)),
        ('FUNCTION_BIND={"a":"$caller.password"}', ("bad-bind", ERROR, 3)),
        ("TIMEOUT_SECONDS=0", ("bad-limit", ERROR, 3)),
        ("TIMEOUT_SECONDS=nan", ("bad-limit", ERROR, 3)),
        ("MAX_CONCURRENCY=0", ("bad-limit", ERROR, 3)),
        ("MAX_CONCURRENCY=1.5", ("bad-limit", ERROR, 3)),
        ("QUEUE_LIMIT=-1", ("bad-limit", ERROR, 3)),
        ("RATE_LIMIT=100", ("bad-limit", ERROR, 3)),
        ("RATE_LIMIT=0/s", ("bad-limit", ERROR, 3)),
        ("RATE_LIMIT=1/fortnight", ("bad-limit", ERROR, 3)),
        ("MAX_RESULT_BYTES=big", ("bad-limit", ERROR, 3)),
        ("APPROVAL=sometimes", ("bad-approval", ERROR, 3)),
    ],
)
def test_what_is_wrong_is_found_at_its_line(text: str, expected: tuple[str, Severity, int]) -> None:
    findings = found(text)
    assert expected in findings
    assert all(severity is not ERROR or code == expected[0] for code, severity, _ in findings)


def test_what_is_wrong_with_a_schema_shows_no_value_from_outside() -> None:
    text = 'FUNCTION_PARAMETERS=[{"name":"a","minimum":"${file:s}"}]'
    declaration = declare(text, Sources(file=lambda path: "hunter2"))
    assert not read_signature(declaration).known
    assert [found.code for found in declaration.diagnostics] == ["bad-schema"]
    assert "hunter2" not in str(declaration.diagnostics[0])


def test_a_required_name_that_is_not_declared_may_be_anything() -> None:
    parts = read_signature(declare('FUNCTION_REQUIRED_PARAMETERS=["a"]'))
    assert parts.signature is not None
    assert parts.signature.parameters == {"type": "object", "properties": {"a": {}}, "required": ["a"]}


def test_of_two_equal_parameters_the_last_counts() -> None:
    parts = read_signature(
        declare('FUNCTION_PARAMETERS=[{"name":"a","type":"int"},{"name":"a","type":"str"}]')
    )
    assert parts.signature is not None
    assert parts.signature.properties == {"a": {"type": "string"}}


# name, description, result, annotations, tags


def test_the_name_is_required_and_the_description_is_not() -> None:
    assert found("", head="") == [("missing-key", ERROR, 0), ("no-description", WARNING, 0)][:1]
    assert found("", head="FUNCTION_NAME= \n") == [("blank-key", ERROR, 1)]
    assert found("", head="FUNCTION_NAME=f") == [("no-description", WARNING, 0)]
    assert found("", head="FUNCTION_NAME=f\nFUNCTION_DESCRIPTION=\n") == [("no-description", WARNING, 2)]
    assert found("", head="FUNCTION_NAME=a\\nb\nFUNCTION_DESCRIPTION=d") == [("bad-name", ERROR, 1)]


def test_an_engine_that_needs_no_signature_still_reads_the_rules() -> None:
    parts = read_signature(declare("TIMEOUT_SECONDS=3", head=""), required=False)
    assert parts == SignatureParts(None, Limits(timeout=3.0))


def test_result_annotations_and_tags() -> None:
    parts = good(
        'FUNCTION_RESULT={"type":"int"}\n'
        'FUNCTION_ANNOTATIONS={"readOnly":true,"destructiveHint":false,"open_world":null,"title":"F"}\n'
        "FUNCTION_TAGS=a, b,,a"
    )
    assert parts.signature is not None
    assert parts.signature.result == {"type": "integer"}
    assert parts.signature.annotations == Annotations(title="F", read_only=True, destructive=False)
    assert parts.signature.tags == ("a", "b")
    signature = good('FUNCTION_TAGS=["x", "y"]').signature
    assert signature is not None
    assert signature.tags == ("x", "y")


# bind, limits, approval


def test_bound_parameters_stand_in_no_schema() -> None:
    text = (
        'FUNCTION_PARAMETERS=[{"name":"q","type":"string"},{"name":"who","type":"string"},{"name":"key"}]\n'
        'FUNCTION_REQUIRED_PARAMETERS=["who","key"]\n'
        'FUNCTION_BIND={"who":"$caller.subject","key":"${secret:k}"}'
    )
    declaration = declare(text, Sources(secret=lambda name: "s3cret"))
    parts = read_signature(declaration)
    assert not declaration.diagnostics
    assert parts.signature is not None
    assert parts.signature.parameters == {"type": "object", "properties": {"q": {"type": "string"}}}
    assert parts.bind == {"who": "$caller.subject", "key": "s3cret"}


def test_a_bound_name_that_nobody_declares_is_a_warning() -> None:
    assert found('FUNCTION_BIND={"a":1}') == [("undeclared-bind", WARNING, 3)]
    text = 'FUNCTION_PARAMETERS=[{"name":"b"}]\nFUNCTION_BIND={"a":1,"b":2}'
    assert found(text) == [("undeclared-bind", WARNING, 4)]


def test_limits() -> None:
    text = "TIMEOUT_SECONDS=2.5\nMAX_CONCURRENCY=5.0\nQUEUE_LIMIT=0\nMAX_RESULT_BYTES=1000\nRATE_LIMIT="
    assert good(text).limits == Limits(
        timeout=2.5, max_concurrency=5, queue_limit=0, max_result_bytes=1000, rate=None, burst=1
    )


@pytest.mark.parametrize(
    ("text", "rate", "burst"),
    [("100/s", 100.0, 100), ("20/minute", 20 / 60, 20), ("5 / H", 5 / 3600, 5), ("0.5/s", 0.5, 1)],
)
def test_rates(text: str, rate: float, burst: int) -> None:
    limits = good(f"RATE_LIMIT={text}").limits
    assert (limits.rate, limits.burst) == (rate, burst)


@pytest.mark.parametrize(
    ("word", "approval"),
    [
        ("never", Approval.NEVER),
        ("ALWAYS", Approval.ALWAYS),
        ("destructive", Approval.DESTRUCTIVE),
        ("auto", Approval.NEVER),
        ("ask", Approval.ALWAYS),
        ("yesno", Approval.ALWAYS),
        ("disabled", Approval.ALWAYS),
        ("", Approval.NEVER),
    ],
)
def test_approval_takes_our_words_and_semosss(word: str, approval: Approval) -> None:
    assert good(f"APPROVAL={word}").approval is approval


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["int", "string", "x", "#/y", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "type", "required", "items", "properties", "enum", "$ref", "minimum", "anyOf"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@settings(max_examples=300, deadline=None)
@given(JSON_VALUES, JSON_VALUES, JSON_VALUES)
def test_any_json_gives_a_usable_schema_or_an_error(declared: Any, required: Any, bind: Any) -> None:
    texts = [json.dumps(value) for value in (declared, required, bind)]
    declaration = declare(
        "FUNCTION_PARAMETERS={}\nFUNCTION_REQUIRED_PARAMETERS={}\nFUNCTION_BIND={}".format(*texts)
    )
    parts = read_signature(declaration)
    if not parts.known:
        assert declaration.has_errors
        return
    assert parts.signature is not None
    schema = dict(parts.signature.parameters)
    jsonschema_rs.Draft202012Validator(schema)
    assert schema["type"] == "object"
    assert set(schema.get("required", [])) <= set(schema["properties"])
    assert not set(parts.bind) & set(schema["properties"])


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        ('"type": "integer", "default": "x"', False),
        ('"type": "int", "default": 1', True),
        ('"enum": ["a"], "default": "b"', False),
        ('"type": "string", "format": "date", "default": "soon"', False),
        ('"type": "string", "default": ""', True),
        ('"type": "object", "properties": {"n": {"type": "integer"}}, "default": {"n": "x"}', False),
        ('"default": null', True),
    ],
)
def test_a_default_that_its_own_schema_refuses_is_a_warning(schema: str, fits: bool) -> None:
    text = f'FUNCTION_NAME = f\nFUNCTION_PARAMETERS = [{{"name": "a", {schema}}}]'
    declaration = interpret(text.encode(), Path("f.smss"))
    assert read_signature(declaration).known
    assert ("default-mismatch" in [one.code for one in declaration.diagnostics]) is not fits


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("", ()),
        ("FUNCTION_TAGS=", ()),
        ("FUNCTION_TAGS=a b, c:d/e", ("a b", "c:d/e")),
        ('FUNCTION_TAGS=["a"]', ("a",)),
        (r'FUNCTION_TAGS=["\\u0061"]', ("a",)),
        ('FUNCTION_TAGS={"a":1}', ("a", "1", UNREAD)),
        ('FUNCTION_TAGS="a", "b c"', ("a", "b c", UNREAD)),
        ('FUNCTION_TAGS=["a", "b"', ("a", "b", UNREAD)),
        ('FUNCTION_TAGS=["a", 1]', ("a", "1", UNREAD)),
        ("FUNCTION_TAGS=a${file:/no/such/file}", (UNREAD,)),
        ("FUNCTION_TAGS=${secret:none}", (UNREAD,)),
    ],
)
def test_the_tags_of_a_file_with_errors_are_known_or_known_to_be_unread(
    text: str, tags: tuple[str, ...]
) -> None:
    for name, complete in (("f", False), ("f", True), (UNREAD, True)):
        written = f"FUNCTION_NAME={name.replace(UNREAD, '')}\n{text}"
        declaration = interpret(written.encode(), Path("f.smss"))
        declaration.words("FUNCTION_TAGS")
        before = list(declaration.diagnostics)
        assert read_name(declaration, complete=complete) == FunctionSignature(name, tags=tags)
        assert declaration.diagnostics == before
    declaration = interpret(text.encode(), Path("f.smss"))
    unsure = read_name(declaration, complete=False)
    assert (unsure.name, set(unsure.tags)) == (UNREAD, {*tags, UNREAD})


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20), st.booleans())
def test_no_way_to_write_tags_hides_one_from_the_policy(around: str, json_list: bool) -> None:
    text = json.dumps([around, "hidden"]) if json_list else f"{around},hidden"
    declaration = declare(f"FUNCTION_TAGS = {escaped(text)}")
    parts = read_signature(declaration)
    assert declaration.has_errors or "hidden" in (parts.signature or FunctionSignature("")).tags
    unread = read_name(declaration, complete=True).tags
    assert "hidden" in unread or UNREAD in unread


def escaped(text: str) -> str:
    """Text as the value of a property file."""
    return text.replace("\\", "\\\\")
