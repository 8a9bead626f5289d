"""What an agent of the databus is called as a tool: in Genesis's manner, within what models take.

Genesis makes ``get_<specialization>_info`` in small letters, with ``_`` for blanks and hyphens, and looks at
neither characters nor length. What providers would refuse becomes a readable remainder with a hash, as
function names on every face do.
"""

from __future__ import annotations

from collections.abc import Sequence

from enginehost.names import face_name

FACE = "openai"
"""The strictest alphabet: letters, digits, ``_`` and ``-``, 64 at most."""


def tool_name(specializations: Sequence[str]) -> str:
    """The name that the first specialization gives; empty without one."""
    if not specializations:
        return ""
    subject = specializations[0].lower().replace(" ", "_").replace("-", "_")
    return face_name(f"get_{subject}_info", FACE)
