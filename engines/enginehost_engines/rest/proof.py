"""What proves to a service who calls, where no fixed header does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from enginehost.engine import current_call
from enginehost.errors import Unauthorized

if TYPE_CHECKING:
    from enginehost_engines.rest.request import Message


class Proof(Protocol):
    """Credentials as they are now."""

    def __call__(self, message: Message) -> Message:
        """The message with what proves who sends it."""
        ...


class Prover(Protocol):
    """Gives proofs."""

    async def proof(self, refused: Proof | None = None) -> Proof:
        """Credentials that hold; another than ``refused``, which the service did not take, if there is one.

        Raises :class:`~enginehost.errors.EngineUnavailable` where none can be had.
        """
        ...

    def secrets(self) -> Iterator[str]:
        """What no error may repeat."""
        ...


class CallersOwn:
    """Passes on what the caller showed the host: the ``Authorization`` header of a call over HTTP."""

    async def proof(self, refused: Proof | None = None) -> Proof:
        """There is but one. Raises :class:`~enginehost.errors.Unauthorized` where the caller showed none."""
        if refused is not None:
            return refused
        call = current_call()
        if call is None or not call.authorization:
            raise Unauthorized("it passes on the Authorization header of a call over HTTP, and none came")
        return partial(with_headers, Authorization=call.authorization)

    def secrets(self) -> Iterator[str]:
        """The header, and what follows its scheme."""
        call = current_call()
        if call is not None and call.authorization:
            yield call.authorization
            yield call.authorization.partition(" ")[2]


def with_headers(message: Message, **headers: str) -> Message:
    """The message with these headers (``_`` stands for ``-``) in place of those of the same names."""
    new = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    names = {name.lower() for name in new}
    kept = tuple(header for header in message.headers if header[0].lower() not in names)
    return replace(message, headers=(*kept, *new.items()))
