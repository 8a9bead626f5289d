"""The words of Pixel: what kind of value a noun holds, and what it says of its operation."""

from __future__ import annotations

from enum import StrEnum


class PixelDataType(StrEnum):
    """What kind of value a noun holds."""

    CONST_STRING = "CONST_STRING"
    CONST_INT = "CONST_INT"
    CONST_DECIMAL = "CONST_DECIMAL"
    CONST_DATE = "CONST_DATE"
    CONST_TIMESTAMP = "CONST_TIMESTAMP"
    BOOLEAN = "BOOLEAN"
    MAP = "MAP"
    VECTOR = "VECTOR"
    NULL_VALUE = "NULL_VALUE"
    COLUMN = "COLUMN"
    CODE = "CODE"
    FILE_REFERENCE = "FILE_REFERENCE"
    JSON_OBJECT = "JSON_OBJECT"
    CUSTOM_DATA_STRUCTURE = "CUSTOM_DATA_STRUCTURE"
    FORMATTED_DATA_SET = "FORMATTED_DATA_SET"
    ERROR = "ERROR"
    INVALID_SYNTAX = "INVALID_SYNTAX"


class PixelOperationType(StrEnum):
    """What a noun says about the operation that made it.

    SEMOSS has many more, which tell its interface what to show; nouns carry those as plain text.
    """

    OPERATION = "OPERATION"
    SUCCESS = "SUCCESS"
    WARNING = "WARNING"
    ERROR = "ERROR"
    INVALID_SYNTAX = "INVALID_SYNTAX"
    LOGGIN_REQUIRED_ERROR = "LOGGIN_REQUIRED_ERROR"
    ANONYMOUS_USER_ERROR = "ANONYMOUS_USER_ERROR"
    CODE_EXECUTION = "CODE_EXECUTION"
    VECTOR = "VECTOR"
    FILE = "FILE"
    FILE_DOWNLOAD = "FILE_DOWNLOAD"


FAILED_TYPES = frozenset({PixelDataType.ERROR, PixelDataType.INVALID_SYNTAX})
FAILED_OPERATIONS = frozenset(
    {
        PixelOperationType.ERROR,
        PixelOperationType.INVALID_SYNTAX,
        PixelOperationType.LOGGIN_REQUIRED_ERROR,
        PixelOperationType.ANONYMOUS_USER_ERROR,
    }
)


def operation(text: str) -> str:
    """An operation type as its member where it is one that means something here."""
    return PixelOperationType(text) if text in PixelOperationType.__members__ else text
