"""Values: what each type becomes for callers and on the wire, and what is refused."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import gc
import math
import threading
import uuid
from collections import OrderedDict, deque, namedtuple
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from enginehost.errors import ResultInvalid
from enginehost.values import (
    MalformedJson,
    NotJson,
    _text,
    aside,
    decode,
    encode,
    from_json,
    pack,
    read,
    to_json,
    unpack,
    write,
)

SETTINGS = settings(max_examples=60, deadline=None)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
PLAIN_SCALARS = st.none() | st.booleans() | NUMBERS | TEXT
KEYS = TEXT | st.sampled_from(["$bytes", "$$bytes", "$set", "$", "$$tuple", 'a"$'])
OFFSETS = st.none() | st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4)


PLAIN = st.recursive(PLAIN_SCALARS, containers, max_leaves=12)
HASHABLE = (
    PLAIN_SCALARS
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.dates()
    | st.datetimes(timezones=OFFSETS)
    | st.times(timezones=OFFSETS)
    | st.timedeltas()
    | st.tuples(st.integers(), TEXT)
)
RICH = st.recursive(
    HASHABLE | st.builds(bytearray, st.binary()) | st.just(math.inf) | st.just(-math.inf),
    lambda inner: (
        containers(inner)
        | st.lists(inner, max_size=3).map(tuple)
        | st.sets(HASHABLE, max_size=3)
        | st.frozensets(HASHABLE, max_size=3)
        | st.dictionaries(HASHABLE, inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.fixture(params=["orjson", "standard library"])
def writer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the two JSON implementations."""
    if request.param != "orjson":
        monkeypatch.setattr(_text, "_orjson", None)
        monkeypatch.setattr(_text, "native_dumps", None)
    return request.param


