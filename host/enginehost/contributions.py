"""What the pluggy plugins contribute, collected once when a host starts: no pluggy on the hot path."""

from __future__ import annotations

import difflib
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from enginehost import hooks
from enginehost.entrypoints import ENGINES, HOOKS, Alias, PluginProblem, describe
from enginehost.errors import ConfigError
from enginehost.plugins import PluginRegistry
from enginehost.safe_text import safe_text
from enginehost.specs import SPEC_KINDS

if TYPE_CHECKING:
    import pluggy

    from enginehost.record import CallRecord
    from enginehost.signature import FunctionSignature

OWN_TRANSPORT = "cyclone"
"""The databus transport that the host brings; no plugin takes its name."""

_log = logging.getLogger("enginehost.plugins")


@dataclass(frozen=True, slots=True)
class Implementation:
    """One plugin's function for one hook, or what it registered through one.

    A hook's ``call`` takes the hook's parameters by name.
    """

    plugin: str
    hook: str
    call: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Contributions:
    """Everything the plugins add to a host, in the order in which plugins are asked."""

    engine_secrets: tuple[Implementation, ...] = ()
    secrets: tuple[Implementation, ...] = ()
    observers: tuple[Callable[[CallRecord], None], ...] = ()
    """Each logs its own failure."""
    signature_mappers: Mapping[str, hooks.SignatureMapper] = field(default_factory=dict)
    transports: Mapping[str, Implementation] = field(default_factory=dict)
    """Name → factory, with its plugin."""
    faces: Mapping[str, Implementation] = field(default_factory=dict)
    """Name → factory, with its plugin."""


def load_pluggy(registry: PluginRegistry) -> pluggy.PluginManager:
    """A manager with every plugin of group ``enginehost`` that loads; the others are problems.

    Plugins are registered last name first, since pluggy asks the last one first.
    """
    import pluggy

    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    for alias in sorted(registry.aliases(HOOKS), key=lambda alias: alias.distribution, reverse=True):
        _register(manager, alias, registry)
    return manager


def collect(registry: PluginRegistry) -> Contributions:
    """Load the plugins and let each register what it has. Registered engine classes go into ``registry``."""
    manager = load_pluggy(registry)

    kinds = _gather(
        manager, "register_signature_mappers", registry, taken=SPEC_KINDS, takes=("signature", "name")
    )
    for name, made in _gather(manager, "register_function_types", registry).items():
        value = f"{made.call.__module__}:{made.call.__qualname__}"
        registry.add_engine_class(Alias(name, value, ENGINES, made.plugin, ""), made.call)
    return Contributions(
        engine_secrets=implementations(manager, "engine_secrets"),
        secrets=implementations(manager, "secret"),
        observers=tuple(map(_observer, implementations(manager, "observe_call"))),
        signature_mappers={kind: _mapper(kind, made) for kind, made in kinds.items()},
        transports=_gather(
            manager, "register_transports", registry, taken=(OWN_TRANSPORT,), takes=("config",)
        ),
        faces=_gather(manager, "register_faces", registry, takes=("host",)),
    )


def implementations(manager: pluggy.PluginManager, hook: str) -> tuple[Implementation, ...]:
    """The functions that answer ``hook``, in the order in which pluggy would call them."""
    found = reversed(getattr(manager.hook, hook).get_hookimpls())
    return tuple(Implementation(impl.plugin_name, hook, _by_name(impl)) for impl in found)


def _observer(implementation: Implementation) -> Callable[[CallRecord], None]:
    def observe(record: CallRecord) -> None:
        try:
            implementation.call(record=record)
        except (Exception, SystemExit):  # noqa: BLE001 - the plugin boundary: the other observers go on
            _log.exception("plugin %s failed to observe a call", implementation.plugin)

    return observe


