"""Calls that need something of a person or of the client before they go on: answers, and approvals.

In the revision without a handshake the request ends with what is needed (``input_required``) and comes again
with it; what is known by then travels in a sealed ``requestState``. Before, the client was asked while its
request ran. Either way the function runs again from its beginning (:meth:`enginehost.engine.Call.ask`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import orjson

from enginehost.caller import Caller
from enginehost.errors import ExecutionFailed, WaitsForPerson
from enginehost.function import Approval, Function
from enginehost.questions import KINDS, Question, form
from enginehost.serve.mcp.messages import Request
from enginehost.serve.mcp.peer import Peer
from enginehost.serve.mcp.seal import Unsealed
from enginehost.serve.mcp.wire import (
    INVALID_PARAMS,
    META_SERVER,
    MISSING_CAPABILITY,
    Fault,
    InputRequired,
    server_info,
)
from enginehost.values import NotJson, write

if TYPE_CHECKING:
    from enginehost.serve.mcp.seal import Seal

STATE_SECONDS = 3_600.0
"""How long a person may take to answer, where the client carries the state."""
MOST_ROUNDS = 20
"""How often one call may ask."""
APPROVAL = "enginehost_approval"
"""The name of the question whether a call may run."""
_MOST_SHOWN = 2_000

Work = Callable[[Mapping[str, Any] | None], Awaitable[bytes]]
"""Runs the request with the answers there are."""


@dataclass(slots=True)
class _State:
    """What is known of a call that was asked for before. ``once`` may be used once."""

    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    asked: tuple[str, ...] = ()
    once: str = ""
    rounds: int = 0


def needs_approval(function: Function) -> bool:
    """Whether a person has to agree to each call; what does not say whether it destroys may do so."""
    hints, asks = function.signature.annotations, function.approval
    if asks is Approval.DESTRUCTIVE:
        return hints.destructive is not False and hints.read_only is not True
    return asks is Approval.ALWAYS


def approval_of(shown: str, arguments: Mapping[str, Any]) -> Question:
    """The question whether a call may run."""
    try:
        text = write(arguments).decode()
    except NotJson:
        text = str(arguments)
    said = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]} …"
    schema = {
        "type": "object",
        "properties": {
            "approve": {"type": "boolean", "title": "Run it", "description": "Whether it may run."}
        },
        "required": ["approve"],
    }
    return form(f"May {shown} run with {said}?", schema)


class Asking:
    """Runs requests that may ask."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal

    async def run(
        self, peer: Peer, request: Request, about: Any, work: Work, approval: Question | None = None
    ) -> bytes:
        """The result of ``work``, or what it needs (:class:`InputRequired`).

        ``about`` is what the answers are for: they count for nothing else. With ``approval`` it runs only
        once a person has agreed, and once for each time that they have. Raises what ``work`` raises,
        :class:`Fault`, and ``ExecutionFailed`` where a person did not agree or nobody can be asked.
        """
        params = request.params
        if approval is None and "inputResponses" not in params and "requestState" not in params:
            state = _State()
        else:
            state = await self._known(peer, request, about)
        while True:
            try:
                if approval is not None:
                    await self._approved(peer, state, approval)
                return await work(state.answers or None)
            except WaitsForPerson as error:
                asked: Any = error.detail.get("ask")
                if not isinstance(asked, dict) or not asked:
                    raise
                state.rounds += 1
                self._may_ask(peer, asked, state, error)
                if peer.modern:
                    return await self._required(peer.caller, request, about, asked, state)
                if (ask := peer.ask) is not None:
                    for name, question in asked.items():
                        state.answers[name] = await ask(question["method"], question.get("params", {}))

    async def _approved(self, peer: Peer, state: _State, approval: Question) -> None:
        answer = state.answers.get(APPROVAL)
        if answer is None or not approval.fits(answer):
            raise WaitsForPerson(approval.text, detail={"ask": {APPROVAL: approval.to_json()}})
        if answer["action"] != "accept" or answer["content"]["approve"] is not True:
            raise ExecutionFailed("it did not run: a person was asked and did not agree")
        if state.once and not await self._seal.use(state.once):
            raise ExecutionFailed("it did not run again: this approval has been used")
        state.once = ""

    def _may_ask(self, peer: Peer, asked: Mapping[str, Any], state: _State, error: WaitsForPerson) -> None:
        kinds = {KINDS[question["method"]] for question in asked.values()}
        missing = kinds - peer.asks
        if missing and peer.modern:
            needed = {"requiredCapabilities": {kind: dict[str, Any]() for kind in sorted(missing)}}
            raise Fault(MISSING_CAPABILITY, f"{error.message}; this client cannot be asked that", needed)
        if missing or (not peer.modern and peer.ask is None):
            raise ExecutionFailed(f"{error.message}; this client cannot be asked that") from error
        if state.rounds > MOST_ROUNDS:
            raise ExecutionFailed(f"it asked {MOST_ROUNDS} times, which is the most") from error

    async def _known(self, peer: Peer, request: Request, about: Any) -> _State:
        """What was answered so far. Raises :class:`Fault`."""
        params = request.params
        state = _State()
        if not peer.modern:
            return state
        sealed: Any = params.get("requestState")
        if sealed is not None:
            state = await self._unsealed(peer.caller, sealed, request, about)
        given: Any = params.get("inputResponses", {})
        if not isinstance(given, dict) or not all(isinstance(answer, dict) for answer in given.values()):
            raise Fault(INVALID_PARAMS, "inputResponses must be an object of objects")
        if APPROVAL not in state.asked:  # else anybody could say that they had been asked
            given = {name: answer for name, answer in given.items() if name != APPROVAL}
        state.answers |= given
        return state

    async def _required(
        self, caller: Caller, request: Request, about: Any, asked: Mapping[str, Any], state: _State
    ) -> InputRequired:
        known: dict[str, Any] = {
            "who": [caller.subject, caller.tenant],
            "what": _digest(request.method, about),
            "answers": state.answers,
            "asked": list(asked),
            "once": uuid4().hex,
            "rounds": state.rounds,
        }
        sealed = await self._seal.seal(known, STATE_SECONDS)
        result: dict[str, Any] = {
            "resultType": "input_required",
            "inputRequests": dict(asked),
            "requestState": sealed,
            "_meta": {META_SERVER: server_info()},
        }
        return InputRequired(write(result))

    async def _unsealed(self, caller: Caller, sealed: Any, request: Request, about: Any) -> _State:
        try:
            known = await self._seal.open(sealed) if isinstance(sealed, str) else None
        except Unsealed:
            known = None
        same = known is not None and known.get("what") == _digest(request.method, about)
        if known is None or not same or known.get("who") != [caller.subject, caller.tenant]:
            raise Fault(
                INVALID_PARAMS, "requestState is none that this request was answered with, or too old"
            )
        return _State(known["answers"], tuple(known["asked"]), known["once"], known["rounds"])


def _digest(method: str, about: Any) -> str:
    options = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
    try:
        text = orjson.dumps([method, about], default=str, option=options)
    except TypeError:  # integers beyond 64 bits
        text = write([method, about])
    return hashlib.sha256(text).hexdigest()
