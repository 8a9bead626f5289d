"""``PAGINATION``: how the next part of a long answer is asked for."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from enginehost.config import BadValue
from enginehost.errors import ConfigError
from enginehost_engines.rest.response import make_selector

KEY = "PAGINATION"

Style = Literal["link", "cursor", "page", "offset"]

_OF_STYLE = {
    "link": {"next"},
    "cursor": {"cursor", "parameter"},
    "page": {"parameter", "start", "step", "more"},
    "offset": {"parameter", "start", "step", "more"},
}
"""What each style has beside ``items`` and the limits."""


def _check_path(path: str) -> str:
    try:
        make_selector(path, KEY)
    except ConfigError as error:
        raise BadValue(error.message, hint=error.hint, reason=error.reason, key=KEY) from None
    return path


Path = Annotated[str, Field(min_length=1), AfterValidator(_check_path)]
"""A JSON Pointer or a JMESPath expression."""


class Pagination(BaseModel):
    """How the pages of an answer follow each other. Which members a style has: ``_OF_STYLE``."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    style: Style
    items: Path | None = None
    """Where the items of a page are; absent: at ``RESPONSE_PATH``, else the page is the list."""
    next: Path | None = None
    """Where the next page's link is in the answer; absent: the header ``Link`` has it."""
    cursor: Path | None = None
    """Where the next page's cursor is in the answer."""
    parameter: str | None = Field(default=None, min_length=1)
    """The parameter that carries the cursor, the page's number or the offset."""
    start: int | None = Field(default=None, ge=0)
    """The first number; absent: 1 for pages, 0 for offsets."""
    step: int | None = Field(default=None, gt=0)
    """How much is added for each page; absent: 1 for pages, as many items as came for offsets."""
    more: Path | None = None
    """Where the answer says whether there is more; absent: until a page is empty."""
    max_pages: int = Field(default=100, gt=0)
    max_items: int = Field(default=10_000, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, given: Any) -> Any:
        for name in given if isinstance(given, dict) else ():
            if name not in cls.model_fields:
                near = get_close_matches(str(name), cls.model_fields, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(cls.model_fields)}"
                raise BadValue(f"{KEY}: {str(name)[:40]!r} is not known", hint=hint, key=KEY)
        return given

    @model_validator(mode="after")
    def _check_style(self) -> Self:
        own = _OF_STYLE[self.style]
        if foreign := sorted(set().union(*_OF_STYLE.values()) & self.model_fields_set - own):
            message = f"{KEY}: {foreign[0]} has no meaning for the style {self.style}"
            raise BadValue(message, hint=f"it has: {', '.join(sorted(own))}", key=KEY)
        for name in sorted({"cursor", "parameter"} & own):
            if getattr(self, name) is None:
                hint = 'write {"style": "cursor", "cursor": "/next", "parameter": "after"}'
                if name == "parameter" and self.style != "cursor":
                    hint = f'write {{"style": "{self.style}", "parameter": "{self.style}"}}'
                raise BadValue(f"{KEY}: the style {self.style} needs {name}", hint=hint, key=KEY)
        return self

    @property
    def first(self) -> int:
        """The number that the first page has."""
        return self.start if self.start is not None else 1 if self.style == "page" else 0
