# The ways to use this checkout. Every target sets up what it needs by itself, in the virtual environment
# .venv, made with $(PYTHON) (3.11 or later).
#
#   make demo       show what Bursar does
#   make test       linters, types and the tests: what a change must pass
#   make test-all   the same, and the slow tests, on every CPython found on this machine
#   make bench      measure the workloads of benchmarks/ beside their peers
#   make lint       linters and types only
#   make clean      remove all that these targets made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_BENCH := $(VENV)/.installed-bench
NATIVE := CMakeLists.txt $(shell find native -type f)

.PHONY: demo test test-all bench lint clean

demo: $(INSTALLED)
	$(BIN)/bursar demo

test: lint
	$(BIN)/python -m pytest

test-all: test
	$(BIN)/python scripts/test_all_pythons.py

bench: $(INSTALLED_BENCH)
	$(BIN)/python -m benchmarks

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

clean:
	rm -rf .venv .venv-* build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The install is editable: Python files are used where they lie, so only a change of the project's settings
# or of the C code asks for it again.
$(INSTALLED): pyproject.toml $(NATIVE)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	    "Bursar needs Python 3.11 or later, but $(PYTHON) is " + sys.version.split()[0] + "; try: make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[cli,dev]'
	@touch $@

$(INSTALLED_BENCH): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --editable '.[cli,dev,bench]'
	@touch $@
