"""What an operation answers with, as the schema of the function's result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from enginehost_engines.openapi.documents import Documents, Located
from enginehost_engines.openapi.faults import Found
from enginehost_engines.openapi.schemas import Definition, Direction, Schemas

_STREAMS = ("text/event-stream", "application/x-ndjson", "application/ndjson", "application/jsonl")


@dataclass(slots=True)
class Result:
    """``schema`` is ``None`` where nothing can be said; ``accept`` is set where the service has a choice."""

    schema: dict[str, Any] | None = None
    accept: str = ""
    streams: bool = False
    notes: list[Found] = field(default_factory=list)


def result_of(documents: Documents, schemas: Schemas, operation: Located, method: str) -> Result:
    """The result in all successful answers (2xx)."""
    result = Result()
    if method == "HEAD":
        return result
    answers = [
        (status, documents.follow(answer))
        for status, answer in operation.child("responses").items()
        if status.upper() == "2XX" or (len(status) == 3 and status.startswith("2") and status.isdigit())
    ]
    options: list[Any] = []
    references: dict[str, None] = {}
    is_known = bool(answers)
    for status, answer in answers:
        made = _answer(schemas, status, answer, result)
        if made is None:
            is_known = False
        else:
            references |= made.references
            result.notes += made.notes
            if made.schema not in options:
                options.append(made.schema)
    if not is_known or result.streams or True in options or {} in options:
        return result
    schema: Any = options[0] if len(options) == 1 else {"anyOf": options}
    if not isinstance(schema, dict):
        return result
    at = operation.child("responses")
    definitions = schemas.bundle(references, Direction.RESPONSE, result.notes, at)
    result.schema = {**schema, "$defs": definitions} if definitions else dict(schema)
    return result


def _answer(schemas: Schemas, status: str, answer: Located, result: Result) -> Definition | None:
    """The schema of one answer; ``None`` where it is not known."""
    types = dict(answer.child("content").items())
    if not types:
        return Definition({"type": "null"}) if status in ("204", "205") else None
    names = {name.partition(";")[0].strip().lower(): name for name in types}
    as_json = next((name for name in names if name.endswith(("/json", "+json"))), "")
    if as_json:
        if len(names) > 1:
            result.accept = as_json
        node = types[names[as_json]].child("schema")
        return schemas.convert(node, Direction.RESPONSE) if node.value is not None else None
    if stream := next((name for name in names if name in _STREAMS), ""):
        result.streams = True
        result.accept = stream
        return None
    if all(name.startswith("text/") or name.endswith("xml") for name in names):
        return Definition({"type": "string"})
    if "*/*" not in names:
        result.notes.append(answer.found(f"the result is bytes ({', '.join(names)[:100]})"))
    return None
