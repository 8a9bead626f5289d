"""The bytes of an smss file as text."""

from __future__ import annotations

from enginehost.diagnostics import Diagnostic, Severity

_UTF8_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


def decode(data: bytes, path: str) -> tuple[str, list[Diagnostic]]:
    """UTF-8; where the bytes are not UTF-8, ISO-8859-1 (what Java assumes), with a warning.

    A byte-order mark is dropped with a warning: Java would make it part of the first key.
    """
    found: list[Diagnostic] = []
    if data.startswith(_UTF16_BOMS):
        hint = "save it as UTF-8"
        found.append(Diagnostic(path, 1, 1, Severity.ERROR, "utf-16", "the file is UTF-16", hint))
        return data.decode("utf-16", "replace"), found
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


def _place(data: bytes, start: int) -> tuple[int, int]:
    before = data[:start].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
