"""Whose session a request may touch, and with which agents its caller may talk.

Who may call an agent's function may talk to the agent. A session is its owner's alone: to everybody else it
answers as one that there is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request

from enginehost.agents.identity import owner_of
from enginehost.agents.options import Options, options_from_json, options_of
from enginehost.agents.session import AgentSession
from enginehost.caller import LOCAL, Caller
from enginehost.errors import EngineUnavailable, Forbidden, InvalidRequest, Unauthorized, UnknownFunction
from enginehost.policy import CALL, VIEW
from enginehost.serve.execute import function_name
from enginehost.store.port import Owner

if TYPE_CHECKING:
    from enginehost.agents.service import AgentService
    from enginehost.host import Host
    from enginehost.signature import FunctionSignature


async def agents_of(host: Host) -> AgentService:
    """The host's agents, with the database open. Raises ``EngineUnavailable`` while the host stops."""
    if not host.accepting:
        raise EngineUnavailable("the host is stopping", state="closing")
    return await host.agents()


def caller_of(request: Request) -> Caller:
    """Who asks. Raises :class:`Unauthorized` for who could show a proof and showed none.

    All who show none are one caller, and would read each other's conversations.
    """
    caller: Caller = request.scope["enginehost"].caller
    if caller.may_prove and not caller.authenticated:
        raise Unauthorized("sessions need a proof here: send Authorization: Bearer TOKEN")
    return caller


def agent_named(host: Host, agents: AgentService, shown: str, caller: Caller) -> str:
    """The name of an agent that ``caller`` may talk to.

    Raises ``UnknownFunction`` (also where the caller may not view it), ``Forbidden``, ``EngineUnavailable``
    and ``InvalidRequest`` for a function that is no agent.
    """
    name = function_name(host, shown, caller)
    rights = _rights(host, agents, name, caller)
    if not rights & VIEW:
        host.entry(name, caller)  # says why there is none
        raise UnknownFunction(name)
    if name not in agents.agents:
        raise InvalidRequest(f"{name} is a function and no agent: it has no sessions")
    if not rights & CALL:
        raise Forbidden(f"{caller.subject} may not call {name}")
    return name


def may_talk(host: Host, agents: AgentService, caller: Caller) -> bool:
    """Whether there is an agent that the caller may talk to."""
    return any(_rights(host, agents, name, caller) & CALL for name in agents.agents if name)


def _rights(host: Host, agents: AgentService, name: str, caller: Caller) -> int:
    signature = _signature(host, agents, name)
    if signature is None:
        return 0
    return VIEW | CALL if caller is LOCAL else host.policy.rights(caller, signature)


def _signature(host: Host, agents: AgentService, name: str) -> FunctionSignature | None:
    """What the policy is asked about: the function, or an agent that only a program has registered."""
    entry = host.catalog.get(name)
    if entry is not None:
        return entry.signature
    return agents.signature(name) if name and name in agents.agents else None


async def options_in(agents: AgentService, session: str, owner: Owner) -> Options:
    """What a session goes on with: as its latest turn, else as it was started.

    Raises ``UnknownSession``.
    """
    runs = await agents.store.runs(session, owner)
    if runs:
        return options_from_json(runs[0].data.get("options", {}))
    rows = await agents.store.history(session, owner, limit=1)
    return options_of(rows[0] if rows else None)


async def session_of(
    host: Host, agents: AgentService, session: str, caller: Caller, *, agent: str = ""
) -> AgentSession:
    """A session whose agent the caller may talk to; ``agent`` goes on with it in its agent's place.

    Raises what :func:`agent_named` raises, and ``UnknownSession``.
    """
    options = Options(agent).over(await options_in(agents, session, owner_of(caller)))
    if not options.agent:
        raise InvalidRequest("no agent is said to answer in this session; name one as agent")
    try:
        agent_named(host, agents, options.agent, caller)
    except UnknownFunction as error:
        if not agent:
            error.message = (
                f"the agent of this session, {options.agent[:100]!r}, is not here (any more): the session"
                " goes on when it is back; begin another one with an agent that there is"
            )
        raise
    return AgentSession(agents, session, caller, options)
