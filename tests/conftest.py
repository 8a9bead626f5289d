"""What all tests share."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Generator

import pytest

from enginehost.testing.fixtures import dds_domain, smss_folder

__all__ = ["dds_domain", "smss_folder"]


def pytest_configure() -> None:
    """Whatever started the tests: Ctrl+C interrupts, and a thousand connections may be open."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 16_384 if hard == resource.RLIM_INFINITY else min(16_384, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With ``ENGINEHOST_NO_SKIP=1`` a test that cannot run for a missing means fails."""
    report = yield
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    if report.skipped and os.environ.get("ENGINEHOST_NO_SKIP") and "does not apply" not in reason:
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be skipped: {reason}"
    return report
