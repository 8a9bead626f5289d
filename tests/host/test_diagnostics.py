"""How a finding reads for people, machines and GitHub."""

from __future__ import annotations

import json
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.diagnostics import Diagnostic, Severity

diagnostics = st.builds(
    Diagnostic,
    path=st.text(min_size=1),
    line=st.integers(0, 9999),
    column=st.integers(0, 9999),
    severity=st.sampled_from(Severity),
    code=st.from_regex(r"[a-z]+(-[a-z]+)*", fullmatch=True),
    message=st.text(min_size=1),
    hint=st.text(),
)


def unescaped(text: str) -> str:
    for raw, escaped in ((",", "%2C"), (":", "%3A"), ("\n", "%0A"), ("\r", "%0D"), ("%", "%25")):
        text = text.replace(escaped, raw)
    return text


def shown(text: str) -> str:
    """A text as a terminal may get it: what would steer it is spelt out, line ends are GitHub's."""
    return "".join(c if c.isprintable() or c in "\r\n" else ascii(c)[1:-1] for c in text)


@given(found=diagnostics)
@settings(max_examples=150, deadline=None)
def test_no_text_breaks_out_of_a_github_annotation(found: Diagnostic) -> None:
    command = found.to_github()
    assert command.isprintable()
    match = re.fullmatch(
        r"::(error|warning) file=([^,:]*),line=(\d+),col=(\d+),title=([^,:]*)::(.*)", command, re.DOTALL
    )
    assert match is not None
    severity, path, line, column, code, text = match.groups()
    assert (severity, unescaped(path), code) == (found.severity, shown(found.path), found.code)
    assert (int(line), int(column)) == (found.line or 1, found.column or 1)
    assert unescaped(text) == shown(f"{found.message} ({found.hint})" if found.hint else found.message)


@given(found=diagnostics)
@settings(max_examples=50, deadline=None)
def test_a_finding_comes_back_from_json(found: Diagnostic) -> None:
    body = json.loads(json.dumps(found.to_json()))
    assert Diagnostic(**body | {"severity": Severity(body["severity"])}) == found


def test_a_finding_reads_as_a_compiler_would_say_it() -> None:
    found = Diagnostic("a.smss", 3, 7, Severity.ERROR, "bad-type", "URL is no URL", "begin with https://")
    assert str(found) == "a.smss:3:7: error: URL is no URL [bad-type]\n    hint: begin with https://"
    assert str(Diagnostic("a.smss", 0, 0, Severity.WARNING, "x", "y")) == "a.smss: warning: y [x]"
