"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from enginehost.testing.fixtures import dds_domain, smss_folder

__all__ = ["dds_domain", "smss_folder"]


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
