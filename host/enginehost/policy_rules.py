"""The policy's language: rules that say who may view and call what.

::

    default: deny                  # where no rule allows: deny (when left out), view or call
    rules:
      - allow: call                # or view; to call implies to view
        callers: anyone            # anyone, anonymous, authenticated
        tags: [public]
      - allow: call
        subjects: [alice, "svc-*"]
        functions: ["weather_*"]
      - deny: call                 # still listed, not callable; deny: view hides it and forbids the call
        callers: anyone
        functions: [delete_everything]

A rule applies when everything in it holds; within a list one entry is enough. Entries are names or
patterns with ``*`` and ``?``, case counts. An entry of ``scopes`` with several scopes separated by
blanks asks for all of them. ``subjects``, ``scopes`` and ``tenants`` are what a proof says, so they
hold for authenticated callers only. What any rule denies, no rule allows.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator

from enginehost.checked_model import Section

Right = Literal["view", "call"]


def split_commas(value: Any) -> Any:
    """One text as a list: its parts between commas."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Word = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Words = Annotated[tuple[Word, ...], BeforeValidator(split_commas)]
"""A list of names; one text with commas will do."""
Patterns = Annotated[tuple[Word, ...], BeforeValidator(split_commas), Field(min_length=1)]
"""Like :data:`Words`, with at least one: an empty list would hold for nobody, which nobody means."""


class Rule(Section):
    """One rule: who, what, and which right it allows or denies."""

    name: str = Field(default="", description="What the rule is called in explanations.")
    allow: Right | None = Field(default=None, description="The right that the rule gives.")
    deny: Right | None = Field(default=None, description="The right that the rule takes; wins over allow.")
    callers: Literal["anyone", "anonymous", "authenticated"] | None = Field(
        default=None, description="Whether the caller has to have shown a proof."
    )
    subjects: Patterns | None = Field(default=None, description="Names of callers.")
    scopes: Patterns | None = Field(default=None, description="Scopes, one of which the proof grants.")
    tenants: Patterns | None = Field(default=None, description="Tenants of callers.")
    faces: Patterns | None = Field(default=None, description="Ways in: python, cli, http, mcp, databus, …")
    agents: Patterns | None = Field(
        default=None,
        description="Names of agents that ask on the caller's behalf. An allow rule believes a host on the"
        " databus only where it signs.",
    )
    functions: Patterns | None = Field(default=None, description="Names of functions; all when left out.")
    tags: Patterns | None = Field(default=None, description="Tags, one of which the function has.")

    @property
    def proven(self) -> bool:
        """Whether the rule asks for something that only a proof says."""
        return any((self.subjects, self.scopes, self.tenants))

    @field_validator("*", mode="before")
    @classmethod
    def _is_said(cls, value: Any) -> Any:
        """A key whose entries were all taken out, which YAML reads as null, must not come to mean *all*."""
        if value is None:
            raise ValueError("must not be empty: leave the key out where it does not matter")
        return value

    @model_validator(mode="after")
    def _is_clear(self) -> Self:
        if (self.allow is None) == (self.deny is None):
            raise ValueError("a rule has either allow or deny, with view or call")
        if self.proven and self.callers in ("anonymous", "anyone"):
            raise ValueError(
                f"callers: {self.callers} cannot go with subjects, scopes or tenants, "
                "which only authenticated callers have"
            )
        if self.allow and not self.proven and self.callers is None:
            raise ValueError("an allow rule says to whom: callers (anyone, …), subjects, scopes or tenants")
        return self


class PolicyRules(Section):
    """A whole policy as written."""

    default: Literal["deny", "view", "call"] = Field(
        default="deny", description="What every caller may do where no rule allows more."
    )
    rules: tuple[Rule, ...] = Field(default=(), description="The rules; their order does not matter.")
