"""What a function may ask its caller in the middle of a call: a form, an answer of their model, their roots.

The words are MCP's (``elicitation/create``, ``sampling/createMessage``, ``roots/list``); any face may ask
them. Only the standard library is needed: this also loads in worker processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ELICITATION, SAMPLING, ROOTS = "elicitation", "sampling", "roots"
METHODS: Mapping[str, str] = {
    ELICITATION: "elicitation/create",
    SAMPLING: "sampling/createMessage",
    ROOTS: "roots/list",
}
"""What a caller has to be able to do, and the request that asks for it."""
KINDS: Mapping[str, str] = {method: kind for kind, method in METHODS.items()}

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


@dataclass(frozen=True, slots=True)
class Question:
    """One question. ``kind`` is what its caller has to be able to do (a key of :data:`METHODS`)."""

    kind: str
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """What it asks, for people."""
        message = self.params.get("message")
        return message if isinstance(message, str) else f"an answer of kind {self.kind} is needed"

    def to_json(self) -> dict[str, Any]:
        """``{"method", "params"}``: the form in which it travels."""
        return {"method": METHODS[self.kind], "params": dict(self.params)}

    def fits(self, answer: Any) -> bool:
        """Whether ``answer`` is one to this question. One that is not is asked for again."""
        if not isinstance(answer, Mapping):
            return False
        if self.kind == ROOTS:
            return isinstance(answer.get("roots"), Sequence)
        if self.kind == SAMPLING:
            return isinstance(answer.get("role"), str) and isinstance(answer.get("content"), Mapping | list)
        if answer.get("action") in ("decline", "cancel"):
            return True
        content: Any = answer.get("content")
        schema: Any = self.params.get("requestedSchema")
        return (
            answer.get("action") == "accept"
            and isinstance(content, Mapping)
            and _fills(schema or {}, content)
        )


def form(message: str, schema: Mapping[str, Any]) -> Question:
    """Ask a person to fill in a form; ``schema`` is an object of texts, numbers, booleans and choices.

    The answer is ``{"action": "accept", "content": {…}}``, or has the action ``decline`` or ``cancel``.
    """
    return Question(ELICITATION, {"message": message, "requestedSchema": schema})


def sample(prompt: str | Sequence[Mapping[str, Any]], max_tokens: int = 1_000, **further: Any) -> Question:
    """Ask the caller's model. ``prompt`` is a text, or messages as MCP has them; so are ``further`` members.

    The answer has ``role``, ``content`` and ``model``.
    """
    text = {"role": "user", "content": {"type": "text", "text": prompt}}
    messages = [text] if isinstance(prompt, str) else list(prompt)
    return Question(SAMPLING, {"messages": messages, "maxTokens": max_tokens, **further})


def roots() -> Question:
    """Ask which folders the caller works in: the answer has ``roots``."""
    return Question(ROOTS)


def _fills(schema: Mapping[str, Any], content: Mapping[str, Any]) -> bool:
    """Whether a form is filled in as its (flat) schema wants it."""
    properties: Any = schema.get("properties", {})
    if any(name not in content for name in schema.get("required", ())):
        return False
    return all(_is(properties.get(name, {}), value) for name, value in content.items())


def _is(schema: Mapping[str, Any], value: Any) -> bool:
    wanted = schema.get("type")
    if wanted == "array":
        items: Any = schema.get("items", {})
        return isinstance(value, list) and all(_is(items, item) for item in value)
    types = _TYPES.get(str(wanted))
    if types is not None and (
        not isinstance(value, types) or (isinstance(value, bool) and bool not in types)
    ):
        return wanted == "integer" and isinstance(value, float) and value.is_integer()
    choices = schema.get("enum") or [
        one.get("const") for one in (schema.get("oneOf") or schema.get("anyOf") or ())
    ]
    return not choices or value in choices