def _mapper(kind: str, made: Implementation) -> hooks.SignatureMapper:
    """The plugin's mapper, whose failures name the plugin."""

    def failed(signature: FunctionSignature, how: str) -> ConfigError:
        message = f"the plugin {made.plugin} cannot show {signature.name} as {kind}: {how}"
        return ConfigError(message, hint=f"mend or uninstall {made.plugin}", reason="plugin-broken")

    def show(signature: FunctionSignature, name: str) -> dict[str, Any]:
        try:
            spec = made.call(signature, name)
        except (Exception, SystemExit) as error:
            raise failed(signature, safe_text(describe(error), str)) from error
        if not isinstance(spec, dict):
            raise failed(signature, f"its mapper answers with {type(spec).__name__}, not dict")
        return spec

    return show


def _by_name(impl: pluggy.HookImpl) -> Callable[..., Any]:
    function, wanted = impl.function, impl.argnames
    return lambda **arguments: function(*[arguments[name] for name in wanted])


def _register(manager: pluggy.PluginManager, alias: Alias, registry: PluginRegistry) -> None:
    name = alias.distribution if not manager.has_plugin(alias.distribution) else str(alias)

    def report(message: str, hint: str) -> None:
        registry.report(PluginProblem(alias.distribution, str(alias), message, hint))

    try:
        manager.register(registry.load(alias), name)
    except ConfigError:  # does not load; the registry has the problem
        return
    except Exception as error:  # noqa: BLE001 - the plugin boundary
        if manager.has_plugin(name):
            manager.unregister(name=name)
        report(
            f"does not register: {describe(error)}", "see enginehost.hooks for the parameters of each hook"
        )
        return
    for caller in manager.get_hookcallers(manager.get_plugin(name)) or ():
        if not caller.has_spec():
            specified = [name for name, other in vars(manager.hook).items() if other.has_spec()]
            close = difflib.get_close_matches(caller.name, specified, n=1)
            hint = f"did you mean {close[0]}?" if close else "it may be written for a newer host"
            report(f"implements {caller.name}, which is no hook", hint)
        for impl in caller.get_hookimpls():
            if impl.plugin_name == name and (impl.wrapper or impl.hookwrapper):
                manager.unregister(name=name)
                report(f"wraps {caller.name}; wrappers are not supported", "write a plain hookimpl")
                return


def _gather(
    manager: pluggy.PluginManager,
    hook: str,
    registry: PluginRegistry,
    taken: Sequence[str] = (),
    takes: Sequence[str] | None = None,
) -> dict[str, Implementation]:
    """What the plugins register through ``hook``, by name. The first has a name; the host has ``taken``.

    ``takes`` is what a thing is called with, by position.
    """
    gathered: dict[str, Implementation] = {}

    def register(plugin: str, name: str, thing: Any) -> None:
        owner = "the host" if name in taken else gathered[name].plugin if name in gathered else ""
        if owner:
            registry.report(PluginProblem(plugin, hook, f"{name} already comes from {owner}"))
        elif not callable(thing):
            registry.report(PluginProblem(plugin, hook, f"{name} is a {type(thing).__name__}, not callable"))
        elif takes is not None and not _can_be_called(thing, takes):
            what = f"{name} cannot be called with ({', '.join(takes)})"
            registry.report(PluginProblem(plugin, hook, what, f"mend its parameters, or uninstall {plugin}"))
        else:
            gathered[name] = Implementation(plugin, hook, thing)

    for implementation in implementations(manager, hook):
        plugin = implementation.plugin
        try:
            implementation.call(register=partial(register, plugin))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the plugin boundary
            registry.report(PluginProblem(plugin, hook, describe(error), f"mend or uninstall {plugin}"))
    return gathered


def _can_be_called(thing: Callable[..., Any], takes: Sequence[str]) -> bool:
    """Whether ``thing`` takes so many arguments by position, as far as one can tell."""
    try:
        inspect.signature(thing).bind(*takes)
    except TypeError:
        return False
    except ValueError:  # it has no signature to look at
        return True
    return True
