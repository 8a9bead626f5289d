"""What clients carry for us between two requests: sealed, so that nobody else reads or changes it.

Hosts on one database share the key, and what may be used once is remembered there; where the settings name
no database, each process has its own.
"""

from __future__ import annotations

import asyncio
import os
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import orjson

from enginehost.errors import InvalidRequest
from enginehost.llm.message import Message, Role, Type
from enginehost.store.port import Owner, Settled

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from enginehost.host import Host
    from enginehost.store.port import Store

_NONCE_BYTES = 12
_MOST_USED = 100_000
_HOSTS = Owner("\x01mcp", "\x01enginehost")
"""Whose rows these are: no caller's, since no name of one has control characters."""
_KEY, _USED = "mcp-key", "mcp-used"


class Unsealed(Exception):
    """It is none of ours, was changed, or has run out."""


class Seal:
    """Seals JSON values. Lives on one event loop."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._shared = host.settings.store.url is not None or "DATABASE_URL" in os.environ
        self._cipher: AESGCM | None = None
        self._making = asyncio.Lock()
        self._used: OrderedDict[str, None] = OrderedDict()

    async def seal(self, value: Any, seconds: float) -> str:
        """``value`` as a text that :meth:`open` reads within so many seconds."""
        cipher = await self._ready()
        nonce = os.urandom(_NONCE_BYTES)
        plain = orjson.dumps([int(time.time() + seconds), value])
        return urlsafe_b64encode(nonce + cipher.encrypt(nonce, plain, None)).decode()

    async def open(self, sealed: str) -> Any:
        """The value. Raises :class:`Unsealed`."""
        from cryptography.exceptions import InvalidTag

        cipher = await self._ready()
        try:
            data = urlsafe_b64decode(sealed.encode("ascii"))
            until, value = orjson.loads(cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], None))
        except (ValueError, InvalidTag):
            raise Unsealed from None
        if urlsafe_b64encode(data).decode() != sealed or until < time.time():
            raise Unsealed
        return value

    async def use(self, once: str) -> bool:
        """Whether ``once`` is used for the first time, on any host that shares the key."""
        if not self._shared:
            if once in self._used:
                return False
            self._used[once] = None
            if len(self._used) > _MOST_USED:
                self._used.popitem(last=False)
            return True
        row = Message(Role.TOOL, Type.TOOL_RESULT, "", query={"tool": "mcp", "id": once})
        try:
            await (await self._store()).append(_USED, [row], _HOSTS)
        except Settled:
            return False
        return True

    async def _store(self) -> Store:
        return (await self._host.agents()).store

    async def _ready(self) -> AESGCM:
        if self._cipher is None:
            async with self._making:
                if self._cipher is None:
                    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

                    key = await self._shared_key() if self._shared else os.urandom(32)
                    self._cipher = AESGCM(key)
        return self._cipher

    async def _shared_key(self) -> bytes:
        """The key in the database; whoever comes first makes it."""
        store = await self._store()
        row = Message(Role.SYSTEM, Type.DATA, urlsafe_b64encode(os.urandom(32)).decode())
        try:
            await store.append(_KEY, [row], _HOSTS, new=True)
        except InvalidRequest:  # it is there
            row = (await store.history(_KEY, _HOSTS, limit=1))[0]
        return urlsafe_b64decode(row.content)
