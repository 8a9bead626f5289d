"""Every error that a caller, an author or an operator can meet, in one tree.

::

    EngineHostError            internal            something in the host itself went wrong
    ├── ConfigError            config              a file or a setting is wrong (file, line, column, hint)
    ├── UnknownFunction        unknown_function    no such function for this caller (nearest names)
    ├── UnknownSession         unknown_session     no such session for this caller
    ├── InvalidArguments       invalid_arguments   the arguments do not fit the signature (JSON pointers)
    ├── InvalidRequest         invalid_request     the message around the arguments is malformed
    ├── Unauthorized           unauthorized        no caller, or one whose proof is wrong
    ├── Forbidden              forbidden           a known caller who may not do this
    ├── TooLarge               too_large           the request or the result is over a size limit
    ├── Overloaded             overloaded          a limit is reached; try again later (seconds)
    ├── CallTimeout            timeout             the deadline passed
    ├── CallCancelled          cancelled           the caller went away or cancelled
    ├── EngineUnavailable      engine_unavailable  the engine exists and cannot serve now (state, reason)
    ├── OutcomeUnknown         outcome_unknown     the call may or may not have run
    ├── ExecutionFailed        execution_failed    the function itself raised
    │   └── WaitsForPerson     waits_for_person    a person has to decide something first
    └── ResultInvalid          result_invalid      the function answered with what its signature forbids

Each class has a stable ``code`` and one row in :data:`ERROR_TABLE`, which every face reads.
``message`` is for people and may be shown to any caller: it never holds a secret, a traceback or
a local path. ``detail`` is a JSON object for machines under the same rule. What an operator may
see besides stands in ``__cause__`` and goes to the log only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, cast

MOST_TEXT = 4000
"""Characters of a text of an error that leave the host; texts that quote are cut far shorter."""


def shortened(text: str, most: int = MOST_TEXT) -> str:
    """The beginning and the end of a text that is longer than ``most``."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-(most // 2) :]}"


