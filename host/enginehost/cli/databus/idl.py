"""``enginehost databus idl``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from enginehost.cli.output import say


class Language(StrEnum):
    """How types are written down."""

    IDL = "idl"
    XML = "xml"


def idl(
    era: Annotated[
        int | None,
        typer.Option(min=1, max=2, help="Only the types of one era of Genesis: 1 or 2.", show_default=False),
    ] = None,
    format: Annotated[
        Language, typer.Option(help="OMG IDL 4.2, or the XML that RTI Connext loads.")
    ] = Language.IDL,
) -> None:
    """Print the types of the databus for other DDS programs."""
    from enginehost.databus.idl import as_idl
    from enginehost.databus.rti_xml import as_rti_xml
    from enginehost.databus.types import types_of

    write = as_idl if format is Language.IDL else as_rti_xml
    say(write(types_of(era)))
