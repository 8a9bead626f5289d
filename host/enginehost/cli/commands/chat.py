"""``enginehost chat``."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from typing import Annotated

import typer

from enginehost.cli.complete import function_names
from enginehost.cli.failures import CommandError
from enginehost.cli.options import Config, FolderOrUrl, Json, Token, Url
from enginehost.cli.output import emphasised, note, on_terminal
from enginehost.cli.source import Where

app = typer.Typer()


@app.command()
def chat(
    agent: Annotated[
        str, typer.Argument(help="The agent: the name of its function.", autocompletion=function_names)
    ],
    session: Annotated[str, typer.Option(help="Go on with the session of this id.", show_default=False)] = "",
    message: Annotated[
        str | None,
        typer.Option("--message", "-m", help="Say this, show the answer, and end.", show_default=False),
    ] = None,
    folder: FolderOrUrl = None,
    url: Url = None,
    token: Token = None,
    config: Config = None,
    json_output: Json = False,
) -> None:
    """Talk with an agent.

    Its answers are shown as they come, with its tool calls and its questions to you. Without a terminal,
    what stands on standard input is said as one message. With --json each event is a line of JSON.
    """
    from anyio.from_thread import start_blocking_portal

    from enginehost.cli.chat.link import link_to
    from enginehost.cli.chat.show import show_for
    from enginehost.cli.chat.talk import Leave, Talk

    where = Where.given(folder, config, url, token)
    person = on_terminal(sys.stdin) and not json_output
    said = message if message is not None or on_terminal(sys.stdin) else sys.stdin.read().strip()
    if said is None and not person:
        raise CommandError("--json needs a message", hint="give --message TEXT, or standard input")
    if said is not None and not said:
        raise CommandError("there is nothing to say", hint="give --message TEXT, or standard input")
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(where.open()) as source:
        link = link_to(source)
        talk = Talk(portal, link, show_for(json_output), asks=person)
        try:
            talk.begin(portal.call(link.start, agent, session))
            note(emphasised(f"session {talk.session}", sys.stderr, "dim"))
            if said is not None:
                _end(talk.turn(said), where.chat(agent, talk.session))
            else:
                _edit_lines()
                talk.converse()
        except Leave:
            note("left; the session stays")
        finally:
            talk.end()


def _edit_lines() -> None:
    """Arrow keys and a history of what was typed, where Python has them."""
    with suppress(ImportError):
        import_module("readline")


def _end(run: dict[str, object], command: str) -> None:
    """End with the exit code that belongs to how a turn ended. ``command`` goes on with the session."""
    from enginehost.errors import CallCancelled, EngineHostError, Forbidden, error_from_json

    error: EngineHostError
    if run["state"] == "done":
        return
    if run["state"] == "cancelled":
        error = CallCancelled("the turn was cancelled")
    elif run["state"] == "failed":
        found = run.get("error")
        error = error_from_json(found if isinstance(found, dict) else {"message": "the turn failed"})
    else:
        error = Forbidden("a call waits for the decision of a person")
        error.detail["hint"] = f"decide it with `{command}`"
    raise error
