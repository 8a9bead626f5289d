"""The bytes of an smss file as text."""

from __future__ import annotations

import re

from enginehost.diagnostics import Diagnostic, Severity

_UTF8_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = {  # the longer ones first: one begins as another
    b"\xff\xfe\0\0": "utf-32-le",
    b"\0\0\xfe\xff": "utf-32-be",
    b"\xff\xfe": "utf-16-le",
    b"\xfe\xff": "utf-16-be",
}
_WIDE_STARTS = {  # two ASCII characters
    re.compile(rb"[^\0]\0\0\0[^\0]\0\0\0"): "utf-32-le",
    re.compile(rb"\0\0\0[^\0]\0\0\0[^\0]"): "utf-32-be",
    re.compile(rb"[^\0]\0[^\0]\0"): "utf-16-le",
    re.compile(rb"\0[^\0]\0[^\0]"): "utf-16-be",
}


def decode(data: bytes, path: str) -> tuple[str, list[Diagnostic]]:
    """UTF-8; where the bytes are not UTF-8, ISO-8859-1 (what Java assumes), with a warning.

    A byte-order mark is dropped with a warning: Java would make it part of the first key.
    """
    found: list[Diagnostic] = []
    if encoding := _wide(data):
        code = encoding[: len("utf-16")]
        message, hint = f"the file is {code.upper()}", "save it as UTF-8"
        found.append(Diagnostic(path, 1, 1, Severity.ERROR, code, message, hint))
        return data.decode(encoding, "replace").removeprefix("\ufeff"), found
    if data.startswith(_UTF8_BOM):
        data = data[len(_UTF8_BOM) :]
        message, hint = "byte-order mark dropped", "save the file as UTF-8 without a byte-order mark"
        found.append(Diagnostic(path, 1, 1, Severity.WARNING, "byte-order-mark", message, hint))
    try:
        return data.decode("utf-8"), found
    except UnicodeDecodeError as error:
        line, column = _place(data, error.start)
        message = f"byte 0x{data[error.start]:02x} is not UTF-8; the file is read as ISO-8859-1"
        # Java takes the bytes as ISO-8859-1 in any case: only ASCII means the same to both
        hint = r"save it as UTF-8; where SEMOSS reads it too, write \uXXXX for such characters"
        found.append(Diagnostic(path, line, column, Severity.WARNING, "not-utf-8", message, hint))
        return data.decode("latin-1"), found


def _wide(data: bytes) -> str:
    """The encoding of more than one byte for each character that ``data`` is in, if it is in one."""
    if data.startswith(tuple(_WIDE_BOMS)):
        return next(encoding for mark, encoding in _WIDE_BOMS.items() if data.startswith(mark))
    if b"\0" not in data[:4]:
        return ""
    return next((encoding for start, encoding in _WIDE_STARTS.items() if start.match(data)), "")


def _place(data: bytes, start: int) -> tuple[int, int]:
    before = data[:start].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
