"""Names on the faces: legal, one to one, the same on every host."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.names import NAME_RULES, PARAMETER_RULES, FaceNames, face_name, name_rule

KINDS = list(NAME_RULES)
MAPPING_KINDS = [kind for kind in KINDS if kind != "json-schema"]
some = settings(max_examples=60, deadline=None)
any_names = st.one_of(
    st.text(max_size=20),
    st.from_regex(r"[A-Za-z0-9_.-]{1,130}", fullmatch=True),
    st.text(min_size=60, max_size=300),
)
LEGAL = {
    **dict.fromkeys(
        ("openai", "openai-strict", "openai-responses", "bedrock", "anthropic"), r"[A-Za-z0-9_-]{1,64}"
    ),
    "gemini": r"[A-Za-z_][A-Za-z0-9_.-]{0,63}",
    "mcp": r"[A-Za-z0-9_.-]{1,128}",
}


def is_legal(name: str, kind: str) -> bool:
    if kind == "json-schema":
        return True
    if kind == "genesis":
        return 0 < len(name.encode()) <= 256 and "\0" not in name
    return re.fullmatch(LEGAL[kind], name) is not None


@pytest.mark.parametrize("kind", KINDS)
@some
@given(name=st.one_of(any_names, st.text(st.characters(), max_size=20)))
def test_every_name_is_legal_on_the_face(kind: str, name: str):
    assert is_legal(face_name(name, kind), kind)


@pytest.mark.parametrize("kind", sorted(LEGAL))
@some
@given(data=st.data())
def test_a_name_that_fits_stays_as_it_is(kind: str, data: st.DataObject):
    name = data.draw(st.from_regex(LEGAL[kind], fullmatch=True).map(lambda text: text.rstrip("\n")))
    if is_legal(name, kind):
        assert face_name(name, kind) == name


@pytest.mark.parametrize("kind", KINDS)
@some
@given(names=st.sets(any_names, max_size=30), seed=st.randoms(use_true_random=False))
def test_the_mapping_is_one_to_one_and_knows_no_order(kind: str, names: set[str], seed: random.Random):
    faces = FaceNames(names, kind)
    shown = {name: faces.to_face(name) for name in names}
    assert len(set(shown.values())) == len(names) == len(faces)
    assert all(faces.from_face(face) == name for name, face in shown.items())
    assert all(is_legal(face, kind) for face in shown.values())
    shuffled = list(names)
    seed.shuffle(shuffled)
    again = FaceNames(shuffled, kind)
    assert {name: again.to_face(name) for name in names} == shown


@pytest.mark.parametrize("kind", MAPPING_KINDS)
def test_a_mapped_name_gives_way_to_a_name_that_fits(kind: str):
    long = "a name " * 50
    squatter = face_name(long, kind)
    faces = FaceNames([long, squatter], kind)
    assert faces.to_face(squatter) == squatter
    assert faces.to_face(long) not in (squatter, long)
    assert faces.from_face(squatter) == squatter
    assert faces.from_face(faces.to_face(long)) == long


def test_two_mapped_names_never_share_a_face(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("enginehost.names._digest", lambda name, attempt: f"same{attempt}")
    faces = FaceNames(["a b", "a.b", "a/b"], "openai")
    assert faces.mapped == {"a b": "a_b_same0", "a.b": "a_b_same1", "a/b": "a_b_same2"}


def test_alone_a_name_has_the_face_that_it_has_in_a_catalog():
    name = "weather.today"
    assert FaceNames([name, "add"], "openai").to_face(name) == face_name(name, "openai")


@pytest.mark.parametrize(
    ("name", "kind", "shown"),
    [
        ("weather.today", "mcp", "weather.today"),
        ("weather.today", "openai", "weather_today_"),
        ("größe", "openai", "grosse_"),
        ("9lives", "gemini", "_9lives_"),
        ("天気", "openai", "f_"),
        ("天気", "genesis", "天気"),
        ("", "openai", "f_"),
    ],
)
def test_a_mapped_name_can_still_be_read(name: str, kind: str, shown: str):
    face = face_name(name, kind)
    assert face == shown or re.fullmatch(re.escape(shown) + r"[a-z2-7]{8}", face)


def test_a_mapped_name_is_fixed_for_ever():
    assert face_name("weather.today", "openai") == face_name("weather.today", "anthropic")
    assert face_name("weather.today", "openai") == "weather_today_xh4qhyty"


def test_an_unknown_face_leads_nowhere():
    faces = FaceNames(["weather.today", "add"], "openai")
    assert faces.from_face("weather.today") is None
    assert faces.from_face("other") is None
    with pytest.raises(KeyError):
        faces.to_face("other")


def test_a_kind_of_a_plugin_gets_the_strictest_rule():
    assert name_rule("shout") == NAME_RULES["openai"]


@pytest.mark.parametrize("kind", list(PARAMETER_RULES))
@some
@given(names=st.sets(any_names, max_size=10))
def test_parameters_are_mapped_one_to_one_too(kind: str, names: set[str]):
    rule = PARAMETER_RULES[kind]
    faces = FaceNames(names, rule)
    shown = {faces.to_face(name) for name in names}
    assert len(shown) == len(names)
    assert all(rule.fits(face) for face in shown)


def test_ten_thousand_names_are_mapped_without_a_tie():
    names = [f"service {n}.function" for n in range(10_000)]
    faces = FaceNames(names, "openai")
    assert all(faces.to_face(name) == face_name(name, "openai") for name in names)
