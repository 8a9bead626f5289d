"""Collects what is found in one file: each finding once, and no more of them than anybody reads."""

from __future__ import annotations

from enginehost.diagnostics import Diagnostic, Severity

MOST_FINDINGS = 200
"""Findings of one file; what a damaged file has beyond them would only cost time."""

_MOST_CHARACTERS = 1000
"""Characters of a message or a hint: a key or a name of a file may be megabytes long."""


class FileFindings:
    """The findings in the file at ``path``; ``listed`` holds them in order."""

    __slots__ = ("_path", "_seen", "listed")

    def __init__(self, path: str, listed: list[Diagnostic]) -> None:
        self._path = path
        self._seen = set(listed)
        self.listed = listed

    @property
    def are_enough(self) -> bool:
        """Whether further warnings are dropped, so that nobody need think of a hint for them."""
        return len(self._seen) >= MOST_FINDINGS

    @property
    def has_errors(self) -> bool:
        """Whether something was found for which the engine must not open."""
        return any(found.severity is Severity.ERROR for found in self.listed)

    def add(self, place: tuple[int, int], severity: Severity, code: str, message: str, hint: str) -> None:
        """Add a finding at line and column ``place``. The first error is never dropped."""
        if self.are_enough and (severity is Severity.WARNING or len(self._seen) > MOST_FINDINGS):
            return
        found = Diagnostic(self._path, *place, severity, code, _shortened(message), _shortened(hint))
        if found in self._seen:
            return
        if self.are_enough and self.has_errors:
            message = f"more than {MOST_FINDINGS} findings; the others are not listed"
            found = Diagnostic(self._path, 0, 0, Severity.ERROR, "too-many-findings", message)
        self._seen.add(found)
        self.listed.append(found)


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]} …"
