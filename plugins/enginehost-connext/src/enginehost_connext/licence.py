"""Why RTI refuses a participant: its exception does not say, only its log does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

import rti.connextdds as dds

from enginehost.errors import EngineUnavailable

LOOKED_AT = (
    "the file that the environment variable RTI_LICENSE_FILE names",
    "rti_license.dat in the working directory",
    "rti_license.dat in the folder that NDDSHOME names",
)
"""Where the library looks for a licence, in this order."""

VENDORS = (
    "a limited licence (an evaluation) refuses the participants of other vendors; hosts on the transport "
    "'cyclone' are such"
)

_Made = TypeVar("_Made")
_one_at_a_time = threading.Lock()  # RTI's log has one handler in a process


def made_or_refused(make: Callable[[], _Made], where: str) -> _Made:
    """What ``make`` makes of RTI's. Raises :class:`EngineUnavailable`, which says why, where it fails."""
    with _heard() as lines:
        try:
            return make()
        except dds.Exception as failure:
            raise refusal("".join(lines), where) from failure


def refusal(said: str, where: str) -> EngineUnavailable:
    """The error for what RTI said in its log while it failed."""
    if "LICENSE" in said.upper():
        return EngineUnavailable(
            f"RTI Connext has no licence that it accepts ({_first_line(said)}). It looks at "
            f"{'; '.join(LOOKED_AT)}. Get one from RTI and set RTI_LICENSE_FILE, or use the transport "
            f"'cyclone', which needs none. Note that {VENDORS}.",
            reason="no-licence",
        )
    return EngineUnavailable(
        f"RTI Connext cannot join {where}: {_first_line(said) or 'it gives no reason'}", reason="transport"
    )


@contextmanager
def _heard() -> Generator[list[str]]:
    """What RTI logs meanwhile, which goes to standard error otherwise."""
    lines: list[str] = []
    logger = dds.Logger.instance
    with _one_at_a_time:
        logger.output_handler(lines.append)
        try:
            yield lines
        finally:
            logger.reset_output_handler()


def _first_line(said: str) -> str:
    return next((line.strip() for line in said.splitlines() if line.strip()), "")[:300]
