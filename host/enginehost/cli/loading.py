"""``validate --load``: opens engines to see whether they can be opened."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from enginehost.agents.agent_engine import agent_behind
from enginehost.diagnostics import Diagnostic, Severity
from enginehost.engine import IFunctionEngine
from enginehost.loader import Loaded, Loader
from enginehost.patience import Impatient, within

AT_ONCE = 2
"""Engines that are opened at the same time; a worker process loads one."""


def open_all(loader: Loader, made: Sequence[Loaded], timeout: float) -> list[Diagnostic]:
    """What is found by opening the engines, each for ``timeout`` seconds at most, and closing them again."""
    return asyncio.run(_open_all(loader, made, timeout))


async def _open_all(loader: Loader, made: Sequence[Loaded], timeout: float) -> list[Diagnostic]:
    turns = asyncio.Semaphore(AT_ONCE)

    async def problems(loaded: Loaded) -> list[Diagnostic]:
        async with turns:
            text = await _problem(loader, loaded.engine, timeout) if loaded.engine is not None else ""
        path = str(loaded.record.path)
        if text:
            return [Diagnostic(path, 0, 0, Severity.ERROR, "open-failed", text, "mend the cause")]
        agent = agent_behind(loaded.engine)  # a class says here what of it does nothing
        doubts = agent.doubts if agent is not None else ()
        return [Diagnostic(path, 0, 0, Severity.WARNING, "no-effect", doubt) for doubt in doubts]

    return [found for listed in await asyncio.gather(*map(problems, made)) for found in listed]


async def _problem(loader: Loader, engine: IFunctionEngine, timeout: float) -> str:
    try:
        patience = getattr(engine, "open_seconds", None) or timeout
        await within(engine.open(), patience, "opening the engine")
    except Impatient as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - the plugin boundary: it may raise anything
        return loader.explain(error)
    finally:
        await within(engine.close(), timeout, "closing the engine")
    return ""
