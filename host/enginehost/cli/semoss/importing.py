"""The import as a whole: source → copy aside → verdicts → places."""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from enginehost.cli.failures import CommandError
from enginehost.cli.semoss.archives import unpack
from enginehost.cli.semoss.gather import gather, tidy
from enginehost.cli.semoss.judging import judge
from enginehost.cli.semoss.placing import Action, decide, delete, neighbours, place, settle_ids, state
from enginehost.cli.semoss.report import Report
from enginehost.cli.semoss.survey import survey
from enginehost.folder import is_smss
from enginehost.settings import load_settings

_ASIDE = ".enginehost-import-"
"""How the folder begins in which everything is made ready; hidden, so no host looks into it."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """How to import. ``everything``: also what cannot run; ``load``: run code to judge it."""

    dry_run: bool = False
    force: bool = False
    everything: bool = False
    load: bool = True
    config: Path | None = None


def import_semoss(source: Path, target: Path, wishes: Wishes) -> Report:
    """Import a folder or an archive into the folder ``target``, which is made where it is missing.

    Raises :class:`~enginehost.cli.failures.CommandError` for a source that is none, and ``OSError`` where
    files cannot be written; the target is as it was then.
    """
    _require(source, target)
    with _stoppable(), _made(target, wishes) as aside:
        return _import(source, target, aside, wishes)


def _import(source: Path, target: Path, aside: Path, wishes: Wishes) -> Report:
    ready, old = aside / "ready", aside / "old"
    ready.mkdir()
    old.mkdir()
    root = source if source.is_dir() else _unpacked(source, aside)
    seen = survey(root)
    if not seen.found:
        hint = "name SEMOSS's folder `function`, or an archive that it exported"
        raise CommandError(f"there is no smss file in {source}", hint=hint)
    gathered = gather(seen.found, ready, root, seen.notes)
    has = [
        Action.UNCHANGED if root.resolve() == target.resolve() else state(one, ready, target)
        for one in gathered
    ]
    settings = load_settings(target, config=wishes.config)
    judged = judge(gathered, ready, settings, load=wishes.load, everything=wishes.everything)
    tidy(ready)
    wanted = [
        decide(one, what, everything=wishes.everything, force=wishes.force)
        for one, what in zip(judged, has, strict=True)
    ]
    actions = settle_ids(zip(judged, wanted, strict=True), target, neighbours(target))
    files = list(zip(judged, actions, strict=True))
    if not wishes.dry_run:
        place(files, ready, target, old)
    return Report(str(source), str(target), files, seen.notes, wishes.dry_run, wishes.load)


def _require(source: Path, target: Path) -> None:
    """Raise :class:`CommandError` for a source or a target that makes no sense."""
    if not source.exists():
        raise CommandError(f"there is no {source}", hint="name a folder, or a ZIP archive, of SEMOSS's")
    if not source.is_dir() and not source.is_file():
        raise CommandError(f"{source} is neither a folder nor a file")
    if is_smss(source) and source.is_file():
        raise CommandError(f"{source} is a single file", hint="name the folder it lies in")
    if target.exists() and not target.is_dir():
        raise CommandError(f"{target} is no folder", hint="--to names the folder that a host serves")
    if source.is_dir():
        inner, outer = target.resolve(), source.resolve()
        if inner != outer and (inner.is_relative_to(outer) or outer.is_relative_to(inner)):
            message = f"{source} and {target} lie in one another"
            raise CommandError(message, hint="a host serves all below its folder; import to another")


class _Stopped(KeyboardInterrupt):
    """SIGTERM came. Event loops let it through; ``SystemExit`` would be taken for a script's own."""


@contextmanager
def _stoppable() -> Generator[None]:
    """SIGTERM ends the process as Ctrl+C does: what was begun is undone before."""

    def stop(*_: object) -> None:
        raise _Stopped

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except _Stopped:
        sys.exit(128 + signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _made(target: Path, wishes: Wishes) -> Generator[Path]:
    """A folder to make everything ready in, on the disk of the target; a dry run leaves that alone."""
    new: list[Path] = []
    if not wishes.dry_run:
        new = [folder for folder in (target, *target.parents) if not folder.exists()]
        target.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=None if wishes.dry_run else target))
    try:
        yield aside
    finally:
        delete(aside)
        for folder in new:
            if any(folder.iterdir()):
                break
            folder.rmdir()


def _unpacked(archive: Path, aside: Path) -> Path:
    root = aside / "archive"
    root.mkdir()
    unpack(archive, root)
    return root


__all__ = ["Action", "Report", "Wishes", "import_semoss"]
