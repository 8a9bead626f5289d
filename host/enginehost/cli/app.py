"""The root of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import typer

from enginehost.cli.failures import REPORTING
from enginehost.cli.lazy import Commands


class HostCommands(Commands):
    """The commands of the host, in the order in which a newcomer needs them."""

    own: ClassVar[Mapping[str, str]] = {
        "run": "Serve a folder of smss files until stopped.",
        "new": "Write a first smss file of a kind, with its script.",
        "import": "Make smss files of what other programs wrote.",
        "list": "List the functions, or the models.",
        "describe": "Describe a function, or print its spec for a vendor.",
        "call": "Call a function and print its result as JSON.",
        "chat": "Talk with an agent.",
        "tools": "Print the functions as a list of tools, as JSON.",
        "validate": "Check smss files without running them (unless asked to load their code).",
        "doctor": "Say in one page what is wrong here and how to mend it.",
        "plugins": "List the plugins and the kinds of engine they provide.",
        "policy": "Explain who may view and call what.",
        "mcp": "Serve a folder to the MCP client that starts this, over stdin and stdout.",
        "databus": "Look at the databus: who and what is on it, and what is wrong.",
        "monitor": "Watch who is on the databus and what they do.",
        "chains": "List the latest recorded chains, for `replay` and `why`.",
        "replay": "Show a recorded chain as a timeline.",
        "why": "Say why a recorded chain failed, or what took its time.",
        "token": "Make a bearer token and the settings that accept it.",
    }


app = typer.Typer(
    cls=HostCommands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from enginehost import __version__

        typer.echo(f"enginehost {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and the log.")] = False,
) -> None:
    """Drop a .smss file into a folder; call its functions everywhere."""
    REPORTING.debug = debug
    if debug:
        import logging

        from enginehost.cli.prints import ForTerminal

        handler = logging.StreamHandler()
        handler.setFormatter(ForTerminal("%(levelname)s %(name)s: %(message)s"))
        logging.basicConfig(level=logging.DEBUG, handlers=[handler])
    else:
        _keep_the_log_quiet()


def _keep_the_log_quiet() -> None:
    """What the log would say, the commands say themselves; ``run`` sets up a log of its own."""
    import logging

    logging.getLogger("enginehost").addHandler(logging.NullHandler())
