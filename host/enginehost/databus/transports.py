"""The ways onto the bus: the host's own, and those that plugins add (hook ``register_transports``)."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from enginehost.contributions import OWN_TRANSPORT, Implementation
from enginehost.databus.config import DatabusConfig
from enginehost.databus.port import Transport
from enginehost.entrypoints import describe
from enginehost.errors import ConfigError, EngineHostError, EngineUnavailable

Join = Callable[[DatabusConfig], Transport]
"""Joins the bus; may take a while, so it belongs on a thread. Raises :class:`EngineUnavailable`."""


def find_transport(name: str, contributed: Mapping[str, Implementation]) -> Join:
    """How to join the bus by the transport ``name``. Raises :class:`ConfigError` where nobody has it."""
    if name == OWN_TRANSPORT:
        return _join_cyclone
    if name in contributed:
        return _guarded(name, contributed[name])
    names = [OWN_TRANSPORT, *sorted(contributed)]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
    raise ConfigError(f"no databus transport is called {name!r}", hint=hint, reason="unknown-transport")


def _guarded(name: str, made: Implementation) -> Join:
    def join(config: DatabusConfig) -> Transport:
        try:
            return made.call(config)
        except EngineHostError:
            raise
        except (Exception, SystemExit) as failure:  # the plugin boundary
            raise unavailable(f"{name} of {made.plugin}", failure) from failure

    return join


def unavailable(transport: str, failure: BaseException) -> EngineUnavailable:
    """What a transport's failure to start is for the host."""
    return EngineUnavailable(
        f"the databus transport {transport} does not start: {describe(failure)}", reason="transport"
    )


def _join_cyclone(config: DatabusConfig) -> Transport:
    return load_cyclone("transport").CycloneTransport(config)


def load_cyclone(module: str) -> Any:
    """A module of the package ``cyclone``. Raises :class:`EngineUnavailable` without its library."""
    try:
        return import_module(f"enginehost.databus.cyclone.{module}")
    except ModuleNotFoundError as failure:
        if (failure.name or "").partition(".")[0] != "cyclonedds":
            raise _unloadable(failure) from failure
        raise EngineUnavailable(
            "the DDS library (cyclonedds 11) is not installed for this Python and platform",
            reason="no-dds-library",
        ) from failure
    except Exception as failure:  # the library raises errors of its own too
        raise _unloadable(failure) from failure


def _unloadable(failure: Exception) -> EngineUnavailable:
    return EngineUnavailable(
        f"the DDS library (cyclonedds) is there and cannot be loaded: {describe(failure)}",
        reason="dds-library-fails",
    )
