"""Commands pass the suite that every engine kind has to pass."""

import json
import sys
from typing import Any, ClassVar

from enginehost.testing import EngineContract
from enginehost_engines.command import CommandEngine

DOUBLE = """
import sys, time
n = float(sys.argv[1])
if n == 13:
    sys.exit("it does not like 13")
if n == 7:
    time.sleep(3600)
for _ in range(2):
    print(int(n)) if OUTPUT == "lines" else None
if OUTPUT != "lines":
    print(2 * n)
"""


def smss(output: str) -> str:
    command = json.dumps([sys.executable, "-I", "-c", f"OUTPUT = {output!r}{DOUBLE}", "{n}"])
    return (
        f"ENGINE_CLASS = Command\nCOMMAND = {command}\nCOMMAND_OUTPUT = {output}\n".replace("\\", "\\\\")
        + "FUNCTION_NAME = double\nFUNCTION_DESCRIPTION = Twice a number.\n"
        + 'FUNCTION_PARAMETERS = [{"name": "n", "type": "number", "required": true}]\n'
    )


class CommandContract(EngineContract):
    engine_class = CommandEngine
    failing_arguments = ({"n": 13},)
    slow_arguments: ClassVar[dict[str, Any]] = {"n": 7}


class TestCommand(CommandContract):
    smss = smss("json")
    examples = (({"n": 2}, 4), ({"n": 0.5}, 1.0))


class TestLines(CommandContract):
    smss = smss("lines")
    examples = (({"n": 2}, ["2", "2"]), ({"n": 3}, ["3", "3"]))
