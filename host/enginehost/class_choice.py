"""``ENGINE_CLASS`` and ``ENGINE_TYPE`` in one file: ours, which counts, and SEMOSS's."""

from __future__ import annotations

from enginehost.interpret import Declaration
from enginehost.known_classes import semoss_reason
from enginehost.plugins import DottedClass, PluginRegistry, Registered, Resolution, Unsupported


def warn_of_contradiction(declaration: Declaration, registry: PluginRegistry, taken: Resolution) -> None:
    """Warn where ``ENGINE_TYPE`` means another class than the one ``taken``.

    A class that only SEMOSS has may stand there for SEMOSS.
    """
    counts, other = declaration.words("ENGINE_CLASS"), declaration.words("ENGINE_TYPE")
    if not counts or not other:
        return
    meant = registry.resolve_engine_class(other)
    for_semoss = isinstance(meant, Unsupported) and semoss_reason(other) is not None
    if not for_semoss and _implementation(meant) != _implementation(taken):
        message = f"ENGINE_TYPE = {other} has no effect beside ENGINE_CLASS = {counts}"
        declaration.warning("ENGINE_TYPE", "shadowed-key", message, "delete one of the two")


def _implementation(resolution: Resolution) -> str:
    """What tells classes apart, whatever they are called."""
    match resolution:
        case Registered(alias):
            return alias.value or alias.name
        case DottedClass(path):
            return path
        case Unsupported(text):
            return text
