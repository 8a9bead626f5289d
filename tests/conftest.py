"""What all tests share."""

from __future__ import annotations

import math
import os
import resource
import signal
import time
from collections.abc import Callable, Generator

import pytest
from hypothesis import is_hypothesis_test, settings

from enginehost.testing.fixtures import dds_domain, smss_folder

__all__ = ["dds_domain", "smss_folder"]

ROUNDS = 25
SLACK = 3

FUZZ_SECONDS = float(os.environ.get("ENGINEHOST_FUZZ_SECONDS", "0"))
"""How long ``make fuzz`` repeats the property tests, each with examples of its own every time."""
_SHARE = pytest.StashKey[float]()


def pytest_configure() -> None:
    """Whatever started the tests: Ctrl+C interrupts, and a thousand connections may be open."""
    settings.register_profile("fuzz", derandomize=False, deadline=None)
    if FUZZ_SECONDS:
        settings.load_profile("fuzz")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 16_384 if hard == resource.RLIM_INFINITY else min(16_384, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def grows_evenly() -> Callable[..., None]:
    """``grows_evenly(prepare, small, large)``: what ``prepare(size)`` gives takes work in proportion.

    No clock of a machine decides: the processor time of the large one is counted in times of the small
    one's, both at their best of a few rounds in turn. Sizes lie eight-fold apart or more; then what grows
    with their square fails by far, and a busy machine does not. ``times`` is for work that should hardly
    grow at all: how many times as much the large one may take.
    """
    return _grows_evenly


def _grows_evenly(
    prepare: Callable[[int], Callable[[], object]], small: int, large: int, times: float = math.inf
) -> None:
    assert large >= 8 * small
    most = min(times, SLACK * large / small)
    works, least = (prepare(small), prepare(large)), [math.inf, math.inf]
    for _ in range(ROUNDS):
        for number, work in enumerate(works):
            begun = time.thread_time()
            work()
            least[number] = min(least[number], time.thread_time() - begun)
        if least[1] <= most * least[0]:
            return
    pytest.fail(
        f"{large / small:g} times as much takes {least[1] / least[0]:.0f} times as long, not {most:g}"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Fuzzing is for property tests only, and each has an equal share of the time."""
    if FUZZ_SECONDS:
        others = {item for item in items if not is_hypothesis_test(getattr(item, "obj", None))}
        config.hook.pytest_deselected(items=list(others))
        items[:] = [item for item in items if item not in others]
        workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        config.stash[_SHARE] = FUZZ_SECONDS * workers / max(1, len(items))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Run a property test, and while fuzzing again and again until its share of the time is used."""
    until = time.monotonic() + pyfuncitem.config.stash.get(_SHARE, 0.0)
    done = yield
    while FUZZ_SECONDS and time.monotonic() < until:
        pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})
    return done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With ``ENGINEHOST_NO_SKIP=1`` a test that cannot run for a missing means fails."""
    report = yield
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    if report.skipped and os.environ.get("ENGINEHOST_NO_SKIP") and "does not apply" not in reason:
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be skipped: {reason}"
    return report
