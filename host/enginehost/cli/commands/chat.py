"""``enginehost chat``."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from enginehost.cli.complete import function_names
from enginehost.cli.failures import CommandError
from enginehost.cli.options import BusInterface, Config, Domain, FolderOrUrl, Json, OnBus, Token, Url
from enginehost.cli.output import emphasised, note, on_terminal
from enginehost.cli.source import BusPlace, Where

if TYPE_CHECKING:
    from enginehost.cli.chat.on_bus import BusTalk
    from enginehost.errors import EngineHostError

app = typer.Typer()


@app.command()
def chat(
    agent: Annotated[
        str,
        typer.Argument(
            help="The agent: the name of its function. With --bus it may be left out.",
            autocompletion=function_names,
            show_default=False,
        ),
    ] = "",
    session: Annotated[str, typer.Option(help="Go on with the session of this id.", show_default=False)] = "",
    message: Annotated[
        str | None,
        typer.Option("--message", "-m", help="Say this, show the answer, and end.", show_default=False),
    ] = None,
    folder: FolderOrUrl = None,
    url: Url = None,
    token: Token = None,
    config: Config = None,
    bus: OnBus = False,
    domain: Domain = None,
    bus_interface: BusInterface = None,
    json_output: Json = False,
) -> None:
    """Talk with an agent.

    Its answers are shown as they come, with its tool calls and its questions to you. Without a terminal,
    what stands on standard input is said as one message. With --json each event is a line of JSON. With
    --bus you choose among the agents of the databus, or each message goes to the one that it is for.
    """
    where = Where.given(folder, config, url, token, bus=BusPlace.given(bus, domain, bus_interface))
    if not agent and where.bus is None:
        hint = "give its name; with --bus you choose among those of the databus"
        raise CommandError("the agent is missing", hint=hint)
    person = on_terminal(sys.stdin) and not json_output
    said = message if message is not None or on_terminal(sys.stdin) else sys.stdin.read().strip()
    if said is None and not person:
        raise CommandError("--json needs a message", hint="give --message TEXT, or standard input")
    if said is not None and not said.strip():
        raise CommandError("there is nothing to say", hint="give --message TEXT, or standard input")
    talks = _chat if where.bus is None else _chat_on_bus
    talks(where, agent, session, said, as_json=json_output, person=person)


def _chat(where: Where, agent: str, session: str, said: str | None, *, as_json: bool, person: bool) -> None:
    from anyio.from_thread import start_blocking_portal

    from enginehost.cli.chat.link import link_to
    from enginehost.cli.chat.show import show_for
    from enginehost.cli.chat.talk import Talk

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(where.open()) as source:
        link = link_to(source)
        talk = Talk(portal, link, show_for(as_json), asks=person)
        try:
            with _leaving("left; the session stays"):
                talk.begin(portal.call(link.start, agent, session))
                note(emphasised(f"session {talk.session}", sys.stderr, "dim"))
                if said is not None:
                    _end(talk.turn(said), where.chat(agent, talk.session))
                else:
                    _edit_lines()
                    talk.converse()
        finally:
            talk.end()


def _chat_on_bus(
    where: Where, agent: str, session: str, said: str | None, *, as_json: bool, person: bool
) -> None:
    from anyio.from_thread import start_blocking_portal

    from enginehost.cli.bus import bus_settings
    from enginehost.cli.chat.on_bus import BusTalk
    from enginehost.cli.chat.show import show_for
    from enginehost.databus.config import config_of
    from enginehost.databus.link import DISCOVERY_SECONDS
    from enginehost.errors import EngineHostError
    from enginehost.genesis.interface import Interface

    place = where.bus or BusPlace()
    settings = bus_settings(where.folder, where.config, place.domain, place.interface)
    ui = Interface("chat", config_of(settings))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(ui):
        talk = BusTalk(portal, ui, show_for(as_json), asks=person, session=session)
        try:
            with _leaving("left"):
                if agent:
                    talk.agent = portal.call(ui.wait_for, agent, DISCOVERY_SECONDS)
                if said is not None:
                    talk.turn(said)
                else:
                    _edit_lines()
                    talk.converse()
        except EngineHostError as error:
            raise _waiting(error, where, talk) from None
        finally:
            talk.end()


@contextmanager
def _leaving(said: str) -> Generator[None]:
    """Say something where the person leaves."""
    from enginehost.cli.chat.deciding import Leave

    try:
        yield
    except Leave:
        note(said)


def _edit_lines() -> None:
    """Arrow keys and a history of what was typed, where Python has them."""
    with suppress(ImportError):
        import_module("readline")


def _waiting(error: EngineHostError, where: Where, talk: BusTalk) -> EngineHostError:
    """The error as it is, but for a turn that waits for a person: how it is decided from here."""
    from enginehost.errors import WaitsForPerson

    if not isinstance(error, WaitsForPerson) or talk.asked is None:
        return error
    return _undecided(where.chat(talk.asked.name, talk.conversation(talk.asked)))


def _undecided(command: str) -> EngineHostError:
    from enginehost.errors import Forbidden

    error = Forbidden("a call waits for the decision of a person")
    error.detail["hint"] = f"decide it with `{command}`"
    return error


def _end(run: dict[str, object], command: str) -> None:
    """End with the exit code that belongs to how a turn ended. ``command`` goes on with the session."""
    from enginehost.errors import CallCancelled, error_from_json

    if run["state"] == "done":
        return
    if run["state"] == "cancelled":
        raise CallCancelled("the turn was cancelled")
    if run["state"] == "failed":
        found = run.get("error")
        raise error_from_json(found if isinstance(found, dict) else {"message": "the turn failed"})
    raise _undecided(command)
