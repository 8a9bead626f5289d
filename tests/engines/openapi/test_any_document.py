"""Property: whatever stands where, a document is imported, left out in parts, or refused; never a crash."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginehost.errors import ConfigError

DOCUMENTS = Path(__file__).parent / "documents"
WHOLE = [yaml.safe_load((DOCUMENTS / name).read_text()) for name in ("petstore-3.0.yaml", "tree-3.1.yaml")]
JUNK: Any = st.sampled_from(
    [
        None,
        True,
        0,
        -1.5,
        "",
        "x",
        "{",
        "/a/{",
        [],
        {},
        [[]],
        [1],
        {"a": 1},
        {"$ref": "#/"},
        {"$ref": 1},
        "#",
        "\x00",
        {"$ref": "#/paths/~1pets/get"},
        {"type": "object", "properties": 3},
        {"allOf": [{"allOf": []}]},
        [None, {}],
        "é ü",
    ]
)


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [here]
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, member in members:
        found += places(member, (*here, key))
    return found


PLACES = [places(one)[1:] for one in WHOLE]


@st.composite
def documents(draw: Any) -> dict[str, Any]:
    """One of the documents with junk in up to three places."""
    number = draw(st.integers(0, len(WHOLE) - 1))
    value = copy.deepcopy(WHOLE[number])
    for place in draw(st.lists(st.sampled_from(PLACES[number]), min_size=1, max_size=3)):
        part = value
        try:
            for key in place[:-1]:
                part = part[key]
            part[place[-1]] = copy.deepcopy(draw(JUNK))  # a later place may lie in it
        except (KeyError, IndexError, TypeError):
            continue  # an earlier junk took the place away
    return value


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=documents())
def test_junk_anywhere_costs_only_what_it_is_in(kit: Any, tmp_path: Path, document: dict[str, Any]) -> None:
    from enginehost_engines.openapi.importer import imported
    from enginehost_engines.openapi.operations import Selection

    try:
        made = imported(kit.load(document, tmp_path), Selection())
    except ConfigError:
        return
    for file in made.files:
        json.dumps([note.to_json() for note in file.notes])
        file.text.encode()
