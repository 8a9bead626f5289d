"""Engines and plugins use public names of ``enginehost`` only: what ours can do, a stranger's can."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PUBLIC = {
    "enginehost",
    "enginehost.agents.contract",
    "enginehost.agents.facts",
    "enginehost.agents.harnesses",
    "enginehost.agents.python_agent",
    "enginehost.agents.stages",
    "enginehost.breaker",
    "enginehost.config",
    "enginehost.diagnostics",
    "enginehost.engine",
    "enginehost.errors",
    "enginehost.importing",
    "enginehost.llm.arriving",
    "enginehost.llm.blocks",
    "enginehost.llm.body",
    "enginehost.llm.claude",
    "enginehost.llm.config",
    "enginehost.llm.exchange",
    "enginehost.llm.failures",
    "enginehost.llm.http_engine",
    "enginehost.llm.message",
    "enginehost.llm.model",
    "enginehost.llm.outgoing",
    "enginehost.llm.passage",
    "enginehost.llm.sse",
    "enginehost.llm.structured",
    "enginehost.llm.usage",
    "enginehost.public_addresses",
    "enginehost.reactor",
    "enginehost.signature",
    "enginehost.specs",
    "enginehost.testing",
    "enginehost.testing.fixtures",
    "enginehost.testing.strategies",
    "enginehost.testing.wire",
    "enginehost.tracebacks",
    "enginehost.validation",
    "enginehost.values",
    "enginehost.yaml_document",
}
FOR_PLUGINS = PUBLIC | {"enginehost.databus", "enginehost.databus.types", "enginehost.hooks"}
"""Beside engines a plugin adds transports and what else the hooks say."""
HOST = ROOT / "host" / "enginehost"
OWN = {
    f"enginehost.{'.'.join(path.relative_to(HOST).with_suffix('').parts).removesuffix('.__init__')}"
    for folder in ("client", "integrations")
    for path in (HOST / folder).rglob("*.py")
}
"""The modules of what stands beside the host's floors: they know each other."""
SOURCES = [
    *((path, PUBLIC) for folder in ("engines", "smss") for path in (ROOT / folder).rglob("*.py")),
    *((path, FOR_PLUGINS) for path in (ROOT / "plugins").rglob("*.py")),
    *((path, PUBLIC | OWN) for name in ("client", "integrations") for path in (HOST / name).rglob("*.py")),
]
OF_EVERY_MODULE = {"__file__", "__version__"}


def used(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Module and name of everything that a source takes from the host, also where only types are checked."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names if node.level == 0)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("enginehost."):
            module, _, name = ast.unparse(node).rpartition(".")
            yield module, name


def faults(source: str, public: set[str]) -> list[str]:
    """The names that are not public, as the source has them."""
    found: list[str] = []
    for module, name in used(ast.parse(source)):
        if module.partition(".")[0] != "enginehost":
            continue
        whole = f"{module}.{name}".removesuffix(".")
        if whole not in public and not (module in public and is_public(module, name)):
            found.append(whole)
    return found


def is_public(module: str, name: str) -> bool:
    """Whether ``module`` offers ``name``: in its ``__all__``, else as one that it defines."""
    found = import_module(module)
    offered = getattr(found, "__all__", None)
    if offered is None:
        offered = defined(ast.parse(inspect.getsource(found)))
    return name in OF_EVERY_MODULE or name in offered


def defined(tree: ast.Module) -> set[str]:
    """The names of a module that are its own, or that it takes on purpose (``Code as Code``)."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(target.id for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.ImportFrom):
            names.update(alias.name for alias in node.names if alias.asname == alias.name)
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize(
    ("path", "public"), SOURCES, ids=[path.relative_to(ROOT).as_posix() for path, _ in SOURCES]
)
def test_only_public_names_are_used(path: Path, public: set[str]) -> None:
    assert faults(path.read_text(encoding="utf-8"), public) == []


def test_there_is_something_to_look_at() -> None:
    folders = {path.relative_to(ROOT).parts[0] for path, _ in SOURCES}
    assert folders == {"engines", "host", "plugins", "smss"}


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("from enginehost import Call, EngineContext", None),
        ("from enginehost import host", "enginehost.host"),
        ("from enginehost.host import Host", "enginehost.host.Host"),
        ("import enginehost.interpret", "enginehost.interpret"),
        ("import enginehost\nenginehost.__file__", None),
        ("import enginehost\nenginehost.loader.Loader", "enginehost.loader"),
        ("from enginehost import engine", None),
        ("from enginehost.engine import _shape", "enginehost.engine._shape"),
        ("from enginehost.config import _report", "enginehost.config._report"),
        ("from enginehost.config import Code, EngineConfig, config_of", None),
        ("from enginehost.config import Declaration", "enginehost.config.Declaration"),
        ("from enginehost.values import _wire", "enginehost.values._wire"),
        ("if TYPE_CHECKING:\n    from enginehost.record import CallRecord", "enginehost.record.CallRecord"),
        ("def late():\n    from enginehost.substitute import Sources", "enginehost.substitute.Sources"),
        ("import enginehost_engines.rest, json", None),
    ],
)
def test_what_is_not_public_is_found(source: str, fault: str | None) -> None:
    assert (fault in faults(source, PUBLIC)) if fault else faults(source, PUBLIC) == []
