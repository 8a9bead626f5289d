"""Answers that are longer than they say.

What follows an answer on its connection would be taken for the answer to the next request, which may be
another caller's. So such a connection is not used again.
"""

from __future__ import annotations

import ssl
from typing import Any

import httpcore2


def has_surplus(answer: httpcore2.Response) -> bool:
    """Whether more came than the answer, which has ended (HTTP/1.1; HTTP/2 has frames)."""
    stream: Any = answer.stream  # the pool's, around that of the connection; neither shows what is left over
    connection = getattr(getattr(stream, "_stream", None), "_connection", None)
    parser = getattr(connection, "_h11_state", None)
    if parser is None:
        return False
    if parser.trailing_data[0]:
        return True
    secured = answer.extensions["network_stream"].get_extra_info("ssl_object")
    return secured is not None and _has_record(secured)


def _has_record(secured: ssl.SSLObject) -> bool:
    """Whether TLS has more to give: it reads ahead, so the socket does not show that."""
    try:
        return bool(secured.read(1))
    except ssl.SSLError:
        return False
