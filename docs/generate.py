"""Writes the parts of these pages that are made of the code: ``python docs/generate.py``.

A part stands between ``<!-- generated: NAME -->`` and ``<!-- /generated -->``. With ``--check`` nothing is
written, and the exit code is 1 where a page is not up to date.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel

DOCS = Path(__file__).parent
_PART = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- /generated -->)", re.DOTALL)


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(_cell(text) for text in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def _code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


# settings.md


def settings() -> str:
    """Every setting, with its variable."""
    from enginehost.settings import HostSettings

    return table(("setting", "default", "meaning"), _settings(HostSettings, ""))


def _settings(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        inner = _model_in(field.annotation)
        shown = f"{prefix}{name}"
        yield _code(shown), _default(field, inner), field.description or ""
        if inner is not None:
            listed = str(field.annotation).startswith("tuple")
            yield from _settings(inner, f"{shown}[]." if listed else f"{shown}.")


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The section in a field's type. The rules of a policy have a page of their own."""
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel) and kind.__name__ != "Rule":
            return kind
    return None


def _default(field: Any, inner: type[BaseModel] | None) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is not None:
        return "see there"
    if inner is not None or field.default in (None, (), ""):
        return ""
    value = field.default
    if isinstance(value, tuple):
        return _code(", ".join(map(str, value)))
    if isinstance(value, bool):
        return _code(str(value).lower())
    readable = getattr(value, "human_readable", None)
    return _code(readable() if readable else value)


# smss-reference.md


def common_keys() -> str:
    """The keys that any file may have."""
    from enginehost.keys import COMMON_KEYS

    return table(("key", "meaning"), ((_code(key), meaning) for key, meaning in COMMON_KEYS.items()))


def semoss_keys() -> str:
    """The keys of SEMOSS that no engine here reads and that are accepted without a word."""
    from enginehost.keys import SEMOSS_KEYS

    return ", ".join(_code(key) for key in sorted(SEMOSS_KEYS - _own_keys())) + "\n"


def no_effect_keys() -> str:
    """The keys that do nothing in this version, and what happens instead."""
    from enginehost.keys import NO_EFFECT, NO_EFFECT_PREFIXES

    starts = ((f"{_code(start + '…')}", text) for start, text in NO_EFFECT_PREFIXES.items())
    return table(("key", "instead"), [*((_code(key), text) for key, text in NO_EFFECT.items()), *starts])


def _own_keys() -> frozenset[str]:
    from enginehost.config import config_keys

    models = [cls.config_model for _, cls in builtin_engines() if cls.config_model is not None]
    return frozenset(name for model in models for key in config_keys(model) for name in key.accepted)


def builtin_engines() -> list[tuple[str, Any]]:
    """The engine classes that come with the host, by alias."""
    from enginehost.plugins import PluginRegistry

    registry = PluginRegistry()
    ours = [alias for alias in registry.aliases() if alias.distribution == "enginehost"]
    return [(alias.name, registry.engine_class(alias.name)) for alias in ours if "." not in alias.name]


def engine_keys() -> str:
    """The keys of each built-in engine, from its config model."""
    parts: list[str] = []
    for alias, cls in builtin_engines():
        if cls.config_model is not None:
            parts.append(f"### `ENGINE_CLASS = {alias}`\n\n{_model_keys(cls.config_model)}")
    return "\n".join(parts)


def _model_keys(model: type[BaseModel], without: frozenset[str] = frozenset()) -> str:
    from enginehost.config import config_keys

    rows: list[tuple[str, str, str]] = []
    for key in config_keys(model):
        if key.field in without:
            continue
        names = " or ".join(_code(name) for name in key.accepted)
        plain = isinstance(key.default, str | int | float) and key.default != ""
        default = "required" if key.required else _code(key.default) if plain else ""
        form = " (JSON)" if key.form == "json" else ""
        secret = " (secret)" if key.secret else ""
        rows.append((f"{names}{form}{secret}", default, key.description))
    return table(("key", "default", "meaning"), rows)


# models.md


def model_keys() -> str:
    """The keys that every model engine has."""
    from enginehost.llm.config import ModelConfig

    return _model_keys(ModelConfig)


def openai_keys() -> str:
    """The keys of the plugin for OpenAI's APIs, but for those that every model engine has."""
    from enginehost.llm.config import ModelConfig

    sys.path.insert(0, str(DOCS.parent / "plugins" / "enginehost-openai" / "src"))
    from enginehost_openai.config import OpenAiConfig

    return _model_keys(OpenAiConfig, without=frozenset(ModelConfig.model_fields))


# cli.md


def commands() -> str:
    """Every command with its arguments and options."""
    from typer.main import get_command

    from enginehost.cli.app import HostCommands, app

    root = get_command(app)
    context = root.make_context("enginehost", ["list"], resilient_parsing=True)
    parts = [_command(root, "enginehost", root.params)]
    for name in HostCommands.own:
        listed: Any = root.get_command(context, name)  # pyright: ignore[reportAttributeAccessIssue]
        command = listed.load()
        for words, one in _flattened(f"enginehost {name}", command):
            parts.append(_command(one, words, one.params))
    return "\n".join(parts)


