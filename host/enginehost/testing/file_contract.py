# ruff: noqa: S101 - a conformance suite is made of asserts
"""What the conformance suites share: checks of an engine's file, its keys and its life."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from enginehost.diagnostics import Severity
from enginehost.engine import HostAccess
from enginehost.host import Host
from enginehost.plugins import EngineClass
from enginehost.testing.engines import FILE_NAME, engine_registry, load_engine, make_engine, running_host

LEFTOVER_SECONDS = 30.0
"""How long threads and processes of a closed engine may take to go, on a machine as busy as may be."""


class FileContract:
    """The base of the suites. Subclasses set :attr:`engine_class` and :attr:`smss`."""

    engine_class: ClassVar[EngineClass]

    smss: str
    """A file that this engine opens without a finding."""

    concurrency: ClassVar[int] = 20
    """How many run at once in the test of concurrency."""

    access: ClassVar[HostAccess] = HostAccess()
    """What the host allows the engine."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        """The host runs on asyncio."""
        return "asyncio"

    def prepare(self, folder: Path) -> None:
        """Write the files that :attr:`smss` names into ``folder``. Nothing by default."""

    def test_every_key_has_a_description(self) -> None:
        """The reference of keys is made of the configuration model."""
        model = self.engine_class.config_model
        fields = model.model_fields if model else {}
        assert not [name for name, field in fields.items() if not (field.description or "").strip()]

    def test_an_unknown_key_is_a_warning(self, tmp_path: Path) -> None:
        """A key that nobody reads is pointed out, and the engine opens."""
        if getattr(self.engine_class, "accepts_any_key", False):
            pytest.skip("does not apply: the engine takes any key")
        self.prepare(tmp_path)
        text = f"{self.smss}\nNOBODY_READS_THIS_KEY = 1\n"
        loaded = load_engine(self.engine_class, text, tmp_path, access=self.access)
        (found,) = loaded.record.diagnostics
        assert (found.severity, found.code) == (Severity.WARNING, "unknown-key")
        assert loaded.engine is not None

    async def test_closing_twice_or_unopened_does_no_harm(self, tmp_path: Path) -> None:
        """``close`` may follow a failed ``open``, or another ``close``."""
        self.prepare(tmp_path)
        engine = make_engine(self.engine_class, self.smss, tmp_path, access=self.access)
        await engine.close()
        engine = make_engine(self.engine_class, self.smss, tmp_path, access=self.access)
        await engine.open()
        await engine.close()
        await engine.close()

    @asynccontextmanager
    async def _opened(self, folder: Path) -> AsyncGenerator[Any, None]:
        self.prepare(folder)
        engine = make_engine(self.engine_class, self.smss, folder, access=self.access)
        await engine.open()
        try:
            yield engine
        finally:
            await engine.close()

    @asynccontextmanager
    async def _host(self, folder: Path) -> AsyncGenerator[Host, None]:
        smss = folder / "smss"
        smss.mkdir(exist_ok=True)
        self.prepare(smss)
        (smss / FILE_NAME).write_text(self.smss, encoding="utf-8")
        registry = engine_registry(self.engine_class, self.smss)
        access = {
            "in_process_python": self.access.in_process_python,
            "private_networks": self.access.private_networks,
        }
        async with running_host(smss, registry=registry, **access) as host:
            assert host.functions() or host.models(), host.problems()
            yield host


def secrets_in(config: Any) -> list[str]:
    """The values of an engine's ``SecretStr`` keys, but for those too short to be looked for."""
    from pydantic import BaseModel, SecretStr

    if not isinstance(config, BaseModel):
        return []
    values = [getattr(config, name) for name in type(config).model_fields]
    texts = [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
    return [text for text in texts if len(text) >= 4]
