"""The smss keys of an agent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, NonNegativeInt, PositiveFloat, PositiveInt

from enginehost.agents.contract import ApprovalPolicy, OnLimit, ToolSelection, TurnLimits, UnknownOutcome
from enginehost.agents.facts import AGENT_TYPE, AgentFacts
from enginehost.agents.stages.passing import is_pattern
from enginehost.config import BadValue, EngineConfig, lower_case
from enginehost.errors import InvalidRequest
from enginehost.narrowing import BM25, MOST_TOOLS, check_classifier

EVERYTHING = "*"
"""In the place of names: all there are."""

_WORDS_OF_APPROVAL = ("destructive", "every", "none")


def _words(value: list[str] | str) -> list[str]:
    """Names, from a JSON list or with commas or blanks between them."""
    listed = [one for one in re.split(r"[,\s]+", value) if one] if isinstance(value, str) else value
    return list(dict.fromkeys(listed))


def _words_or_none(value: list[str] | str | None) -> list[str] | None:
    return None if value is None else _words(value)


def _check_approval(value: list[str]) -> list[str]:
    if "none" in value and len(value) > 1:
        raise BadValue("APPROVE: none stands alone", hint="write none, or name what asks", reason="bad-value")
    return value


def _phrases(value: list[str] | str) -> list[str]:
    """Words that may have blanks in them, from a JSON list or with commas between them."""
    listed = value.split(",") if isinstance(value, str) else value
    return list(dict.fromkeys(one for raw in listed if (one := " ".join(raw.split()))))


def _check_classifier(value: str) -> str:
    try:
        return check_classifier(value)
    except InvalidRequest as error:
        text, _, hint = error.message.partition("; ")
        raise BadValue(f"TOOLS_CLASSIFIER: {text}", hint=hint, reason="bad-value") from None


Words = Annotated[list[str] | str, AfterValidator(_words)]
Phrases = Annotated[list[str] | str, AfterValidator(_phrases)]


class AgentConfig(EngineConfig):
    """What a smss file says about an agent. A Python class says the same by attributes of these names."""

    model: str = Field(
        default="",
        description="The model engine that it talks to: id, alias or display name. Absent: the only one there"
        " is.",
    )
    fallback_model: str = Field(
        default="",
        description="The model engine that answers where the first fails before it has said anything.",
    )
    instructions: str = Field(
        default="",
        description="What the model is told first: a text, or a file `*.md` or `*.txt` relative to the smss"
        " file. It comes after the text of AGENT_DIR's AGENT.md.",
    )
    agent_dir: str = Field(
        default="",
        description="A folder relative to the smss file with an `AGENT.md` (or `AGENTS.md`) and a folder"
        " `skills`.",
    )
    tools: Words = Field(
        default="",
        description="The functions that it may call, of those that its caller may: names (JSON list, or with"
        " commas), or `*` for all.",
    )
    tool_tags: Words = Field(default="", description="Functions with one of these tags, too.")
    tools_most: NonNegativeInt = Field(
        default=MOST_TOOLS,
        description="Tools that the model is shown at most. Of more it sees those that the conversation has"
        " called and those that fit what the user said last; all may be called. 0: shows all.",
    )
    tools_classifier: Annotated[str, AfterValidator(_check_classifier)] = Field(
        default=BM25,
        description="What finds the tools that fit: `bm25` (words; no model), `embedding:ENGINE` (a model"
        " engine that gives embeddings), or `llm:MODEL` (a model that is asked). Where it fails, words"
        " decide.",
    )
    lazy_tools: Words = Field(
        default="",
        description="Read-only functions whose results are not stored but asked for again whenever the"
        " conversation is loaded.",
    )
    group_tools_above: int = Field(
        default=100,
        ge=0,
        description="With more functions than these the model is shown three tools in their place: `describe`"
        " finds functions, `query` and `action` call them. (Providers take 128 tools at most.)",
    )
    agents: Words = Field(
        default="",
        description="Other agents that it may ask, each in a conversation of its own: of this host, or of"
        " others on the databus.",
    )
    skills: Annotated[list[str] | str | None, AfterValidator(_words_or_none)] = Field(
        default=None,
        description="Which skills it may read, of AGENT_DIR's and those in the folder `skills` beside the"
        " smss files: names, or `*` for all of both. Absent: all of AGENT_DIR's.",
    )
    stages: list[Any] | str = Field(
        default="",
        description="What messages go through on their way from the model: names, or a JSON list with objects"
        ' for arguments, `["hide_reasoning", {"budget": {"tokens": 50000}}]`. `package.module:function` is a'
        " stage of your own, where the host's setting in_process_python allows it.",
    )
    context_stages: list[Any] | str = Field(default="", description="Likewise, for what the model is shown.")
    harness: Any = Field(
        default="",
        description="`package.module:Class` of a harness that makes the context, where the host's setting"
        " in_process_python allows it.",
    )
    approve: Annotated[list[str] | str, AfterValidator(_words), AfterValidator(_check_approval)] = Field(
        default="destructive",
        description="Which calls a person decides on, besides those whose function asks for it (APPROVAL):"
        " `destructive` (what says so of itself), `every` (all that are not read-only), `none`, names of"
        " functions, or patterns such as `delete_*`.",
    )
    on_unknown_outcome: Annotated[UnknownOutcome, BeforeValidator(lower_case)] = Field(
        default=UnknownOutcome.ASK,
        description="What happens to a call whose process died while it ran, or whose host on the databus"
        " vanished, unless it may be repeated: `ask` a person, `fail` it, or `retry`.",
    )
    stream: bool = Field(
        default=False, description="Whether its function gives the answer text by text, as the model says it."
    )
    max_steps: PositiveInt | None = Field(default=50, description="Questions to the model in one turn.")
    max_tool_calls: PositiveInt | None = Field(default=200, description="Calls of functions in one turn.")
    max_turn_tokens: PositiveInt | None = Field(default=None, description="Tokens of one turn, in and out.")
    max_turn_seconds: PositiveFloat = Field(
        default=900.0, description="Seconds of one turn; waiting for people does not count."
    )
    parallel_tools: PositiveInt = Field(default=16, description="Functions of one turn that run at once.")
    max_depth: PositiveInt = Field(default=5, description="How deep agents may ask agents.")
    max_result_chars: PositiveInt = Field(
        default=200_000,
        description="Characters of a function's result that the model is shown; all of it is stored.",
    )
    on_limit: Annotated[OnLimit, BeforeValidator(lower_case)] = Field(
        default=OnLimit.STOP,
        description="What happens at a limit: `stop` the turn with a notice, or `ask` a person whether it may"
        " go on as long again.",
    )

    agent_type: str = Field(
        default=AGENT_TYPE,
        min_length=1,
        max_length=128,
        description="What kind of agent it is, for those who choose among agents on the databus:"
        " `AGENT`, `SPECIALIZED_AGENT`, or a word of your own.",
    )
    specializations: Phrases = Field(
        default="",
        description="Its subjects, for those who choose (JSON list, or with commas). On the databus the first"
        " one gives the agent's name as a tool: `weather` is `get_weather_info`.",
    )
    capabilities: Phrases = Field(
        default="", description="What it can do, for those who choose (JSON list, or with commas)."
    )
    default_capable: bool = Field(
        default=False, description="Whether it is to answer on the databus where nobody chose an agent."
    )

    @property
    def facts(self) -> AgentFacts:
        """What it says of itself to those who choose among agents."""
        return AgentFacts(
            self.agent_type,
            tuple(_phrases(self.capabilities)),
            tuple(_phrases(self.specializations)),
            self.default_capable,
            self.model,
        )

    @property
    def selection(self) -> ToolSelection:
        """The tools."""
        names = words(self.tools)
        named = tuple(name for name in names if name != EVERYTHING)
        return ToolSelection(EVERYTHING in names, named, tuple(words(self.tool_tags)))

    @property
    def limits(self) -> TurnLimits:
        """What a turn may use."""
        return TurnLimits(
            self.max_steps,
            self.max_tool_calls,
            self.max_turn_tokens,
            self.max_turn_seconds,
            self.parallel_tools,
            self.max_depth,
            self.max_result_chars,
            self.on_limit,
        )

    @property
    def approval(self) -> ApprovalPolicy:
        """Which calls ask, but for :attr:`approval_patterns`."""
        named = words(self.approve)
        tools = [one for one in named if one not in _WORDS_OF_APPROVAL and not is_pattern(one)]
        return ApprovalPolicy("none" not in named, "every" in named, tuple(tools))

    @property
    def approval_patterns(self) -> list[str]:
        """Patterns of names of tools that ask."""
        return [one for one in words(self.approve) if is_pattern(one)]


def words(value: Sequence[str] | str) -> list[str]:
    """The names in a value of type :data:`Words`."""
    return _words(value) if isinstance(value, str) else list(value)
