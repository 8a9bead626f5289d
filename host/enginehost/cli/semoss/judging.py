"""Loads what was gathered, and says of each file whether it runs here. Nothing is called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from enginehost.cli.checking import loader_of
from enginehost.cli.loading import open_all
from enginehost.cli.semoss.advice import advice, advice_on_load
from enginehost.cli.semoss.doubts import DOUBTS, keys_without_effect, warn_of_guardrails, warn_of_secrets
from enginehost.cli.semoss.gather import Gathered
from enginehost.cli.semoss.survey import NOTHING
from enginehost.diagnostics import Diagnostic, Severity
from enginehost.interpret import interpret
from enginehost.loader import MAX_FILE_BYTES, UNSUPPORTED, Loaded, Loader
from enginehost.plugins import DottedClass, PluginRegistry, Registered
from enginehost.regular_file import read_regular
from enginehost.settings import HostSettings

_OPEN_FAILED = "open-failed"
_SEE_NOTES = "what is said of its path below tells why"


class Verdict(StrEnum):
    """What is to be expected of a file; of SEMOSS's other types nobody expects a function."""

    RUNS = "runs"
    WARNINGS = "runs with warnings"
    CANNOT = "cannot"
    OTHER = "other type"


@dataclass(slots=True)
class Judged:
    """A file with its verdict. The paths of ``findings`` are those of the source, from its top."""

    gathered: Gathered
    engine_id: str = ""
    kind: str = ""
    functions: tuple[str, ...] = ()
    findings: list[Diagnostic] = field(default_factory=list)
    without_effect: Sequence[str] = ()

    @property
    def shown(self) -> str:
        """The file's path from the top of the source."""
        return self.gathered.found.shown

    @property
    def verdict(self) -> Verdict:
        """What is to be expected of the file."""
        if self.gathered.found.other_type:
            return Verdict.OTHER
        if any(found.severity is Severity.ERROR for found in self.findings):
            return Verdict.CANNOT
        return Verdict.WARNINGS if self.findings else Verdict.RUNS

    @property
    def reason(self) -> str:
        """Why it cannot, or why nobody expects it to; else empty."""
        wanted = Severity.WARNING if self.verdict is Verdict.OTHER else Severity.ERROR
        return next((found.message for found in self.findings if found.severity is wanted), "")

    def tell(self, severity: Severity, code: str, message: str, hint: str = "") -> None:
        """Add a finding about the file as a whole."""
        self.findings.append(Diagnostic(self.shown, 0, 0, severity, code, message, hint))


def judge(
    gathered: Sequence[Gathered], ready: Path, settings: HostSettings, *, load: bool, everything: bool
) -> list[Judged]:
    """The verdicts, in the order of ``gathered``, whose copies lie in ``ready``.

    With ``load`` the code of the engines is run as it is when a host loads it: in worker processes.
    ``everything``: doubts are told of files too that cannot run.
    """
    registry = PluginRegistry()
    loader = loader_of(settings, ready, registry)
    judged = [Judged(one) for one in gathered]
    loaded: list[tuple[Judged, Loaded]] = []
    for one in judged:
        if one.gathered.found.other_type:
            _judge_other(one)
        elif one.gathered.clash:
            message = f"{one.gathered.clash} has the same name, and came first"
            one.tell(Severity.ERROR, "same-name", message, "rename one of the two, and its folder")
        elif (made := loader.load(one.gathered.file, reloading=load)) is not None:
            _judge_loaded(one, made, ready)
            if made.engine is not None or everything:
                _doubt(one, ready, registry)
            loaded.append((one, made))
        else:
            one.tell(Severity.ERROR, "unreadable", "the file could not be copied", _SEE_NOTES)
    if load:
        _open(loaded, loader, settings, ready)
    return judged


def _judge_other(judged: Judged) -> None:
    kind = judged.gathered.found.other_type
    message = f"a SEMOSS {kind} engine offers no function here"
    judged.tell(Severity.WARNING, UNSUPPORTED, message)


def _judge_loaded(judged: Judged, loaded: Loaded, ready: Path) -> None:
    record = loaded.record
    judged.engine_id, judged.kind = record.engine_id, record.kind
    judged.functions = tuple(function.signature.name for function in loaded.functions)
    if not judged.functions and record.declared is not None:
        judged.functions = (record.declared.name,)
    judged.findings += [_as_shown(found, judged, ready) for found in record.diagnostics]
    judged.findings = [_advised(found, record.kind, _folders(judged, ready)) for found in judged.findings]
    for path in loaded.watched:
        if not path.resolve().is_relative_to(ready.resolve()):
            message = f"it needs {path.name}, which lies outside the engine's folder and is not imported"
            judged.tell(Severity.ERROR, "script-outside", message, "put it into the engine's folder")


def _folders(judged: Judged, ready: Path) -> list[Path]:
    return [ready / name for name in judged.gathered.names if (ready / name).is_dir()]


def _doubt(judged: Judged, ready: Path, registry: PluginRegistry) -> None:
    """Add what a person should know besides."""
    file = judged.gathered.file
    declaration = interpret(read_regular(file, MAX_FILE_BYTES), file, NOTHING)
    resolution = registry.resolve_engine_class(declaration.engine_class)
    model = None
    if isinstance(resolution, Registered | DottedClass):
        alias = resolution.alias if isinstance(resolution, Registered) else resolution.runner
        model = registry.engine_class(alias.name).config_model
    judged.without_effect = keys_without_effect(declaration, model)
    warn_of_secrets(declaration)
    warn_of_guardrails(declaration, _folders(judged, ready))
    doubts = [found for found in declaration.diagnostics if found.code in DOUBTS]
    judged.findings += [replace(found, path=judged.shown) for found in doubts]


def _open(
    loaded: Sequence[tuple[Judged, Loaded]], loader: Loader, settings: HostSettings, ready: Path
) -> None:
    """Open the engines that may run, and add what keeps them from it."""
    sound = [(one, made) for one, made in loaded if one.verdict is not Verdict.CANNOT]
    by_path = {str(made.record.path): one for one, made in sound}
    for found in open_all(loader, [made for _, made in sound], settings.open_timeout):
        judged = by_path[found.path]
        shown = _as_shown(found, judged, ready)
        if shown.code == _OPEN_FAILED and (hint := advice_on_load(shown.message)):
            shown = replace(shown, hint=hint)
        judged.findings.append(shown)


def _as_shown(found: Diagnostic, judged: Judged, ready: Path) -> Diagnostic:
    """The finding as people see it who know the source only, not where its copy lies."""

    def told(text: str) -> str:
        return text.replace(f"{ready.resolve()}/", "").replace(f"{ready}/", "")

    return replace(found, path=judged.shown, message=told(found.message), hint=told(found.hint))


def _advised(found: Diagnostic, class_name: str, folders: Iterable[Path]) -> Diagnostic:
    """The finding that nobody provides a class, with what would bring its function."""
    if found.code != UNSUPPORTED or not (text := advice(class_name, folders)):
        return found
    nearest = found.hint if found.hint.startswith("did you mean") else ""
    return replace(found, hint=f"{nearest} {text}".strip())
