"""What a request asks for, as options of a model of ``llm``; each model has its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from enginehost.errors import InvalidRequest
from enginehost.llm.model import ModelRequest

_NAMES = {
    "max_tokens": ("max_tokens", "max_output_tokens", "max_completion_tokens", "num_predict"),
    "temperature": ("temperature",),
    "stop": ("stop", "stop_sequences"),
    "reasoning": ("reasoning_effort", "thinking_effort", "thinking_level"),
}
"""Under which names models have what a request may ask for."""


def options_of(model: Any, request: ModelRequest, given: Mapping[str, Any]) -> Any:
    """The model's options. Raises :class:`InvalidRequest` for what it has none for."""
    found = {**given, **request.extra}
    asked = {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "stop": list(request.stop) or None,
        "reasoning": request.reasoning or None,
    }
    fields: Mapping[str, Any] = model.Options.model_fields
    for name, value in asked.items():
        if value is not None:
            option = next((one for one in _NAMES[name] if one in fields), None)
            if option is None:
                raise InvalidRequest(f"the model {model.model_id} of llm has no option for {name}")
            found[option] = _fitting(fields[option].annotation, value)
    try:
        return model.Options(**found)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InvalidRequest(f"the option {name} of {model.model_id}: {first['msg']}") from error


def _fitting(annotation: Any, value: Any) -> Any:
    """Some models have one text where others have a list of stop words."""
    if isinstance(value, list) and "list" not in str(annotation).lower():
        if len(value) > 1:
            raise InvalidRequest("this model of llm takes one stop word only")
        return value[0]
    return value


def check(model: Any, request: ModelRequest) -> None:
    """Refuse what ``llm``, or this model, cannot do."""
    name = model.model_id
    if request.tools and not model.supports_tools:
        raise InvalidRequest(f"the model {name} of llm calls no tools")
    if request.schema is not None and not model.supports_schema:
        raise InvalidRequest(f"the model {name} of llm gives no structured output")
    if request.tools and request.tool_choice.kind != "auto":
        raise InvalidRequest("llm leaves it to the model which tools it calls")
    if request.tools and not request.parallel_tools:
        raise InvalidRequest("llm cannot ask for one tool call at a time")