def same(left: Any, right: Any) -> bool:
    """Equal, and of the same types all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        pairs = zip(left.items(), right.items(), strict=True)
        return len(left) == len(right) and all(same(list(a), list(b)) for a, b in pairs)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def without_json_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_text, "_orjson", None)
    monkeypatch.setattr(_text, "native_dumps", None)


@SETTINGS
@given(PLAIN)
def test_plain_values_come_back_as_they_were_on_both_dialects(value: Any) -> None:
    assert same(decode(encode(value)), value)
    assert same(from_json(to_json(value)), value)
    assert same(unpack(pack(value)), value)


@SETTINGS
@given(RICH)
def test_every_builtin_type_comes_back_from_the_wire_as_itself(value: Any) -> None:
    assert same(unpack(pack(value)), value)


@SETTINGS
@given(RICH)
def test_both_json_implementations_read_what_the_other_writes(value: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fast = pack(value)
        without_json_library(patch)
        assert same(unpack(fast), value)
        slow = pack(value)
    assert same(unpack(slow), value)


@SETTINGS
@given(RICH)
def test_what_is_encoded_is_json_that_decodes_or_is_refused(value: Any) -> None:
    try:
        data = encode(value)
    except NotJson:
        return
    assert encode(decode(data)) == data


@SETTINGS
@given(st.binary() | st.builds(lambda value, cut: encode(value)[:cut], PLAIN, st.integers(0, 40)))
def test_any_bytes_decode_or_are_malformed(data: bytes) -> None:
    for reads in (decode, unpack, read):
        with suppress(MalformedJson):
            reads(data)


@SETTINGS
@given(st.binary() | TEXT.map(str.encode) | PLAIN.map(encode))
def test_both_json_implementations_agree_on_what_is_json(data: bytes) -> None:
    def read() -> Any:
        try:
            return decode(data)
        except MalformedJson:
            return MalformedJson

    fast = read()
    with pytest.MonkeyPatch.context() as patch:
        without_json_library(patch)
        assert same(read(), fast)


Point = namedtuple("Point", "x y")


@dataclasses.dataclass
class Box:
    width: int
    inner: Any = None


class Colour(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Model(BaseModel):
    when: date
    secret: SecretStr = SecretStr("hidden")


ID = uuid.UUID("12345678-1234-5678-1234-567812345678")

FACE: list[tuple[Any, str]] = [
    (None, "null"),
    (2**53 + 1, "9007199254740993"),
    (2**80, "1208925819614629174706176"),
    ({2**80: 2**80}, '{"1208925819614629174706176":1208925819614629174706176}'),
    (-(2**80), "-1208925819614629174706176"),
    (0.1, "0.1"),
    (Decimal("1.20"), '"1.20"'),
    (b"\x00\xff", '{"$bytes":"AP8="}'),
    (memoryview(b"\x00"), '{"$bytes":"AA=="}'),
    (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), '"2026-01-02T03:04:05+00:00"'),
    (datetime(2026, 1, 2, 3, 4, 5, 6), '"2026-01-02T03:04:05.000006"'),  # noqa: DTZ001 - what is tested
    (date(2026, 1, 2), '"2026-01-02"'),
    (time(3, 4), '"03:04:00"'),
    (timedelta(days=1, seconds=2.5), '"P1DT2.5S"'),
    (timedelta(seconds=-90), '"-PT90S"'),
    (timedelta(0), '"P0D"'),
    (ID, f'"{ID}"'),
    (Path("/data/x"), '"/data/x"'),
    (Colour.RED, '"red"'),
    (Colour.PAIR, "[1,2]"),
    (Point(1, 2), '{"x":1,"y":2}'),
    (Box(1, Box(2)), '{"width":1,"inner":{"width":2,"inner":null}}'),
    (Model(when=date(2026, 1, 2)), '{"when":"2026-01-02","secret":"**********"}'),
    ((1, "a"), '[1,"a"]'),
    ({3, 1, 2}, "[1,2,3]"),
    (deque([1]), "[1]"),
    (range(2), "[0,1]"),
    (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
    ({1: "a", None: "b", False: "c", 2.5: "d"}, '{"1":"a","null":"b","false":"c","2.5":"d"}'),
    ({Colour.RED: 1, ID: 2, date(2026, 1, 2): 3}, f'{{"red":1,"{ID}":2,"2026-01-02":3}}'),
    (Text("text"), '"text"'),
    ({"$bytes": "AA=="}, '{"$$bytes":"AA=="}'),
]


@pytest.mark.parametrize(("value", "text"), FACE, ids=[text for _, text in FACE])
def test_a_face_writes_each_type_in_its_documented_form(writer: str, value: Any, text: str) -> None:
    assert encode(value).decode() == text


NOT_JSON: list[tuple[Any, str]] = [
    (math.nan, ""),
    ([1, {"a/b": math.inf}], "/1/a~1b"),
    (Decimal("NaN"), ""),
    ({"x": Decimal("-Infinity")}, "/x"),
    ([Decimal("sNaN")], "/0"),
    ({Decimal("NaN"): 1}, ""),
    ({10**5000: 1}, ""),
    ({"x": ["\ud800"]}, "/x/0"),
    ({"x": object()}, "/x"),
    ([1j], "/0"),
    ({(1, 2): 3}, ""),
    ({1: "a", "1": "b"}, ""),
    ([10**5000], "/0"),
    ((item for item in ()), ""),
]


@pytest.mark.parametrize(("value", "pointer"), NOT_JSON, ids=lambda part: type(part).__name__)
def test_what_has_no_json_is_refused_with_the_place(writer: str, value: Any, pointer: str) -> None:
    with pytest.raises(NotJson) as caught:
        encode(value)
    assert caught.value.pointer == pointer
    assert caught.value.detail["pointer"] == pointer
    assert isinstance(caught.value, ResultInvalid)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("write", [encode, pack])
def test_a_value_that_contains_itself_is_refused(writer: str, write: Any) -> None:
    loop: list[Any] = []
    loop.append({"again": loop})
    with pytest.raises(NotJson, match="contains itself"):
        write(loop)


@pytest.mark.parametrize("write", [encode, pack])
def test_a_value_nested_too_deep_is_refused(writer: str, write: Any) -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(NotJson, match="levels"):
        write(deep)


def test_one_value_in_two_places_is_no_cycle() -> None:
    shared = {"a": (1,)}
    assert encode([shared, shared]) == b'[{"a":[1]},{"a":[1]}]'


def test_nan_becomes_null_where_that_is_allowed(writer: str) -> None:
    assert encode([math.nan, math.inf, 1.5], allow_nan=True) == b"[null,null,1.5]"
    assert to_json({"a": math.nan}, allow_nan=True) == {"a": None}


def test_nan_crosses_the_wire(writer: str) -> None:
    assert math.isnan(unpack(pack([math.nan, None]))[0])


NOT_JSON_AT_ALL = [b"", b"{", b"NaN", b"Infinity", b"1e999", b'"\\ud800"', b"\xff", b"[1,]", b"'a'", b"01"]


@pytest.mark.parametrize("data", [*NOT_JSON_AT_ALL, b"\xef\xbb\xbf1"])
def test_what_is_not_json_is_malformed(writer: str, data: bytes) -> None:
    with pytest.raises(MalformedJson):
        decode(data)


def test_a_marker_with_bad_base64_is_malformed() -> None:
    for data in (b'{"$bytes": "?"}', b'{"$bytes": 1}'):
        with pytest.raises(MalformedJson):
            decode(data)


@pytest.mark.parametrize("data", [b'{"$unknown":1}', b'{"$int":"x"}', b'{"$set":[[]]}', b'{"$timedelta":1}'])
def test_a_tag_that_the_wire_does_not_have_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedJson):
        unpack(data)


def test_an_object_that_looks_like_a_marker_stays_an_object() -> None:
    for value in ({"$bytes": "AA=="}, {"$$bytes": 1}, {"$set": [1]}, {"$bytes": "AA==", "more": 1}):
        assert decode(encode(value)) == value
        assert unpack(pack(value)) == value


def test_numpy_becomes_numbers_and_nested_arrays() -> None:
    np = pytest.importorskip("numpy")
    value = {
        "scalar": np.float64(1.5),
        "int": np.int8(3),
        "bool": np.bool_(True),
        "matrix": np.arange(4).reshape(2, 2),
        "long": np.longdouble(2.5),
        "when": np.array(["2026-01-02", "NaT"], dtype="datetime64[D]"),
        "span": np.timedelta64(5, "s"),
        "rows": np.array([(1, 2.5)], dtype=[("a", int), ("b", float)]),
    }
    assert decode(encode(value)) == {
        "scalar": 1.5,
        "int": 3,
        "bool": True,
        "matrix": [[0, 1], [2, 3]],
        "long": 2.5,
        "when": ["2026-01-02", None],
        "span": "PT5S",
        "rows": [{"a": 1, "b": 2.5}],
    }
    assert unpack(pack(value))["matrix"].tolist() == [[0, 1], [2, 3]]
    with pytest.raises(NotJson):
        encode(np.array([math.nan]))


def test_a_pandas_frame_becomes_records_with_null_for_missing() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"n": [1, 2], "x": [1.5, None], "when": pd.to_datetime(["2026-01-02", None])})
    assert decode(encode(frame)) == [
        {"n": 1, "x": 1.5, "when": "2026-01-02T00:00:00"},
        {"n": 2, "x": None, "when": None},
    ]
    assert decode(encode([pd.Series([1.0, None]), pd.NaT, pd.NA, pd.Timedelta("1h")])) == [
        [1.0, None],
        None,
        None,
        "PT3600S",
    ]


def test_a_polars_frame_becomes_records_with_null_for_missing() -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"n": [1, None], "x": [math.nan, 2.0]})
    assert decode(encode(frame)) == [{"n": 1, "x": None}, {"n": None, "x": 2.0}]
    assert decode(encode(pl.Series([1, 2]))) == [1, 2]


def test_what_is_no_number_is_null_where_that_is_allowed(writer: str) -> None:
    value = [math.nan, Decimal("NaN"), -math.inf, Decimal("Infinity"), Decimal("1.0")]
    assert encode(value, allow_nan=True) == b'[null,null,null,null,"1.0"]'


def wide_and_deep(odd: Any, place: str) -> Any:
    """A large value with ``odd`` in it."""
    value: Any = [{"a": [n, n / 2, "text", None]} for n in range(2000)]
    if place == "wide":
        value[1500]["a"].append(odd)
    for depth in range(100):
        value = {"b": value, "c": [odd] if place == "deep" and depth == 50 else []}
    return value


@pytest.mark.parametrize("place", ["wide", "deep"])
@pytest.mark.parametrize(
    "odd", [1, "x", None, [[]], (1, 2), 1.5, b"x", {1: 2}, {"$bytes": 1}, {"$set": []}, 2**70, Decimal(1)]
)
def test_one_value_of_another_kind_is_found_in_a_large_value(place: str, odd: Any) -> None:
    value = wide_and_deep(odd, place)
    assert same(unpack(pack(value)), value)
    if type(odd) in (int, str, float, list, bytes):
        assert same(decode(encode(value)), value)


@pytest.mark.parametrize("place", ["wide", "deep"])
def test_one_value_that_has_no_json_is_found_in_a_large_value(place: str) -> None:
    for odd in (math.nan, object(), "\ud800", Decimal("NaN")):
        with pytest.raises(NotJson) as refused:
            encode(wide_and_deep(odd, place))
        assert refused.value.pointer.endswith(f"/{1500}/a/4" if place == "wide" else "/c/0")


@SETTINGS
@given(RICH, st.sampled_from([70, 1500]))
def test_a_value_comes_back_from_the_wire_however_many_stand_beside_it(value: Any, many: int) -> None:
    values = [{"a": [1]}] * many + [value]
    assert same(unpack(pack(values)), values)


async def test_large_values_are_worked_on_beside_the_loop_two_at_a_time_and_uncollected() -> None:
    running, most, seen = 0, 0, set[Any]()
    lock = threading.Lock()

    def work(number: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        seen.add((threading.get_ident(), gc.isenabled()))
        go_on.wait(10)
        with lock:
            running -= 1
        return number

    go_on = threading.Event()
    waiting = [asyncio.ensure_future(aside(work, number)) for number in range(5)]
    while running < 2:
        await asyncio.sleep(0.001)
    go_on.set()
    assert await asyncio.gather(*waiting) == [0, 1, 2, 3, 4]
    assert most == 2
    assert threading.get_ident() not in {thread for thread, _ in seen}
    assert (next(iter(seen))[0], False) in seen
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        await aside(lambda: 1 / 0)


@SETTINGS
@given(PLAIN)
def test_a_document_is_written_and_read_as_it_is(document: Any) -> None:
    assert read(write(document)) == document


def test_a_document_has_no_markers() -> None:
    schema = {"properties": {"$bytes": {"type": "string"}, "n": {"default": None}}}
    assert write(schema) == b'{"properties":{"$bytes":{"type":"string"},"n":{"default":null}}}'
    assert write({"$bytes": (1,)}) == b'{"$bytes":[1]}'
