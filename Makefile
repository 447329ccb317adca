# `make demo` runs the main job, `make test` the tests on all cores, `make test-long` the costly ones, `make lint`
# the style and type checks, `make chaos SEED=7` a broad hour of random faults, `make docs` the site in build/site.
# Each first makes the environment that it needs in $(VENV), once, and again when what is installed from has changed.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
SEED ?= 0
SCHEDULES ?= 5000

BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
WANTED := Tacit needs Python 3.11 or newer. Name one that is installed: make PYTHON=/usr/bin/python3.12

# Tests start hundreds of processes: these read compiled modules, where the environment may forbid to write them.
test test-long: export PYTHONDONTWRITEBYTECODE =
# There is a worker for each core: threads of linear algebra besides would wait for each other.
test test-long: export OMP_NUM_THREADS = 1

.PHONY: demo test test-long lint chaos docs

demo: $(VENV)/.core
	$(BIN)/tacit run xclp-digits

test: $(VENV)/.test
	$(BIN)/python -m pytest --numprocesses logical --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

test-long: $(VENV)/.test
	$(BIN)/python -m pytest --numprocesses logical --dist loadfile --no-loadscope-reorder -m long $(PYTEST_ARGS)

docs: $(VENV)/.docs
	$(BIN)/python docs/build_site.py

chaos: $(VENV)/.test
	$(BIN)/tacit chaos --broad --seed $(SEED) --schedules $(SCHEDULES)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/.made:
	@command -v "$(PYTHON)" >/dev/null || { echo "error: there is no $(PYTHON). $(WANTED)" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "error: $(PYTHON) is $$("$(PYTHON)" -V 2>&1). $(WANTED)" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null \
		|| { echo "error: $(PYTHON) lacks the venv module. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	"$(PYTHON)" -m venv "$(VENV)"
	@touch $@

# Empty files note what is installed. The tests' install holds the core, so it notes both.
$(VENV)/.core: $(VENV)/.made setup.cfg setup.py pyproject.toml protocols/crypto/eightfold.c
	@echo "Installing Tacit and what it needs into $(VENV) (once)"
	@$(INSTALL) -e .
	@touch $@

$(VENV)/.test: $(VENV)/.made setup.cfg setup.py pyproject.toml protocols/crypto/eightfold.c
	@echo "Installing Tacit and what its tests need into $(VENV) (once)"
	@$(INSTALL) -e ".[test]"
	@touch $(VENV)/.core $@

$(VENV)/.docs: $(VENV)/.made setup.cfg setup.py pyproject.toml protocols/crypto/eightfold.c
	@echo "Installing Tacit and what its pages need into $(VENV) (once)"
	@$(INSTALL) -e ".[docs]"
	@touch $(VENV)/.core $@
