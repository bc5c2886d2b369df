# The ways to use this checkout. Every target sets up what it needs by itself, in the virtual environment
# .venv, made with $(PYTHON) (3.11 or later).
#
#   make demo           show what Bursar does
#   make browser        show it in a browser: serves examples/browser on http://localhost:8000/
#   make test           linters, types and the tests, on both kernels: what a change must pass
#   make test-browser   the tests in headless Chromium, which must be installed
#   make test-sanitized the tests in which tasks run, on an extension that checks every access
#   make test-native    the tests in C: their long forms, under every sanitizer, by clang, and for AArch64 by emulation
#   make test-all       like test, and the slow tests, on every CPython found on this machine, and the two above
#   make bench          measure the workloads of benchmarks/ beside their peers, and draw the plots into build/bench
#   make bench-native   measure the native engine beside Go, oneTBB and Boost, as far as they are installed
#   make bench-browser  measure the browser host, under node and in headless Chromium
#   make docs           build the documentation site into build/site
#   make lint           linters and types only
#   make clean          remove all that these targets made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_BENCH := $(VENV)/.installed-bench
INSTALLED_BROWSER := $(VENV)/.installed-browser
INSTALLED_DOCS := $(VENV)/.installed-docs
PYODIDE := tests/browser/node_modules/.package-lock.json
NATIVE := CMakeLists.txt $(shell find native -type f)

# What depends on the kernel and is not about one of them, or about both at once: run on the one in Python too. Inside
# node and the browser there is no other, so what runs there ran on it already.
ON_PYTHON := $(addprefix tests/,law unit admission execution hosts evidence determinism attack model parity workflow/test_execute.py)
ON_PYTHON += -k "not node and not test_kernels"

# A file of tests is one worker's; there are as many workers as processors.
AT_ONCE := -n auto --dist loadfile

.PHONY: demo browser browser-kit test test-browser test-sanitized test-native test-all bench bench-native bench-browser
.PHONY: docs lint clean

demo: $(INSTALLED)
	$(BIN)/bursar demo

browser: $(INSTALLED) $(PYODIDE)
	$(BIN)/python scripts/browser_kit.py serve examples/browser

# Without npm the tests that need it are skipped, unless BURSAR_REQUIRE_BROWSER forbids it.
test: lint
	@! command -v npm >/dev/null || $(MAKE) --no-print-directory browser-kit
	$(BIN)/python -m pytest $(AT_ONCE)
	@! $(BIN)/python -c 'import sys, bursar.kernel; sys.exit(not bursar.kernel.NATIVE)' || \
	    (set -x; BURSAR_KERNEL=python $(BIN)/python -m pytest $(AT_ONCE) $(ON_PYTHON))
	PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python scripts/test_sanitized.py --quick

test-browser: $(INSTALLED_BROWSER) $(PYODIDE)
	BURSAR_REQUIRE_BROWSER=1 $(BIN)/python -m pytest -m browser

test-sanitized: $(INSTALLED)
	PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python scripts/test_sanitized.py

test-native: $(INSTALLED)
	$(BIN)/python scripts/test_native.py

test-all: test test-sanitized test-native
	$(BIN)/python scripts/test_all_pythons.py $(ON_PYTHON)

bench: $(INSTALLED_BENCH)
	@mkdir -p build/bench
	$(BIN)/python -m benchmarks --json build/bench/figures.json --plot build/bench/figures.svg

bench-native: $(INSTALLED)
	$(BIN)/python -m benchmarks.native

bench-browser: $(INSTALLED_BROWSER) $(PYODIDE)
	$(BIN)/python -m benchmarks.browser

docs: $(INSTALLED_DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html"

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	git ls-files -z "*.c" "*.h" | xargs -0 $(BIN)/clang-format --dry-run --Werror

clean:
	rm -rf .venv .venv-* build dist .pytest_cache .ruff_cache .hypothesis .benchmarks
	rm -rf tests/browser/node_modules tests/parity/artifacts
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
	$(BIN)/python -m pip install --quiet --editable '.[cli,dev,bench,graphs]'
	@touch $@

$(INSTALLED_BROWSER): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --editable '.[cli,dev,browser]'
	@touch $@

$(INSTALLED_DOCS): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --editable '.[cli,dev,docs]'
	@touch $@

browser-kit: $(PYODIDE)

$(PYODIDE): tests/browser/package-lock.json | $(INSTALLED)
	$(BIN)/python scripts/browser_kit.py install
	@touch $@
