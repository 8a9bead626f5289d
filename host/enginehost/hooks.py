"""The whole contract of a pluggy plugin: what it may answer, add and observe.

A plugin is a module or an object that an entry point of group ``enginehost`` names; it is loaded when
a host starts. It writes the functions below that it needs, each marked with :data:`hookimpl`, with any
of their parameters, by name::

    from enginehost.hooks import hookimpl

    @hookimpl
    def secret(name):
        return my_vault.get(name)

Engines need none of this: their classes are entry points of group ``enginehost.engines``. Each plugin
is loaded alone and each function is called alone: what fails is reported and skipped, except that an
engine whose secrets cannot be read does not open. Plugins are asked in the order of their
distributions' names; ``hookimpl(tryfirst=True)`` and ``trylast=True`` change that. Wrappers are not
supported.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import pluggy

if TYPE_CHECKING:
    from enginehost.databus import DatabusConfig, Transport
    from enginehost.engine import IFunctionEngine
    from enginehost.host import Host
    from enginehost.record import CallRecord
    from enginehost.signature import FunctionSignature

PROJECT = "enginehost"
"""The pluggy project name."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


SignatureMapper = Callable[["FunctionSignature", str], dict[str, Any]]
"""Derives one kind of tool description from a signature and the name to show
(``[A-Za-z0-9_-]{1,64}``, made of the function's name); pure."""


class Face(Protocol):
    """A way in. It translates its protocol to ``Host.call`` and back, and supplies the ``Caller``."""

    def start(self) -> Awaitable[None]:
        """Take calls; returns when calls can come. Runs on the host's event loop."""
        ...

    def stop(self) -> Awaitable[None]:
        """Take no more calls, answer the running ones, let go of everything."""
        ...


FaceFactory = Callable[["Host"], Face]
"""Makes a face of a host that has not started yet."""

TransportFactory = Callable[["DatabusConfig"], "Transport"]
"""Joins the databus; ``DatabusConfig`` and ``Transport`` are those of ``enginehost.databus``."""


@hookspec
def engine_secrets(engine_id: str, alias: str) -> Mapping[str, str] | None:  # pyright: ignore[reportReturnType]
    """Values that overlay the keys of one engine's file before anything in it is read.

    For SEMOSS files whose secrets live in a store: the file keeps its base keys only. ``alias`` is
    the engine's SEMOSS alias. Keys are compared without case; where two plugins give one key, the
    plugin that is asked first has it. Runs on the loader's thread and may block. An exception keeps
    the engine from opening; its text is shown to nobody.
    """


@hookspec
def secret(name: str) -> str | None:
    """The value of ``${secret:name}``, or ``None`` when this store does not have it.

    The first answer counts; after the plugins come files and environment variables. Runs on the
    loader's thread and may block. An exception keeps the engine from opening.
    """


@hookspec
def register_signature_mappers(register: Callable[[str, SignatureMapper], None]) -> None:
    """Add kinds of tool description: ``register(kind, mapper)`` makes ``tools --as kind`` work."""


@hookspec
def register_function_types(register: Callable[[str, type[IFunctionEngine]], None]) -> None:
    """Add engine classes that exist only at run: ``register(alias, engine_class)``.

    A class that can be named belongs in the entry-point group ``enginehost.engines`` instead: there
    it is seen without being imported. An alias that is taken stays with its owner.
    """


@hookspec
def register_transports(register: Callable[[str, TransportFactory], None]) -> None:
    """Add ways onto the databus: ``register(name, factory)``; the setting ``databus.transport`` names one.

    The factory is called on a thread with the ``DatabusConfig`` and returns a ``Transport`` that has
    joined. Whatever it raises keeps the host off the bus, with its text as the reason.
    """


@hookspec
def register_faces(register: Callable[[str, FaceFactory], None]) -> None:
    """Add ways in: ``register(name, factory)``; the host starts and stops what the factory makes."""


@hookspec
def observe_call(record: CallRecord) -> None:
    """See every call that ended, refused ones included; arguments and result only where an audit keeps them.

    Runs on the thread that writes the log, after the caller has the answer, in the order of ending. Do
    little: records wait in a bounded queue. An exception is logged.
    """


__all__ = [
    "PROJECT",
    "Face",
    "FaceFactory",
    "SignatureMapper",
    "TransportFactory",
    "engine_secrets",
    "hookimpl",
    "hookspec",
    "observe_call",
    "register_faces",
    "register_function_types",
    "register_signature_mappers",
    "register_transports",
    "secret",
]
