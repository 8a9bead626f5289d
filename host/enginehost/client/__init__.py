"""A host, asked over HTTP by a program.

::

    with Client("http://127.0.0.1:8484") as host:
        print(host.call("add", {"a": 1, "b": 2}))

:class:`Client` blocks, :class:`AsyncClient` is awaited; both have the same methods. Errors are those of
:mod:`enginehost.errors`, as the host raised them, and of the connection itself:

::

    EngineUnavailable
    └── HostUnreachable    no host answers there; nothing has run
    OutcomeUnknown
    └── ConnectionLost     the connection broke while the host had the request: it may have run
    EngineHostError
    └── NotAHost           something else answers there
"""

from __future__ import annotations

from enginehost.client.aio import AsyncClient
from enginehost.client.aio_session import AsyncSession
from enginehost.client.answers import AgentAnswer, SessionEvent
from enginehost.client.blocking import Client
from enginehost.client.blocking_session import Session
from enginehost.client.faults import ConnectionLost, HostUnreachable, NotAHost

__all__ = [
    "AgentAnswer",
    "AsyncClient",
    "AsyncSession",
    "Client",
    "ConnectionLost",
    "HostUnreachable",
    "NotAHost",
    "Session",
    "SessionEvent",
]
