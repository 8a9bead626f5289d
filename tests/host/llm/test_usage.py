"""What providers say of tokens, as far as it makes sense."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from enginehost.llm.message import Usage
from enginehost.llm.usage import dollars, sensible, tokens

ANYTHING: Any = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers())
)


@given(ANYTHING)
def test_a_count_is_a_whole_number_from_zero_on(value: Any) -> None:
    found = tokens(value)
    assert type(found) is int
    assert 0 <= found <= 10**15
    if type(value) is int and 0 <= value <= 10**15:
        assert found == value


@given(ANYTHING)
def test_a_cost_is_a_number_from_zero_on_or_unknown(value: Any) -> None:
    found = dollars(value)
    assert found is None or 0 <= found < float("inf")
    if type(value) is int and 0 <= value < 2**53:
        assert found == value


def test_an_engine_s_usage_is_made_sensible() -> None:
    odd: Any = Usage(input=5, output=-4, cached="7", cost=-1.0, model="m")  # type: ignore[arg-type]
    assert sensible(odd) == Usage(input=5, model="m")