def bounded(value: Any) -> Any:
    """A JSON value with each text in it shortened."""
    if isinstance(value, str):
        return shortened(value)
    if isinstance(value, list | tuple):
        return [bounded(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        found = cast("dict[Any, Any]", value)
        return {bounded(name): bounded(item) for name, item in found.items()}
    return value


_MOST_NAME = 200
"""Characters of a name nobody has that are said."""


class ErrorRow(NamedTuple):
    """How one error code reads on every face.

    ``http`` is the HTTP status, ``bus`` the ``status`` of a ``FunctionExecutionReply`` (0 is
    success), ``jsonrpc`` the JSON-RPC error code, ``mcp_tool_error`` whether MCP carries it inside
    the tool result (so that the model sees it) rather than as a protocol error, ``exit`` the exit
    code of the command line.
    """

    http: int
    bus: int
    jsonrpc: int
    mcp_tool_error: bool
    exit: int
    title: str


ERROR_TABLE: Mapping[str, ErrorRow] = {
    "internal": ErrorRow(500, 1, -32603, False, 70, "Internal error"),
    "config": ErrorRow(500, 2, -32603, False, 78, "Configuration error"),
    "unknown_function": ErrorRow(404, 3, -32602, False, 3, "Unknown function"),
    "invalid_arguments": ErrorRow(422, 4, -32602, True, 4, "Invalid arguments"),
    "invalid_request": ErrorRow(400, 5, -32600, False, 2, "Invalid request"),
    "unauthorized": ErrorRow(401, 6, -32001, False, 77, "Unauthorized"),
    "forbidden": ErrorRow(403, 7, -32003, False, 77, "Forbidden"),
    "too_large": ErrorRow(413, 8, -32602, True, 5, "Too large"),
    "overloaded": ErrorRow(429, 9, -32029, True, 75, "Overloaded"),
    "timeout": ErrorRow(504, 10, -32008, True, 124, "Timed out"),
    "cancelled": ErrorRow(499, 11, -32800, True, 130, "Cancelled"),
    "engine_unavailable": ErrorRow(503, 12, -32004, True, 69, "Engine unavailable"),
    "outcome_unknown": ErrorRow(502, 13, -32013, True, 76, "Outcome unknown"),
    "execution_failed": ErrorRow(502, 14, -32000, True, 1, "Execution failed"),
    "result_invalid": ErrorRow(502, 15, -32015, True, 1, "Invalid result"),
    "unknown_session": ErrorRow(404, 16, -32016, False, 3, "Unknown session"),
    "waits_for_person": ErrorRow(409, 17, -32017, True, 6, "Waits for a person"),
}
"""The one table from an error's code to the codes of the faces."""


def is_failure(outcome: str) -> bool:
    """Whether an outcome (``ok``, or the code of an error) is a failure: a wait for a person is none."""
    return outcome not in ("", "ok", WaitsForPerson.code)


class EngineHostError(Exception):
    """Base of the tree; by itself: the host's own failure."""

    code: ClassVar[str] = "internal"
    recorded: str = ""
    """What log, audit and spans have in place of a message that quotes what a caller sent."""

    def __init__(self, message: str, *, detail: Mapping[str, Any] | None = None, recorded: str = "") -> None:
        super().__init__(message)
        if recorded:
            self.recorded = recorded
        self.message = message
        self.detail: dict[str, Any] = dict(detail or {})

    @property
    def row(self) -> ErrorRow:
        """This error's row of :data:`ERROR_TABLE`; that of ``internal`` for a code of a plugin's own."""
        return ERROR_TABLE.get(self.code, ERROR_TABLE["internal"])

    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls the class with the finished message, which most constructors do not take.
        return _restored, (type(self), self.args, self.__dict__)

    def to_json(self) -> dict[str, Any]:
        """``{"code", "message", "detail"}``: the form in which an error travels."""
        body: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.detail:
            body["detail"] = self.detail
        return body


class ConfigError(EngineHostError):
    """A file or a setting is wrong. ``line`` and ``column`` count from 1; 0 means the whole file.

    An engine that knows only the smss key at fault gives ``key``; the loader finds the place.
    ``detail`` leaves the path out (callers may see it); operators read ``path``. ``others`` are what else
    is wrong, where more was looked at than the first mistake.
    """

    code = "config"
    others: tuple[ConfigError, ...] = ()

    def __init__(
        self,
        message: str,
        *,
        path: str = "",
        line: int = 0,
        column: int = 0,
        hint: str = "",
        reason: str = "config",
        key: str = "",
    ) -> None:
        super().__init__(message, detail={"reason": reason} | ({"hint": hint} if hint else {}))
        self.path = path
        self.line = line
        self.column = column
        self.hint = hint
        self.reason = reason
        self.key = key

    @property
    def where(self) -> str:
        """``path:line:column``, as far as they are known."""
        return ":".join(str(part) for part in (self.path, self.line, self.column) if part)

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        text = f"{text} ({self.hint})" if self.hint else text
        return "; ".join([text, *map(str, self.others)])


class UnknownFunction(EngineHostError):
    """No function of this name exists for this caller.

    ``engine``: the name is the id of an engine, as SEMOSS's paths have it.
    """

    code = "unknown_function"

    def __init__(self, name: str, *, nearest: list[str] | None = None, engine: bool = False) -> None:
        nearest, name = nearest or [], shortened(name, _MOST_NAME)
        hint = f"; did you mean {', '.join(nearest)}?" if nearest else ""
        what = "no engine with the id" if engine else "no function named"
        super().__init__(f"{what} {name!r}{hint}", detail={"name": name, "nearest": nearest})


class UnknownSession(EngineHostError):
    """No session of this id exists for this caller; somebody else's answers the same."""

    code = "unknown_session"

    def __init__(self, session: str) -> None:
        session = shortened(session, _MOST_NAME)
        super().__init__(f"no session {session!r}", detail={"session": session})


class InvalidArguments(EngineHostError):
    """The arguments do not fit the signature.

    ``detail["errors"]`` is a list of ``{"pointer", "message", "allowed"?}``, with ``pointer`` an
    RFC 6901 JSON pointer into the arguments.
    """

    code = "invalid_arguments"

    def __init__(self, message: str, *, errors: list[dict[str, Any]] | None = None) -> None:
        super().__init__(message, detail={"errors": errors or [{"pointer": "", "message": message}]})


class InvalidRequest(EngineHostError):
    """The message that carries the arguments is malformed (not JSON, wrong content type, …)."""

    code = "invalid_request"


class Unauthorized(EngineHostError):
    """The caller gave no proof of who they are, or one that does not hold.

    ``challenge`` is how HTTP asks for one (``WWW-Authenticate``).
    """

    code = "unauthorized"
    challenge: str = 'Bearer realm="enginehost"'


class Forbidden(EngineHostError):
    """The caller is known and may not do this."""

    code = "forbidden"


class TooLarge(EngineHostError):
    """A request, an argument or a result is over a size limit (``detail``: ``limit``, ``size``, bytes)."""

    code = "too_large"

    def __init__(self, what: str, *, limit: int, size: int | None = None) -> None:
        limit = int(limit)  # settings hold subclasses of int, which JSON would not see as numbers
        detail: dict[str, Any] = {"limit": limit}
        if size is not None:
            detail["size"] = int(size)
        got = f"{size} bytes" if size is not None else "more"
        super().__init__(f"{what} may have {limit} bytes and has {got}", detail=detail)


class Overloaded(EngineHostError):
    """A limit is reached. ``retry_after`` is a hint in seconds."""

    code = "overloaded"

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message, detail={"retry_after": round(retry_after, 3)})
        self.retry_after = retry_after


class CallTimeout(EngineHostError):
    """The deadline passed (``detail["timeout"]`` in seconds); ``waited`` says for what it waited.

    ``limit`` says who set it: a key, a setting, the caller. ``detail["limit"]`` has it too.
    """

    code = "timeout"
    name = ""
    """Who did not answer; the host adds the limit of what it calls itself."""
    waited = ""

    def __init__(self, name: str, timeout: float, waited: str = "", *, limit: str = "") -> None:
        # a millisecond is fine enough, but no time at all is not what was asked for
        timeout = round(timeout, 3) or float(f"{timeout:.1g}")
        self.name, self.waited = name, waited
        why = f": {waited}" if waited else ""
        by = f" ({limit})" if limit else ""
        detail: dict[str, Any] = {"timeout": timeout} | ({"limit": limit} if limit else {})
        super().__init__(f"{name} did not answer within {timeout:g} s{by}{why}", detail=detail)


class CallCancelled(EngineHostError):
    """The call was cancelled before it answered."""

    code = "cancelled"


class EngineUnavailable(EngineHostError):
    """The engine is known and cannot serve now; ``detail`` has ``state`` and ``reason``."""

    code = "engine_unavailable"

    def __init__(self, message: str, *, state: str = "", reason: str = "") -> None:
        super().__init__(message, detail={k: v for k, v in (("state", state), ("reason", reason)) if v})


class OutcomeUnknown(EngineHostError):
    """The call may or may not have run: nothing may repeat it without asking."""

    code = "outcome_unknown"


class ExecutionFailed(EngineHostError):
    """The function itself raised. The cause is kept for the log; callers read its type and text.

    ``detail["type"]`` is the exception's class name.
    """

    code = "execution_failed"


class WaitsForPerson(ExecutionFailed):
    """A person has to decide something before the function goes on: nothing failed, and nothing is lost.

    ``detail`` has the ``questions``, and where they are decided.
    """

    code = "waits_for_person"


class ResultInvalid(EngineHostError):
    """The function answered with something its signature or the wire forbids."""

    code = "result_invalid"


def _restored(cls: type[EngineHostError], args: tuple[Any, ...], state: Mapping[str, Any]) -> EngineHostError:
    """A copy of an error, as pickle and copy make it."""
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


def _subclasses(cls: type[EngineHostError]) -> list[type[EngineHostError]]:
    return [cls, *(deep for sub in cls.__subclasses__() for deep in _subclasses(sub))]


def error_from_json(body: Mapping[str, Any]) -> EngineHostError:
    """The inverse of :meth:`EngineHostError.to_json`: the same class, message and detail.

    An unknown code becomes the base class, so that an older client understands a newer host; what is
    malformed in ``detail`` is left out.
    """
    classes = {cls.code: cls for cls in reversed(_subclasses(EngineHostError))}
    cls = classes.get(str(body.get("code", "")), EngineHostError)
    error = cls.__new__(cls)
    detail = body.get("detail")
    EngineHostError.__init__(
        error, str(body.get("message", "")), detail=detail if isinstance(detail, Mapping) else {}
    )
    if isinstance(error, Overloaded):
        after = error.detail.get("retry_after")
        error.retry_after = float(after) if isinstance(after, (int, float)) else 1.0
    if isinstance(error, ConfigError):
        error.path, error.line, error.column, error.key = "", 0, 0, ""
        error.hint, error.reason = (
            str(error.detail.get("hint", "")),
            str(error.detail.get("reason", "config")),
        )
    return error
