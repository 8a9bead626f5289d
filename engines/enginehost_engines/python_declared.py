"""Which functions of a script a smss file serves, and under which signatures."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from enginehost.engine import EngineContext, RunMode
from enginehost.errors import ConfigError
from enginehost.signature import NO_PARAMETERS, FunctionSignature, JsonSchema
from enginehost_engines.parameter_check import mismatches
from enginehost_engines.python_neighbours import Neighbour
from enginehost_engines.python_signature import Described, describe, described
from enginehost_engines.python_source import PythonSource

ALL = "*"
"""``PYTHON_FUNCTION_NAME`` of a file that serves every public function of its script."""

_OF_ONE = ("FUNCTION_DESCRIPTION", "FUNCTION_PARAMETERS", "FUNCTION_REQUIRED_PARAMETERS", "FUNCTION_RESULT")
"""Keys that say something of one function."""

_NO_FIELDS: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Declared:
    """One function of the script as the file serves it.

    ``name`` is the script's; ``is_guess``: only the loaded code can tell how it runs; ``fields`` are those of
    the signature that differ from what the file says; ``converts``: its hints ask for values that JSON lacks;
    ``bind`` the parameters that the host fills in; ``types`` those that the docstring gives parameters
    without hint; ``positional`` the parameters that it takes by position only.
    """

    name: str
    mode: RunMode
    is_guess: bool
    fields: Mapping[str, Any] = field(default_factory=lambda: _NO_FIELDS)
    converts: bool = False
    bind: Mapping[str, Any] = field(default_factory=lambda: _NO_FIELDS)
    types: Mapping[str, str] = field(default_factory=lambda: _NO_FIELDS)
    positional: tuple[str, ...] = ()

    def about(self, called: str) -> Any:
        """What a call, by the name ``called``, has to say of the function's parameters; mostly nothing."""
        if not self.converts and not self.positional:
            return None
        found: dict[str, Any] = {"name": called} if self.converts else {}
        if self.types:
            found["types"] = self.types
        if self.positional:
            found["positional"] = self.positional
        return found


class Script(NamedTuple):
    """A script to look functions up in: its file's ``name``, what it declares, the modules ``beside`` it, and
    the names that ``INIT_FUNCTION_ENGINE`` makes in it.
    """

    name: str
    source: PythonSource
    beside: tuple[Neighbour, ...]
    made: Collection[str]

    def is_guess(self, function: str) -> bool:
        """Whether only running the script can tell what the function is."""
        return function in self.made or function not in self.source.parameters


def is_complete(context: EngineContext, name: str) -> bool:
    """Whether the file says all of its function itself; ``name`` is ``PYTHON_FUNCTION_NAME``, or empty."""
    has_text = context.signature is not None and bool(context.signature.description)
    return name != ALL and has_text and _says(context, "FUNCTION_PARAMETERS")


def declared_functions(context: EngineContext, script: Script, name: str) -> Iterator[Declared]:
    """What the file serves; ``name`` is ``PYTHON_FUNCTION_NAME``, or empty.

    What does not fit is warned of; raises :class:`ConfigError`.
    """
    if name == ALL:
        return _every(context, script)
    return iter((_one(context, script, name),))


def _one(context: EngineContext, script: Script, given: str) -> Declared:
    signature = context.signature or FunctionSignature(given)
    name = given or signature.name
    mode = _mode(script, name, "PYTHON_FUNCTION_NAME" if given else "FUNCTION_NAME")
    is_guess = script.is_guess(name)
    fields, converts, found = _NO_FIELDS, False, None
    if not is_complete(context, given):
        found = described(script.source, name, script.beside) if name not in script.made else None
        fields, converts = _completed(context, signature, found)
        if found is None and not _says(context, "FUNCTION_PARAMETERS"):
            text = f"what {name}() takes cannot be read in {script.name}: it is served without parameters"
            hint = "declare FUNCTION_PARAMETERS; [] where it takes none"
            context.warn("FUNCTION_PARAMETERS", "unknown-parameters", text, hint)
    takes = script.source.parameters.get(name)
    if not is_guess:
        _warn(context, name, script, fields.get("parameters", signature.parameters), context.bind)
        if "parameters" in fields:
            _warn_of_variable(context, name, script)
    positional = found.positional if found is not None else takes.positional if takes is not None else ()
    if fields or context.bind:
        types = found.types if converts and found is not None else _NO_FIELDS
        return Declared(name, mode, is_guess, fields, converts, context.bind, types, positional)
    return _declared(name, mode, is_guess, positional)


@lru_cache(256)
def _declared(name: str, mode: RunMode, is_guess: bool, positional: tuple[str, ...]) -> Declared:
    """One for the thousands of files that say all themselves of one function."""
    return Declared(name, mode, is_guess, positional=positional)


