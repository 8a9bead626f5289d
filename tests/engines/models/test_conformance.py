"""``Scripted`` does what every model engine must."""

from __future__ import annotations

from pathlib import Path

from enginehost.testing import ModelContract
from enginehost_engines.models import ScriptedModel

SCRIPT = """
answers:
  - when: {text: tools}
    reply:
      - call: {tool: weather.today, args: {town: Bonn}}
      - call: {tool: weather.today, args: {town: Köln}}
  - when: {result: weather.today}
    say: It is fine.
  - when: {text: json}
    reply: [{data: {town: Bonn, degrees: 21}}]
  - when: {text: think}
    reply: [{reasoning: Let me see.}, {text: I see.}]
  - when: {text: endless}
    reply: [{text: Once}, {hang: true}]
  - when: {text: cut}
    reply: [{text: Once}, {cut: true}]
  - when: {text: fail}
    reply: [{error: {kind: failed, status: 400}}]
  - say: Hello to you too.
"""


class TestScripted(ModelContract):
    engine_class = ScriptedModel
    smss = "ENGINE_CLASS = Scripted\nSCRIPT = script.yaml\n"
    calls_a_tool = "tools"
    gives_data = "json"
    thinks = "think"
    never_ends = "endless"
    is_cut = "cut"
    fails = "fail"

    def prepare(self, folder: Path) -> None:
        (folder / "script.yaml").write_text(SCRIPT, encoding="utf-8")
