"""What another program's advertisement of an agent says, in either era, or why it is of no use.

A peer writes what it likes. Nothing of it is believed before it has been looked at here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from enginehost.databus.agents_capability import MARK
from enginehost.databus.metadata import is_incarnation
from enginehost.databus.offers import shown
from enginehost.values import MalformedJson, decode

MOST_WORDS = 100
LONGEST_WORD = 256
_NAMES = ("agent_id", "name", "service_name")
_RICH = ("capabilities", "specializations", "classification_tags", "model_info", "performance_metrics")


@dataclass(frozen=True, slots=True)
class AgentOffer:
    """One advertisement, understood. ``incarnation`` is empty for what is no host like this one.

    ``era`` 2: it is asked as Genesis 0.3 does, by ``replier`` where it says one.
    """

    id: str
    name: str
    service: str
    description: str = ""
    type: str = ""
    capabilities: tuple[str, ...] = ()
    specializations: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    model: str = ""
    default_capable: bool = False
    host: str = ""
    incarnation: str = ""
    era: int = 1
    replier: str = ""

    @property
    def function(self) -> str:
        """Its name in the catalog."""
        return f"{self.service}.{self.name}"


def understand_agent(values: Mapping[str, Any], era: int = 1) -> AgentOffer:
    """What ``AGENT_CAPABILITY`` says. Raises ``ValueError``, with the reason, where it is of no use."""
    for member in _NAMES:
        if fault := _name_fault(str(values[member])):
            raise ValueError(f"its {member} {fault}")
    info = _object(values["model_info"])
    mark: Any = info.get(MARK)
    mark = mark if isinstance(mark, dict) else {}
    incarnation: Any = mark.get("incarnation")
    return AgentOffer(
        id=values["agent_id"],
        name=values["name"],
        service=values["service_name"],
        description=shown(values["description"]),
        type=_word(values["agent_type"]),
        capabilities=_words(values["capabilities"]),
        specializations=_words(values["specializations"]),
        tags=_words(values["classification_tags"]),
        model=_model(values["model_info"], info),
        default_capable=bool(values["default_capable"]),
        host=_word(mark.get("host")),
        incarnation=incarnation if is_incarnation(incarnation) else "",
        era=era,
        replier=_word(values.get("replier_guid")),
    )


def second_era(values: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """What ``GENESIS_ADVERTISEMENT`` says of an agent, as the members of the first era's sample.

    Genesis writes each agent twice, the second time with less: what the later sample leaves out is taken from
    the one ``before``. Raises ``ValueError`` where its payload is no JSON object.
    """
    payload = _payload(str(values["payload"]))
    made: dict[str, Any] = {
        "agent_id": values["advertisement_id"],
        "name": payload.get("prefered_name") or values["name"],
        "description": values["description"],
        "service_name": values["service_name"],
        "last_seen": values["last_seen"],
    }
    for member in ("agent_type", "replier_guid"):
        made[member] = _word(payload.get(member)) or (before or {}).get(member, "")
    for member in _RICH:
        given = payload.get(member)
        made[member] = _text(given) if given else (before or {}).get(member, "")
    said = payload.get("default_capable")
    made["default_capable"] = bool(said) if said is not None else bool((before or {}).get("default_capable"))
    if before is not None and values["description"] == values["service_name"]:  # the shorter sample's
        made["description"] = before["description"] or made["description"]
    if isinstance(made["name"], str):
        return made
    raise ValueError("its prefered_name is no text")


def _payload(text: str) -> Mapping[str, Any]:
    try:
        found: Any = decode(text.encode()) if text else {}
    except (MalformedJson, UnicodeEncodeError):
        raise ValueError("its payload is no JSON") from None
    if isinstance(found, dict):
        return found
    raise ValueError("its payload is no JSON object")


def _name_fault(text: str) -> str:
    if not text:
        return "is empty"
    if len(text.encode(errors="replace")) > LONGEST_WORD:
        return f"has more than {LONGEST_WORD} bytes"
    return "" if text.isprintable() else "holds characters that cannot be shown"


def _words(text: Any) -> tuple[str, ...]:
    """The words in a JSON list; in JSON, or as Genesis has some of them, in a list within a text."""
    found = _json(text) if isinstance(text, str) else text
    listed: list[Any] = found if isinstance(found, list) else []
    words = (_word(one) for one in listed[:MOST_WORDS])
    return tuple(dict.fromkeys(word for word in words if word))


def _word(value: Any) -> str:
    """A short text that can be shown; empty for anything else."""
    if not isinstance(value, str) or len(value) > LONGEST_WORD:
        return ""
    return " ".join(value.split()) if value.isprintable() else ""


def _model(text: Any, info: Mapping[str, Any]) -> str:
    """The model's name, in an object or as the text itself."""
    for member in ("model", "model_name", "name"):
        if word := _word(info.get(member)):
            return word
    return "" if info or not isinstance(text, str) or text[:1] in '[{"' else _word(text)


def _object(text: Any) -> Mapping[str, Any]:
    found = _json(text) if isinstance(text, str) else text
    return found if isinstance(found, dict) else {}


def _json(text: str) -> Any:
    try:
        return decode(text.encode()) if text else None
    except (MalformedJson, UnicodeEncodeError):
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
