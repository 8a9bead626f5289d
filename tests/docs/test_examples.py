"""Every command, program, file and output in the documentation is as a reader finds it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from enginehost.catalog import EngineRecord
from enginehost.engine import HostAccess
from enginehost.loader import Loader, sources
from enginehost.plugins import PluginRegistry
from enginehost.redaction import Redactor
from enginehost.secrets import Secrets

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = {"sh", "python", "properties", "json", "yaml", "toml", "text", "xml"}

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)

# What a fragment of a file is read with, so that it is a whole one.
PYTHON = {
    "ENGINE_CLASS": "LocalPython",
    "PYTHON_SCRIPT_PATH": "scripts/math_tools.py",
    "FUNCTION_PARAMETERS": '[{"name": "a", "required": true}, {"name": "b", "required": true}]',
}
REST = {"ENGINE_CLASS": "REST", "API_ENDPOINT_URL": "http://127.0.0.1:8585/"}
SIGNATURE = {"FUNCTION_NAME": "add", "FUNCTION_DESCRIPTION": "A function."}
REST_MARKS = ("API_", "AUTH", "HEADERS", "HTTP_METHOD", "PARAMETER_PLACEMENT", "RESPONSE_", "BODY_", "QUERY_")


@every_page
def test_a_reader_who_follows_the_page_sees_what_it_shows(page: Path, follow: Callable[[str], None]) -> None:
    follow(page.read_text(encoding="utf-8"))


@every_page
def test_every_block_has_a_language_and_is_well_formed(
    page: Path, read_blocks: Callable[[str], list[Any]]
) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = read_blocks(text)
    assert len(re.findall(r"^```", text, re.MULTILINE)) == 2 * sum(1 + bool(b.output) for b in blocks)
    for block in blocks:
        assert block.language in LANGUAGES, f"line {block.line}: {block.language!r}"
        if block.language == "json" and "…" not in block.text:
            json.loads(block.text)
        if block.language == "yaml":
            yaml.safe_load(block.text)
        if block.language == "python":
            compile(block.text, f"{page.name}:{block.line}", "exec")


@every_page
def test_every_smss_example_loads_without_a_finding(
    page: Path, read_blocks: Callable[[str], list[Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocks = read_blocks(page.read_text(encoding="utf-8"))
    folder = tmp_path / "smss"
    for block in blocks:
        if block.file_name and block.language in ("python", "yaml"):
            (tmp_path / block.file_name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.file_name).write_text(block.text)
    for script in (ROOT / "smss" / "scripts").glob("*.py"):
        (folder / "scripts").mkdir(parents=True, exist_ok=True)
        (folder / "scripts" / script.name).write_bytes(script.read_bytes())
    for block in blocks:
        if block.language == "properties":
            record = _loaded(block, folder, monkeypatch)
            assert [str(found) for found in record.diagnostics] == [], f"line {block.line}"


def _loaded(block: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> EngineRecord:
    """The block as a file; a fragment gets what it lacks, and each outside value is given."""
    text = block.text
    keys = {re.split(r"[=\t:]", line, maxsplit=1)[0].strip() for line in text.splitlines()}
    base: dict[str, str] = {}
    if not keys & {"ENGINE_CLASS", "ENGINE_TYPE"}:
        base = REST if any(key.startswith(REST_MARKS) for key in keys) else PYTHON
        base = base | SIGNATURE
    text = "".join(f"{key} = {value}\n" for key, value in base.items() if key not in keys) + text
    for kind, name in re.findall(r"\$\{(env|secret|file):([^}:]+)", text):
        prefix = {"env": "", "secret": "ENGINEHOST_SECRET_", "file": ""}[kind]
        monkeypatch.setenv(prefix + re.sub(r"\W", "_", name).upper(), "https://example.org")
        if kind == "file":
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("value")
    redactor = Redactor()
    secrets = Secrets(redactor=redactor)
    access = HostAccess(in_process_python=True)
    loader = Loader(PluginRegistry(), secrets, sources(secrets, folder), access, redactor, lambda _: None)
    path = folder.parent / block.file_name if block.file_name else folder / "fragment.smss"
    return loader.load_text(text.encode(), path).record
