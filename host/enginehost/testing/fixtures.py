"""pytest fixtures: ``pytest_plugins = ["enginehost.testing.fixtures"]`` in the top-level ``conftest.py``."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def smss_folder(tmp_path: Path) -> Path:
    """An empty folder for smss files."""
    folder = tmp_path / "smss"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def dds_domain() -> Iterator[int]:
    """A DDS domain that no other test process of this machine uses meanwhile.

    Domains from 100 on reach into the ports that the system gives out by itself.
    """
    fcntl = pytest.importorskip("fcntl")
    first = os.getpid()
    for candidate in (1 + (first + step) % 99 for step in range(99)):
        path = Path(tempfile.gettempdir()) / f"enginehost-dds-domain-{candidate}.lock"
        try:
            file = path.open("w")
        except OSError:  # another user's
            continue
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            yield candidate
            return
    pytest.fail("all DDS domains below 100 are in use by other tests")
