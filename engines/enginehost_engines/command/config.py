"""The smss keys of Command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from enginehost.config import BadValue, EngineConfig
from enginehost_engines.command.words import read_command

Output = Literal["text", "json", "lines", "bytes"]
"""What becomes of what a program prints."""


def _check_command(command: list[Any]) -> list[Any]:
    read_command(command)
    return command


def _check_env(variables: dict[str, Any]) -> dict[str, str | None]:
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name:
            raise BadValue(f"COMMAND_ENV: {name[:80]!r} is no name of a variable", reason="bad-env")
        if value is not None and (not isinstance(value, str) or "\0" in value):
            hint = "write every value in quotes; null takes a variable away"
            raise BadValue(f"COMMAND_ENV: the value of {name[:80]} is no text", hint=hint, reason="bad-env")
    return variables


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def _check_codes(codes: Sequence[int]) -> Sequence[int]:
    if not codes or not all(0 <= code <= 255 for code in codes):
        message = "COMMAND_SUCCESS_CODES has to be a list of exit codes from 0 to 255"
        raise BadValue(message, hint="write [0, 1]", reason="bad-codes")
    return codes


class CommandConfig(EngineConfig):
    """What a smss file says about a program."""

    command: Annotated[list[Any], AfterValidator(_check_command)] = Field(
        description="The program and its arguments (JSON list). The program is looked for on the `PATH`;"
        " with a slash in it, relative to the smss file. `{name}` in an argument is the parameter of that"
        ' name; `["--n", "{n}"]` stands or is left out as a whole; `{"verbose": "--verbose"}` stands where'
        " the parameter is true.",
        examples=[["echo", "hello"]],
    )
    command_stdin: str = Field(
        default="none",
        description="What the program reads: `none`, `json` (all arguments as one JSON object), or a text"
        " with `{name}` in it.",
    )
    command_output: Annotated[Output, BeforeValidator(_lower)] = Field(
        default="text",
        description="What the result is: `text` (what it prints, without the last line break), `json`,"
        " `bytes`, or `lines` (a stream, line by line).",
    )
    command_folder: str = Field(
        default="", description="Where the program runs, relative to the smss file; absent: beside that file."
    )
    command_env: Annotated[dict[str, Any], AfterValidator(_check_env)] = Field(
        default_factory=dict,
        repr=False,
        description="Variables that the program gets besides the host's (JSON object of texts); `null` takes"
        " one away.",
    )
    command_success_codes: Annotated[list[int], AfterValidator(_check_codes)] = Field(
        default=[0], description="The exit codes that are no failure (JSON list)."
    )
    command_dashed: list[str] = Field(
        default_factory=list[str],
        description="Parameters whose value may begin with `-` where the program could take it for an option"
        " (JSON list).",
    )
    command_max_output_bytes: int = Field(
        default=16 * 1024 * 1024,
        ge=1,
        description="Size limit of what it prints (of one line in a stream), in bytes.",
    )