def _flattened(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    inner: dict[str, Any] = getattr(command, "commands", None) or {}
    if not inner or command.invoke_without_command:
        yield words, command
    for name, one in inner.items():
        yield from _flattened(f"{words} {name}", one)


def _command(command: Any, words: str, params: Iterable[Any]) -> str:
    arguments = [one for one in params if one.param_type_name == "argument"]
    usage = " ".join([words, *(_usage(one) for one in arguments), "[OPTIONS]"])
    text = inspect.cleandoc(command.help or "")
    hints = get_type_hints(inspect.unwrap(command.callback))
    rows = [(_spelling(one, hints.get(one.name)), one.help or "") for one in params]
    return (
        f"## `{words}`\n\n```text\n{usage}\n```\n\n{text}\n\n{table(('argument or option', 'meaning'), rows)}"
    )


def _usage(argument: Any) -> str:
    shown = argument.name.upper() + ("…" if argument.nargs != 1 else "")
    return shown if argument.required else f"[{shown}]"


def _spelling(param: Any, kind: Any) -> str:
    if param.param_type_name == "argument":
        return _code(param.name.upper())
    names = " ".join(_code(option) for option in param.opts)
    if param.is_flag:
        return names
    choices = [choice for choice in (kind, *get_args(kind)) if choice is not None]
    words = [word for choice in choices for word in _words(choice)]
    value = " or ".join(map(_code, words)) or _code(param.metavar or param.name.upper())
    return f"{names} {value}"


def _words(kind: Any) -> list[str]:
    """The words that an enumeration or a Literal allows."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(one.value) for one in kind]
    return [str(word) for word in get_args(kind)] if get_origin(kind) is Literal else []


# errors.md


def errors() -> str:
    """Every error code with what it is on each face."""
    import enginehost.errors as module

    classes = {cls.code: cls for cls in _error_classes(module.EngineHostError)}
    rows = [
        (
            _code(code),
            _code(classes[code].__name__),
            str(row.http),
            str(row.bus),
            str(row.exit),
            _first_sentence(classes[code]),
        )
        for code, row in module.ERROR_TABLE.items()
    ]
    return table(("code", "Python", "HTTP", "databus", "exit code", "meaning"), rows)


def _error_classes(base: Any) -> Iterator[Any]:
    yield base
    for cls in base.__subclasses__():
        if cls.__module__ == base.__module__:
            yield from _error_classes(cls)


def _first_sentence(thing: Any) -> str:
    text = inspect.cleandoc(thing.__doc__ or "").partition("\n\n")[0]
    return " ".join(text.split()).replace("``", "`")


# metrics.md


def metrics() -> str:
    """Every metric of the host."""
    from enginehost.agents.counts import AGENT_METRICS
    from enginehost.llm.counting import METRICS as OF_MODELS
    from enginehost.metrics import METRICS

    every = {**METRICS, **OF_MODELS, **AGENT_METRICS}
    rows = ((_code(name), kind, meaning) for name, (kind, meaning) in every.items())
    return table(("metric", "type", "meaning"), rows)


# plugins.md


def hooks() -> str:
    """Every hook with its signature and what it promises."""
    import enginehost.hooks as module

    parts: list[str] = []
    for name in module.__all__:
        hook = getattr(module, name)
        if not inspect.isfunction(hook) or not hasattr(hook, f"{module.PROJECT}_spec"):
            continue
        text = re.sub(r":(?:class|func|data|meth):`~?([^`]*)`", r"`\1`", inspect.getdoc(hook) or "")
        text = text.replace("``", "`")
        parts.append(f"### `{name}`\n\n```text\n{name}{_signature(hook)}\n```\n\n{text}\n")
    return "\n".join(parts)


def _signature(function: Any) -> str:
    """The signature as it is written: annotations are text (postponed evaluation)."""
    signature = inspect.signature(function)
    parameters = ", ".join(f"{one.name}: {one.annotation}" for one in signature.parameters.values())
    return f"({parameters}) -> {signature.return_annotation}"


# databus-types.md


def topics() -> str:
    """Every topic of the databus, with its type."""
    from enginehost.databus.types import TOPICS

    rows = (
        (
            _code(topic.name),
            _code(topic.struct.name),
            ", ".join(_code(member.name) for member in topic.struct.members if member.key),
            topic.profile.name,
            " and ".join(map(str, topic.eras)),
        )
        for topic in TOPICS.values()
    )
    return table(("topic", "type", "key", "quality", "era"), rows)


def qualities() -> str:
    """The qualities of service that topics have."""
    from enginehost.databus.types import TOPICS

    profiles = dict.fromkeys(topic.profile for topic in TOPICS.values())
    rows = (
        (
            profile.name,
            "reliable",
            "transient local" if profile.durable else "volatile",
            f"keep last {profile.depth}" if profile.depth else "keep all",
            f"automatic, {profile.lease} s" if profile.lease else "automatic, no limit",
        )
        for profile in profiles
    )
    return table(("quality", "reliability", "durability", "history", "liveliness"), rows)


PARTS: dict[str, Callable[[], str]] = {
    "settings": settings,
    "common-keys": common_keys,
    "engine-keys": engine_keys,
    "semoss-keys": semoss_keys,
    "model-keys": model_keys,
    "openai-keys": openai_keys,
    "no-effect-keys": no_effect_keys,
    "commands": commands,
    "errors": errors,
    "metrics": metrics,
    "hooks": hooks,
    "topics": topics,
    "qualities": qualities,
}


def generated(text: str) -> str:
    """A page's text with its generated parts made anew."""

    def fresh(match: re.Match[str]) -> str:
        return f"{match[1]}\n{PARTS[match[2]]()}\n{match[3]}"

    return _PART.sub(fresh, text)


def main(arguments: list[str]) -> int:
    """Write (or, with ``--check``, compare) every page."""
    stale = 0
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        fresh = generated(text)
        if fresh == text:
            continue
        stale += 1
        sys.stdout.write(f"{page.name}\n")
        if "--check" not in arguments:
            page.write_text(fresh, encoding="utf-8")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
