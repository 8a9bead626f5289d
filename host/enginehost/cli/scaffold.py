"""First files of each kind of engine: they load, and run, as they are written."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginehost.cli.example import example_call
from enginehost.cli.failures import CommandError
from enginehost.diagnostics import Diagnostic, Severity
from enginehost.errors import ConfigError
from enginehost.signature import FunctionSignature

if TYPE_CHECKING:
    from enginehost.config import ConfigKey
    from enginehost.plugins import PluginRegistry

CALL = "# Call it with  "
"""How the line of a file's head begins that has a call of the function."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")

_PYTHON_SMSS = """\
# Call it with   enginehost call {function} name=Ada
ENGINE_CLASS = LocalPython
PYTHON_SCRIPT_PATH = {module}.py

FUNCTION_NAME = {function}
FUNCTION_DESCRIPTION = Greet somebody.
FUNCTION_PARAMETERS = [ \\
    {{"name": "name", "type": "string", "description": "Whom to greet"}}, \\
    {{"name": "times", "type": "integer", "minimum": 1, "maximum": 100, "default": 1, \\
     "description": "How often"}} ]
FUNCTION_REQUIRED_PARAMETERS = ["name"]

# The JSON Schema of the result, and words by which callers choose among functions.
FUNCTION_RESULT = {{"type": "string"}}
FUNCTION_TAGS = ["example"]
"""

_PYTHON_SCRIPT = '''\
"""What {name}.smss runs: a change takes effect when this file is saved."""


def {function}(name: str, times: int = 1) -> str:
    """Greet somebody."""
    return ", ".join(["Hello"] * times) + f", {{name}}!"
'''

_REST_SMSS = """\
# Calls an endpoint over HTTP; put your own in place of this one, which asks a running host
# (`enginehost run`) about one of its functions.
# Call it with   enginehost call {function} name={function}
ENGINE_CLASS = REST

FUNCTION_NAME = {function}
FUNCTION_DESCRIPTION = What a host says of one of its functions.
FUNCTION_PARAMETERS = [ \\
    {{"name": "name", "type": "string", "minLength": 1, "description": "The function's name"}} ]
FUNCTION_REQUIRED_PARAMETERS = ["name"]
FUNCTION_TAGS = ["example"]

# {{name}} is a part of the path; what is not named here goes into the query of a GET, the body of a POST.
API_ENDPOINT_URL = http://{address}/v1/functions/{{name}}
HTTP_METHOD = GET
# HEADERS = {{"Accept": "application/json"}}
# API_KEY_HEADER_NAME = X-API-Key
# API_KEY_VALUE = ${{env:MY_API_KEY}}
# RESPONSE_PATH = /description
"""

_REACTOR_SMSS = """\
# Call it with   enginehost call {function} name=Ada
ENGINE_CLASS = Reactor
REACTOR_CLASS_NAME = {module}.{title}Reactor

FUNCTION_NAME = {function}
FUNCTION_DESCRIPTION = Greet somebody.
FUNCTION_PARAMETERS = [ \\
    {{"name": "name", "type": "string", "description": "Whom to greet"}}, \\
    {{"name": "times", "type": "integer", "minimum": 1, "maximum": 100, "description": "How often"}} ]
FUNCTION_REQUIRED_PARAMETERS = ["name"]
FUNCTION_TAGS = ["example"]
"""

_REACTOR_SCRIPT = '''\
"""What {name}.smss runs: a change takes effect when this file is saved."""

from enginehost.reactor import NounMetadata, PixelDataType, Reactor


class {title}Reactor(Reactor):
    """Greets somebody."""

    keys_to_get = ("name", "times")
    key_required = (1, 0)

    def execute(self) -> NounMetadata:
        times = self.key_value.get("times", 1)
        greeting = ", ".join(["Hello"] * times)
        return NounMetadata(f"{{greeting}}, {{self.key_value['name']}}!", PixelDataType.CONST_STRING)
'''

_TEMPLATES: Mapping[str, Mapping[str, str]] = {
    "python": {"{name}.smss": _PYTHON_SMSS, "{module}.py": _PYTHON_SCRIPT},
    "rest": {"{name}.smss": _REST_SMSS},
    "reactor": {"{name}.smss": _REACTOR_SMSS, "{module}.py": _REACTOR_SCRIPT},
}
_SAME = {"localpython": "python"}
KINDS = tuple(_TEMPLATES)
"""The kinds with a template of their own; others are written from their config model."""


@dataclass(frozen=True, slots=True)
class NewFiles:
    """File name → text of a new engine; ``missing`` is what its author has to write before it opens."""

    texts: Mapping[str, str]
    missing: tuple[Diagnostic, ...] = ()


