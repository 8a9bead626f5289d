"""The one mapping between Python values and JSON.

Two dialects, each an exact pair:

* **face** (:func:`encode` / :func:`decode`, and :func:`to_json` / :func:`from_json` on plain dicts and
  lists): what callers of every face read and write. Rich types arrive in the form that other
  languages expect, so most of them come back as text.
* **wire** (:func:`pack` / :func:`unpack`): what host and worker processes say to each other. Every
  built-in type comes back as the type it was.

====================================  ==================================  =======================
Python                                face                                wire
====================================  ==================================  =======================
``None``, ``bool``, ``str``           as they are                         same type
``int`` of any size                   JSON number, every digit (a client  same type
                                      that reads doubles loses digits
                                      beyond 2^53: that is the client's)
``float``                             shortest exact number; NaN and      same, NaN and infinities
                                      infinities refused, or ``null``     too
                                      with ``allow_nan``
``Decimal``                           text, every digit; NaN and          same type, NaN and
                                      infinities as of ``float``          infinities too
``bytes``, ``bytearray``              ``{"$bytes": base64}``              same type
``memoryview``                        as ``bytes``                        as ``bytes``
``datetime``, ``date``, ``time``      RFC 3339 text; without offset       same type
                                      where the value has none
``timedelta``                         ISO 8601 text (``P1DT2.5S``)        same type
``UUID``, ``Path``                    text                                same type
``list``, ``tuple``                   array                               same type
``set``, ``frozenset``                array, sorted where that works      same type
``dict``                              object; keys of scalar types        same type, same keys
                                      become text
``Enum``                              its value                           its value
dataclass, named tuple, pydantic      object by field                     object by field
numpy scalar                          number                              number
numpy array                           nested arrays                       same type (of numbers and
                                                                          truth values; nested lists
                                                                          where numpy is missing)
pandas, polars frame                  array of records, missing → null    the same as face
====================================  ==================================  =======================

Refused with :class:`NotJson` and a pointer to the offender: everything else, cycles, lone
surrogates, keys that are no scalars or become the same text, and values nested too deep
(:data:`MAX_DEPTH` levels always pass).

An object that happens to look like a marker (``{"$bytes": …}``) is escaped with one more ``$`` and comes
back as it was. What only tells of values, such as a schema, has no markers: :func:`write` and :func:`read`.
Only the standard library is needed; orjson makes it fast where it is installed.
"""

from __future__ import annotations

from enginehost.values._content import McpContent
from enginehost.values._convert import MAX_DEPTH, NotJson
from enginehost.values._face import decode, encode, from_json, read, to_json, write
from enginehost.values._large import LARGE, aside
from enginehost.values._text import MalformedJson
from enginehost.values._wire import Parted, pack, unpack

__all__ = [
    "LARGE",
    "MAX_DEPTH",
    "MalformedJson",
    "McpContent",
    "NotJson",
    "Parted",
    "aside",
    "decode",
    "encode",
    "from_json",
    "pack",
    "read",
    "to_json",
    "unpack",
    "write",
]
