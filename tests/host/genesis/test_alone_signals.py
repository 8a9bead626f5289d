"""Services of one program that wait for a signal leave none of their handlers behind."""

from __future__ import annotations

import signal
from contextlib import ExitStack

import pytest

from enginehost.genesis.alone import _until_a_signal


@pytest.mark.parametrize("first_out", [0, 1])
async def test_in_whatever_order_they_end_the_handler_of_before_is_back(first_out: int) -> None:
    before = signal.getsignal(signal.SIGTERM)
    stacks = [ExitStack(), ExitStack()]
    for stack in stacks:
        stack.enter_context(_until_a_signal())
    assert signal.getsignal(signal.SIGTERM) is not before
    stacks[first_out].close()
    stacks[1 - first_out].close()
    assert signal.getsignal(signal.SIGTERM) is before
