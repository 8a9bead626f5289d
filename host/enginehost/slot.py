"""One smss file as the host keeps it: the version that serves, one on its way, the files both depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from enginehost.catalog import EngineRecord
from enginehost.engine import EngineState, IFunctionEngine
from enginehost.folder import Fingerprint, fingerprint
from enginehost.loader import watched_by

Watched = dict[Path, Fingerprint | None]
"""Files that an engine depends on besides its own, each as it was when it was looked at."""


@dataclass(slots=True, eq=False)
class Slot:
    """One file and the version of it that serves."""

    path: Path
    fingerprint: Fingerprint
    declared_id: str = ""
    record: EngineRecord | None = None
    """What the catalog shows: the version that serves, or the one that failed."""
    coming: EngineRecord | None = None
    """A version that serves as soon as the catalog has it."""
    watched: Watched = field(default_factory=Watched)
    generation: int = 0
    unmade: bool = False
    """Whether the file as it is now gives no engine."""
    changed: bool = False
    """Whether an engine said that its functions changed before it served."""
    before: tuple[EngineState, str] = (EngineState.READY, "")
    """Where the engine was when it said that it cannot serve."""

    def watch(self, engine: IFunctionEngine) -> None:
        """Ask the engine that serves which files it depends on now."""
        self.watched = watched_now(engine, self.watched)

    def watch_with_former(self, watched: Watched) -> None:
        """Watch a coming version's files and those of the one before: any may be the one to be mended."""
        former = {path: fingerprint(path) for path in self.watched if path not in watched}
        self.watched = former | watched


def watched_now(engine: IFunctionEngine, seen: Mapping[Path, Fingerprint | None]) -> Watched:
    """The files an engine depends on; former ones as they were seen, so that no change goes unnoticed."""
    return {path: seen.get(path, now) for path, now in watched_by(engine).items()}