def _completed(
    context: EngineContext, signature: FunctionSignature, found: Described | None
) -> tuple[Mapping[str, Any], bool]:
    """The fields that the file leaves to the function, and whether values are made for its hints."""
    fields: dict[str, Any] = {}
    if found is not None and not signature.description:
        fields["description"] = found.description
    if not (signature.description or fields.get("description")):
        hint = "say in one sentence what the function does: models choose by it; a docstring will do"
        context.warn("FUNCTION_DESCRIPTION", "no-description", "FUNCTION_DESCRIPTION is missing", hint)
    if found is None or _says(context, "FUNCTION_PARAMETERS"):
        return fields, False
    fields["parameters"] = _parameters(found, signature, context.bind)
    if not _says(context, "FUNCTION_RESULT"):
        fields["result"] = found.result
    return fields, found.converts


def _every(context: EngineContext, script: Script) -> Iterator[Declared]:
    pattern = context.properties.get("FUNCTION_NAME", "").strip() or ALL
    if ALL not in pattern:
        raise ConfigError(
            f"FUNCTION_NAME = {pattern} is one name, and PYTHON_FUNCTION_NAME = * serves many functions",
            key="FUNCTION_NAME",
            hint=f"leave it out, or write {pattern}_* to have names that begin so",
            reason="bad-name",
        )
    if not script.source.public:
        raise ConfigError(
            f"{script.name} defines no public function",
            key="PYTHON_FUNCTION_NAME",
            hint="* serves the functions that the script defines: those in __all__, else those without _",
            reason="function-missing",
        )
    for key in _OF_ONE:
        if _says(context, key):
            text = f"{key} has no effect: each function has its own, from its hints and docstring"
            context.warn(key, "no-effect", text, "leave it out, or write a file for that function")
    if missing := script.source.missing:
        text = f"{script.name}: __all__ names {', '.join(missing)}, which the script does not define"
        context.warn("PYTHON_FUNCTION_NAME", "function-missing", text, "take it out of __all__, or define it")
    for name in script.source.public:
        yield _of_many(context, script, name, pattern.replace(ALL, name))


def _of_many(context: EngineContext, script: Script, name: str, called: str) -> Declared:
    found = describe(script.source, name, script.beside)
    takes = found.parameters["properties"]
    further = "additionalProperties" in found.parameters
    bind = {key: value for key, value in context.bind.items() if key in takes or further}
    parameters = _parameters(found, None, bind)
    fields = {
        "name": called,
        "description": found.description,
        "parameters": parameters,
        "result": found.result,
    }
    if not found.description:
        hint = "give it a docstring: models choose by it"
        place = f"{script.name}, line {script.source.definitions[name].lineno}"
        text = f"{place}: {name}() has no docstring"
        context.warn("PYTHON_FUNCTION_NAME", "no-description", text, hint)
    is_guess = script.is_guess(name)
    if not is_guess:
        _warn(context, name, script, parameters, bind)
        _warn_of_variable(context, name, script)
    mode = script.source.functions[name]
    about = found.types, found.positional
    return Declared(name, mode, is_guess, fields, found.converts, bind, *about)


def _parameters(found: Described, declared: FunctionSignature | None, bind: Mapping[str, Any]) -> JsonSchema:
    """The function's parameters without the bound ones, required as the file says too."""
    own = found.parameters
    further = declared.required if declared is not None else ()
    properties: dict[str, Any] = {**{key: {} for key in further}, **own["properties"]}
    properties = {name: schema for name, schema in properties.items() if name not in bind}
    required = [name for name in dict.fromkeys((*own.get("required", ()), *further)) if name not in bind]
    if not properties and own.keys() == {"type", "properties"}:
        return NO_PARAMETERS
    schema = {**own, "properties": properties, "required": required}
    if not required:
        del schema["required"]
    return schema


def _warn(
    context: EngineContext, name: str, script: Script, parameters: JsonSchema, bind: Collection[str]
) -> None:
    """Tell how the function differs from what is declared."""
    takes = script.source.parameters[name]
    for message, hint in mismatches(name, takes, script.name, parameters, bind):
        context.warn(_key(context), "signature-mismatch", message, hint)


def _warn_of_variable(context: EngineContext, name: str, script: Script) -> None:
    """Tell of ``*rest``, which callers cannot give."""
    takes = script.source.parameters[name]
    if takes.variable:
        text = f"{name}() takes *{takes.variable}, which callers cannot give: arguments have names"
        hint = f"take a list: {takes.variable}: list ({script.name}, {takes.place})"
        context.warn(_key(context), "signature-mismatch", text, hint)


def _key(context: EngineContext) -> str:
    """The key at whose place a mismatch is told."""
    keys = ("FUNCTION_PARAMETERS", "FUNCTION_REQUIRED_PARAMETERS", "FUNCTION_BIND", "PYTHON_FUNCTION_NAME")
    return next((key for key in keys if _says(context, key)), "FUNCTION_NAME")


def _says(context: EngineContext, key: str) -> bool:
    return bool(context.properties.get(key, "").strip())


def _mode(script: Script, name: str, key: str) -> RunMode:
    """How the function runs; one that the script imports or makes is taken for a plain ``def``."""
    source, made = script.source, script.made
    if source.may_have(name) or name in made or "*" in made:
        return source.functions.get(name, RunMode.SYNC)
    near = source.nearest(name)
    raise ConfigError(
        f"{script.name} has no function {name}",
        key=key,
        hint=f"it has {', '.join(near)}; PYTHON_FUNCTION_NAME can name one" if near else "",
        reason="function-missing",
    )
