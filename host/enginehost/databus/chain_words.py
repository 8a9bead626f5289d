"""The words by which monitors know the steps of a chain: Genesis's, and ours where it has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from enginehost.databus.types import ENTITY_TYPE, EVENT_TYPE
from enginehost.steps import StepKind


class Words(NamedTuple):
    """``event_type`` of a beginning and an end, and numbers for the ``MonitoringEvent`` of the end."""

    start: str
    end: str
    event_type: int
    entity_type: int


def _words(start: str, end: str, event_type: str, entity_type: str) -> Words:
    return Words(start, end, EVENT_TYPE.value(event_type), ENTITY_TYPE.value(entity_type))


WORDS: Mapping[StepKind, Words] = {
    StepKind.REQUEST: _words(
        "INTERFACE_REQUEST_START", "INTERFACE_REQUEST_COMPLETE", "AGENT_TO_AGENT_RESPONSE", "INTERFACE"
    ),
    StepKind.CALL: _words("FUNCTION_CALL_START", "FUNCTION_CALL_COMPLETE", "FUNCTION_RESULT", "FUNCTION"),
    StepKind.TURN: _words("AGENT_TURN_START", "AGENT_TURN_COMPLETE", "AGENT_TO_AGENT_RESPONSE", "AGENT"),
    StepKind.MODEL: _words("LLM_CALL_START", "LLM_CALL_COMPLETE", "FUNCTION_STATUS", "AGENT"),
    StepKind.CHOICE: _words("CLASSIFICATION_START", "CLASSIFICATION_RESULT", "FUNCTION_STATUS", "AGENT"),
    StepKind.TOOL: _words(
        "AGENT_TO_SERVICE_START", "SERVICE_TO_AGENT_COMPLETE", "FUNCTION_RESULT", "FUNCTION"
    ),
    StepKind.AGENT: _words(
        "AGENT_TO_AGENT_START", "AGENT_TO_AGENT_COMPLETE", "AGENT_TO_AGENT_RESPONSE", "AGENT"
    ),
}

MEANING: Mapping[str, tuple[StepKind, bool]] = {
    word: (kind, word == words.end) for kind, words in WORDS.items() for word in (words.start, words.end)
}
"""By ``event_type``: which kind of step, and whether it is its end."""
