"""What an import tells: a table and what was found, or JSON."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from enginehost.cli.output import counted, emphasised, escaped, print_json, print_table, printable, say
from enginehost.cli.secrecy import masked, masked_findings
from enginehost.cli.semoss.judging import Judged, Verdict
from enginehost.cli.semoss.placing import Action
from enginehost.cli.semoss.survey import Note
from enginehost.diagnostics import Diagnostic, Severity

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow"}


@dataclass(frozen=True, slots=True)
class Report:
    """What came of an import. ``loaded``: whether the code was loaded to judge it."""

    source: str
    target: str
    files: Sequence[tuple[Judged, Action]]
    notes: Sequence[Note]
    dry_run: bool
    loaded: bool

    @property
    def failed(self) -> bool:
        """Whether something that was to come did not: the exit code is 1 then."""
        if all(one.verdict is Verdict.OTHER for one, _ in self.files):
            return True
        return any(one.verdict is Verdict.CANNOT or action is Action.KEPT for one, action in self.files)


def print_report(report: Report, *, as_json: bool) -> None:
    """Print it on standard output."""
    if as_json:
        print_json(_to_json(report))
        return
    rows = [_row(one, action) for one, action in report.files]
    print_table(("FILE", "FUNCTION", "VERDICT", "ACTION"), rows)
    _print_findings(report.files)
    for note in report.notes:
        _print_note(note)
    say()
    for line in _summary(report):
        say(line)


def _to_json(report: Report) -> dict[str, Any]:
    counts = Counter(one.verdict for one, _ in report.files)
    return {
        "source": report.source,
        "to": report.target,
        "dry_run": report.dry_run,
        "loaded": report.loaded,
        "runs": counts[Verdict.RUNS],
        "warnings": counts[Verdict.WARNINGS],
        "cannot": counts[Verdict.CANNOT],
        "other": counts[Verdict.OTHER],
        "files": [_file_to_json(one, action) for one, action in report.files],
        "notes": [note._asdict() for note in report.notes],
    }


def _file_to_json(judged: Judged, action: Action) -> dict[str, Any]:
    return {
        "file": judged.shown,
        "verdict": judged.verdict,
        "action": action,
        "engine": judged.engine_id,
        "kind": judged.kind,
        "functions": list(judged.functions),
        "reason": masked(judged.reason),
        "keys_without_effect": list(judged.without_effect),
        "diagnostics": [found.to_json() for found in masked_findings(judged.findings)],
    }


def _row(judged: Judged, action: Action) -> tuple[str, str, str, str]:
    other = judged.gathered.found.other_type
    verdict = f"{judged.verdict} ({other})" if other else str(judged.verdict)
    return judged.shown, ", ".join(judged.functions) or "-", verdict, action


def _print_findings(files: Iterable[tuple[Judged, Action]]) -> None:
    for one, action in files:
        if one.verdict is not Verdict.OTHER:
            for found in masked_findings(one.findings):
                _print_found(found)
        if one.without_effect:
            say(f"{escaped(one.shown)}: without effect here: {', '.join(map(escaped, one.without_effect))}")
        if action is Action.KEPT:
            say(f"{escaped(one.shown)}: something else of that name or id is there; --force replaces files of"
                " the same name")  # fmt: skip


def _print_found(found: Diagnostic) -> None:
    word = emphasised(str(found.severity), sys.stdout, _COLOURS[found.severity])
    place = f"{escaped(found.path)}:{found.line}:{found.column}" if found.line else escaped(found.path)
    say(f"{place}: {word}: {printable(found.message)} [{found.code}]")
    if found.hint:
        say(f"    hint: {printable(found.hint)}")


def _print_note(note: Note) -> None:
    start = f"{escaped(note.path)}: " if note.path else ""
    say(f"{start}{printable(note.message)}")
    if note.hint:
        say(f"    hint: {printable(note.hint)}")


def _summary(report: Report) -> Iterator[str]:
    counts = Counter(one.verdict for one, _ in report.files)
    verdicts = (f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    yield f"{counted(len(report.files), 'file')}: {', '.join(verdicts)}"
    actions = Counter(action for _, action in report.files)
    done = ", ".join(f"{actions[action]} {action}" for action in Action if actions[action])
    target = escaped(report.target)
    yield f"{'dry run, nothing was written; ' if report.dry_run else ''}into {target}: {done}"
    if not report.loaded:
        yield "their code was not loaded (--no-load), so whether it does is not known"
