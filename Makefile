# SPDX-License-Identifier: Apache-2.0
PYTHON ?= python3
VENV ?= .venv
JAX ?=
ARGS ?=
BIN := $(VENV)/bin
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt $(if $(JAX),'jax==$(JAX)')
SOURCES := brainevent tests benchmarks examples scripts docs conftest.py README.md

# Each page is a program, as each example is: those run that changed since they last went well, two at a time.
EXAMPLES := JAX_PLATFORMS=cpu $(BIN)/python scripts/run_examples.py
# The tests of a file share what is compiled for the first of them: so one process runs them all, the longest file first.
SUITE := JAX_PLATFORMS=cpu $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
PART ?=
CHEAP := -m "not gpu and not thorough" -q --cheaper-than

# Python keeps what it compiled of tests, whatever the environment says: to compile all of them takes 4 seconds.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL: # the steps share two cores, and one virtual environment
.PHONY: help demo quick like-users installed-test test test-thorough costs check format format-check lint types examples docs wheel bench clients test-gpu bench-gpu constraints clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  PYTHON=$(PYTHON) is the interpreter, VENV=$(VENV) the environment made from it: make test PYTHON=python3.13 VENV=.venv313"
	@echo "  JAX=... is the release to install, if not the newest in range:          make test PYTHON=python3.11 VENV=.venv311 JAX='0.10.*'"
	@echo "  ARGS=... is passed on to pytest and to the benchmarks:                  make test ARGS='-k vmap -x'"

demo: $(VENV)/.installed-plot ## Set everything up and show the main job
	$(BIN)/python -m examples.demo

quick: lint types $(VENV)/.installed-test ## Check in a minute: lint, types, and the tests that cost little
	$(SUITE) $(CHEAP) 0.02 $(ARGS) tests

like-users: $(VENV)/.installed-test ## Run the cheap tests as programs of users run: XLA optimizes, JAX lowers as it is
	$(SUITE) $(CHEAP) 0.01 --like-users $(ARGS) tests

test: $(VENV)/.installed-test ## Run the CPU suite
	$(SUITE) -m "not gpu and not thorough" $(ARGS) tests

test-thorough: $(VENV)/.installed-test ## Run what the CPU suite leaves out for its length; PART=k/13 runs a thirteenth
	$(SUITE) -m "thorough and not gpu" $(if $(PART),--part $(PART)) $(ARGS) tests

costs: $(VENV)/.installed-test ## Measure what each test costs, for quick and PART: writes tests/costs.tsv
	rm -rf build/kept
	$(SUITE) -m "not gpu" --record-costs $(ARGS) tests

check: format-check lint types docs wheel test ## Run all that CI runs: format, lint, types, documentation, wheel, tests

format: $(VENV)/.installed-dev ## Format the code, also that on the pages, and mend what the linter can mend
	$(BIN)/ruff check --fix-only --quiet $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

format-check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check $(SOURCES)

lint: $(VENV)/.installed-dev ## Check the code by rules
	$(BIN)/ruff check $(SOURCES)

types: $(VENV)/.installed-dev ## Check the types
	$(BIN)/mypy

examples: $(VENV)/.installed-docs ## Run every example that changed: of pages, docstrings and examples/
	@$(EXAMPLES)

docs: $(VENV)/.installed-docs ## Run every example that changed, and build the documentation into site/ if it did
	@$(EXAMPLES) --site
	@! grep -rnoE --include='*.html' '<(script|link|img)[^>]*(src|href)="?(https?:)?//[^">]*' site || { echo "site/ must not need another host"; exit 1; }
	@! grep -rnoE --include='*.html' '~(brainevent|collections|typing)\.[a-z.]*|= &lt;(class|factory|function)' site/api || { echo "signatures in site/api must be Python"; exit 1; }
	@echo "The documentation is at site/index.html"

wheel: $(VENV)/.installed-test ## Build the wheel, and run the README and the doctor where it alone is installed
	@$(BIN)/python scripts/check_wheel.py $(ARGS)

bench: $(VENV)/.installed-bench ## Measure on the CPU, beside other ways to the same end
	$(BIN)/python -m benchmarks $(ARGS)

clients: ## With PYTHON=python3.12: run the tests of packages that import brainevent, on this and on PyPI's: an hour
	@PYTHON=$(PYTHON) scripts/clients.sh $(ARGS)

# A machine with a GPU may have no network: these two run with $(PYTHON) as it is, and install nothing.
test-gpu: ## Run the GPU tests with $(PYTHON)
	$(PYTHON) -m pytest -m gpu $(ARGS) tests

bench-gpu: ## Measure on the GPU with $(PYTHON)
	$(PYTHON) -m benchmarks --gpu $(ARGS)

clean: ## Remove all that was built, but for $(VENV)
	rm -rf build dist site docs/operators docs/names.md docs/gallery.md docs/_static/gallery .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -path './.venv*' -prune -o -name __pycache__ -type d -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null || { \
	  echo "'$(PYTHON)' is no Python 3.11 or newer: install one and name it, as in: make demo PYTHON=python3.13" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments: install its venv package (Debian: apt install python3-venv) and run make again" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

installed-test: $(VENV)/.installed-test

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing brainevent into $(VENV) ..."
	@$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/.installed-%: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing brainevent[$*] into $(VENV) ..."
	@$(PIP_INSTALL) --editable '.[$*]'
	@touch $@ $(if $(filter dev,$*),$(VENV)/.installed-docs $(VENV)/.installed-test)

# Pinned: what the tools need. Not pinned: what the package itself needs, which is tested as users get it.
constraints: $(BIN)/python ## Renew constraints.txt: the newest tools (with the oldest Python that we support)
	rm -rf build/tools
	$(BIN)/python -m venv build/tools
	build/tools/bin/python -m pip install --quiet --disable-pip-version-check '.[bench,dev]'
	{ sed -n '/^#/p' constraints.txt; build/tools/bin/python -m pip freeze --exclude brainevent \
	  | grep -vE '^(jax|jaxlib|llvmlite|ml_dtypes|numba|numpy|opt_einsum|scipy)=='; } > build/constraints.txt
	mv build/constraints.txt constraints.txt
