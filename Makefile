# `make demo` runs the main job, `make test` the tests on all cores, `make test-long` the costly ones, `make lint`
# the style and type checks, `make chaos SEED=7` a broad hour of random faults, `make docs` the site in build/site,
# `make mutants` plants 51 bugs to see who finds them.
# Each first makes the environment that it needs in $(VENV), once, and again when what is installed from has changed.
#
# Environments hold the exact versions of $(LOCK), which `make lock` renews. `make newest` and `make oldest` test with
# the newest and the lowest versions that the ranges in setup.cfg allow. `LOCK=` installs without a lock.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
SEED ?= 0
SCHEDULES ?= 5000
MUTANTS ?=
LOCK ?= requirements.lock
# The published tables were computed with these; `make lock TORCH=` takes the newest.
TORCH ?= torch==2.13.0 torchvision==0.28.0

BIN := $(VENV)/bin
# pip applies the first variable to what it installs, and, by its version, the first or the second to what it builds with.
INSTALL := $(if $(LOCK),PIP_CONSTRAINT="$(abspath $(LOCK))" PIP_BUILD_CONSTRAINT="$(abspath $(LOCK))") \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check
SOURCES := setup.cfg setup.py pyproject.toml $(wildcard protocols/crypto/*.[ch]) $(LOCK)
UV := build/uv/bin/uv
# Versions for every Python from 3.11 on, a week old at least: newer ones are not on every mirror yet.
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --exclude-newer "1 week" --no-header --no-annotate \
	--upgrade setup.cfg
WANTED := Tacit needs Python 3.11 or newer. Name one that is installed: make PYTHON=/usr/bin/python3.12

# Tests and pages start many processes: these read compiled modules, where the environment may forbid to write them.
test test-long docs: export PYTHONDONTWRITEBYTECODE =
# There is a worker for each core: threads of linear algebra besides would wait for each other.
test test-long: export OMP_NUM_THREADS = 1

# Many long tests wait for deadlines in real seconds, so one worker more than there are cores keeps these busy.
WORKERS = $(shell $(BIN)/python -c "import os; print((os.cpu_count() or 1) + 1)")

.PHONY: demo test test-long lint chaos mutants docs lock newest oldest

demo: $(VENV)/.core
	$(BIN)/tacit run xclp-digits

test: $(VENV)/.test
	$(BIN)/python -m pytest --numprocesses logical --dist loadfile --no-loadscope-reorder --max-worker-restart 1 \
		$(PYTEST_ARGS)

test-long: $(VENV)/.test
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 1 \
		-m long -o timeout=1800 -o faulthandler_timeout=2400 $(PYTEST_ARGS)

docs: $(VENV)/.docs
	$(BIN)/python docs/build_site.py

chaos: $(VENV)/.test
	$(BIN)/tacit chaos --broad --seed $(SEED) --schedules $(SCHEDULES)

mutants: $(VENV)/.test
	$(BIN)/python -m tests.mutants.run $(MUTANTS)

# The type checker finds the packages under the names that they have once installed: by links in build/typed.
lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	mkdir -p build/typed/tacit
	ln -sfn $(patsubst %,../../../%,sim parties protocols scenarios benchmarks tacit/__init__.py tacit/__main__.py) build/typed/tacit/
	cd build/typed && $(abspath $(BIN))/mypy --config-file ../../pyproject.toml

lock: $(UV)
	printf '%s\n' $(TORCH) | $(COMPILE) --extra test --extra docs --constraint - --output-file requirements.lock

newest: $(UV)
	$(COMPILE) --extra test --output-file build/newest.txt
	$(COMPILE) --extra docs --output-file build/newest-docs.txt
	$(MAKE) test VENV=build/newest LOCK=build/newest.txt
	$(MAKE) docs VENV=build/newest-docs LOCK=build/newest-docs.txt

oldest: $(UV)
	$(COMPILE) --extra test --resolution lowest-direct --output-file build/oldest.txt
	$(MAKE) test VENV=build/oldest LOCK=build/oldest.txt

$(UV):
	"$(PYTHON)" -m venv build/uv
	build/uv/bin/python -m pip install --quiet --disable-pip-version-check uv

$(VENV)/.made:
	@command -v "$(PYTHON)" >/dev/null || { echo "error: there is no $(PYTHON). $(WANTED)" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "error: $(PYTHON) is $$("$(PYTHON)" -V 2>&1). $(WANTED)" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null \
		|| { echo "error: $(PYTHON) lacks the venv module. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	"$(PYTHON)" -m venv "$(VENV)"
	@touch $@

# Empty files note what is installed. The tests' install holds the core, so it notes both.
$(VENV)/.core: $(VENV)/.made $(SOURCES)
	@echo "Installing Tacit and what it needs into $(VENV) (once)"
	@$(INSTALL) -e .
	@touch $@

$(VENV)/.test: $(VENV)/.made $(SOURCES)
	@echo "Installing Tacit and what its tests need into $(VENV) (once)"
	@$(INSTALL) -e ".[test]"
	@touch $(VENV)/.core $@

$(VENV)/.docs: $(VENV)/.made $(SOURCES)
	@echo "Installing Tacit and what its pages need into $(VENV) (once)"
	@$(INSTALL) -e ".[docs]"
	@touch $(VENV)/.core $@