def new_files(kind: str, name: str, folder: Path, registry: Callable[[], PluginRegistry]) -> NewFiles:
    """The files of a new engine for ``folder``. ``registry`` gives the plugins, for kinds of theirs.

    Raises :class:`CommandError` for a name that is none and a kind nobody provides, ``ConfigError`` where
    the plugin that provides it is broken.
    """
    if not _NAME.fullmatch(name):
        hint = "begin with a letter; letters, digits, _ and - may follow, 64 characters in all"
        raise CommandError(f"{name!r} is no name for a function", hint=hint)
    names = {**_names(name), "address": _address(folder)}
    templates = _TEMPLATES.get(_SAME.get(kind.lower(), kind.lower()))
    if templates is None:
        return _from_model(kind, names, folder.absolute(), registry())
    return NewFiles({file.format(**names): text.format(**names) for file, text in templates.items()})


def _address(folder: Path) -> str:
    """Where the host of ``folder`` listens, as its settings say; the default where they do not help."""
    from enginehost.address import format_address, own_side
    from enginehost.settings import HttpSettings, load_settings

    try:
        http = load_settings(folder).http
    except ConfigError:
        http = HttpSettings()
    if not http.port:
        http = HttpSettings()
    return format_address(own_side(http.host), http.port)


def write_files(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write the files into ``folder``, making it; never over one that is there (:class:`CommandError`)."""
    paths = [folder / name for name in files]
    for path in paths:
        if path.exists():
            raise CommandError(f"{path} exists already", hint="choose another name; nothing was written")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in zip(paths, files.values(), strict=True):
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    return paths


def _names(name: str) -> dict[str, str]:
    word = name.replace("-", "_")
    if iskeyword(word):  # the function cannot have that name, so the file has not either
        name = word = f"{word}_"
    # beside its smss file a script is importable: one named like a standard module would hide it
    module = f"{word}_script" if word in sys.stdlib_module_names else word
    title = "".join(part.capitalize() for part in word.split("_"))
    return {"name": name, "function": word, "module": module, "title": title}


def _from_model(kind: str, names: Mapping[str, str], folder: Path, registry: PluginRegistry) -> NewFiles:
    from enginehost.plugins import CLASS_RUNNER

    if ":" in kind or kind.casefold() == CLASS_RUNNER.casefold():
        hint = "write ENGINE_CLASS = package.module:Class into a smss file beside it"
        raise CommandError("there is no template for a class of your own", hint=hint)
    try:
        engine_class = registry.engine_class(kind)
    except ConfigError as error:
        hint = f"there are {', '.join([*KINDS, *_other_kinds(registry)])}; {error.hint}".removesuffix("; ")
        if error.reason != "unsupported-engine-class":
            raise ConfigError(error.message, hint=hint, reason=error.reason) from error
        raise CommandError(error.message, hint=hint) from error
    lines = [f"ENGINE_CLASS = {kind}", ""]
    if engine_class.requires_signature:
        lines += [
            f"FUNCTION_NAME = {names['function']}",
            "FUNCTION_DESCRIPTION = Say in one sentence what it does: models choose by it.",
            "FUNCTION_PARAMETERS = []",
            "",
        ]
    if engine_class.config_model is not None:
        lines += _model_lines(engine_class.config_model)
    text = "\n".join(lines).rstrip() + "\n"
    file = f"{names['name']}.smss"
    missing, call = _tried(text, names["function"], folder / file, registry)
    head = "# Write what is missing; `enginehost validate` says what." if missing else f"{CALL} {call}"
    return NewFiles({file: f"{head}\n{text}"}, missing)


def _tried(
    text: str, function: str, path: Path, registry: PluginRegistry
) -> tuple[tuple[Diagnostic, ...], str]:
    """What keeps the engine from opening, and a call that it takes: its class may declare parameters."""
    from enginehost.loader import folder_loader
    from enginehost.secrets import Secrets
    from enginehost.settings import HostSettings

    loader = folder_loader(registry, Secrets(), HostSettings(), path.parent, lambda _: None)
    loaded = loader.load_text(text.encode(), path)
    missing = tuple(found for found in loaded.record.diagnostics if found.severity is Severity.ERROR)
    signature = loaded.functions[0].signature if loaded.functions else FunctionSignature(function)
    return missing, example_call(signature.name, signature.parameters)


def _other_kinds(registry: PluginRegistry) -> list[str]:
    from enginehost.plugins import CLASS_RUNNER

    own = {"LocalPython", "REST", "Reactor", CLASS_RUNNER}
    return [alias.name for alias in registry.aliases() if "." not in alias.name and alias.name not in own]


def _model_lines(model: Any) -> Iterator[str]:
    from enginehost.config import config_keys

    for key in config_keys(model):
        if key.description:
            yield f"# {' '.join(key.description.split())}"
        yield _key_line(key, model.model_fields[key.field].examples or [])


def _key_line(key: ConfigKey, examples: list[Any]) -> str:
    if examples:
        return f"{key.name} = {_value(examples[0])}"
    if key.required:
        return f"{key.name} ="
    if key.secret:
        return f"# {key.name} = ${{env:{key.name}}}"
    return f"# {key.name} = {_value(key.default)}".rstrip()


def _value(value: Any) -> str:
    from enginehost.values import encode

    if value is None:
        return ""
    text = value if isinstance(value, str) else encode(value).decode()
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
