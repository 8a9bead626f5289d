"""Four programs that find each other on the databus: an interface, two agents, and a service.

Usage::

    examples/multi_agent/run [--model MODEL] [--domain N] [QUESTION …]

Without ``--model`` the models are scripted: no key, no network, always the same answers. With it the agents
ask that model of OpenAI (``OPENAI_API_KEY``), or of the server that ``OPENAI_BASE_URL`` names.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

from chain import drawn, read, trees

HERE = Path(__file__).parent
OPENAI = "https://api.openai.com/v1"
PATIENCE = 60.0
PROGRAMS = ("calculator", "weather", "primary")
QUESTIONS = (
    "What is 12.5 * 4?",
    "How is the weather in Lisbon?",
    "How much warmer is Lisbon than Oslo?",
)


def main() -> int:
    """Show it; the exit code is that of the interface."""
    given = arguments()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        state = Path(folder)
        settings = environment(state, given.model, given.domain)
        for one in [running.enter_context(Program(name, state, settings)) for name in PROGRAMS]:
            if not one.starts():
                sys.stderr.write(f"{one.name} does not start:\n{''.join(one.said)}\n")
                return 1
        desk = subprocess.run(
            [sys.executable, str(HERE / "desk.py"), *(given.questions or QUESTIONS)],
            env=settings,
            check=False,
        )
        running.close()  # so that the audits are whole
        for root in trees(read(state.glob("*.jsonl"))):
            print("", *drawn(root, "desk (interface)"), sep="\n")
    return desk.returncode


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], prog="run")
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help="what to ask; three by default")
    parser.add_argument("--model", default=os.environ.get("DEMO_MODEL", ""), help="a real model's id")
    parser.add_argument("--domain", type=int, default=42, help="the databus domain (42)")
    return parser.parse_args()


def environment(state: Path, model: str, domain: int) -> dict[str, str]:
    """The settings of all programs: a domain of their own, and nothing kept."""
    if model and importlib.util.find_spec("enginehost_openai") is None:
        raise SystemExit("a real model needs: .venv/bin/pip install ./plugins/enginehost-openai")
    others = {name: text for name, text in os.environ.items() if not name.startswith("ENGINEHOST_")}
    return others | {
        "XDG_STATE_HOME": str(state),
        "ENGINEHOST_CONFIG": str(HERE / "enginehost.yaml"),
        "ENGINEHOST_DATABUS__DOMAIN": str(domain),
        "ENGINEHOST_FOLDER": str(HERE / "models" / ("real" if model else "scripted")),
        "DEMO_MODEL": model,
        "OPENAI_BASE_URL": os.environ.get("OPENAI_BASE_URL") or OPENAI,
    }


class Program:
    """A program of the network, from ``with`` on; at the end it is asked to stop."""

    def __init__(self, name: str, state: Path, settings: dict[str, str]) -> None:
        self.name = name
        self.said: list[str] = []
        self._settings = settings | {"ENGINEHOST_AUDIT__PATH": str(state / f"{name}.jsonl")}
        self._on_bus = False
        self._known = threading.Event()

    def __enter__(self) -> Program:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / f"{self.name}.py")],
            env=self._settings,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._listening = threading.Thread(target=self._listen)
        self._listening.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._listening.join()

    def starts(self) -> bool:
        """Wait until it is on the bus, or has ended; whether it is."""
        self._known.wait(PATIENCE)
        return self._on_bus

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.said.append(line)
            if not self._on_bus and " offers " in line:
                print(line.strip(), flush=True)
                self._on_bus = True
                self._known.set()
        self._known.set()


if __name__ == "__main__":
    sys.exit(main())
