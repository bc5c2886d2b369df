# The ways to use this checkout. Every target sets up what it needs by itself, in the virtual environment
# .venv, made with $(PYTHON) (3.11 or later).
#
#   make demo           show what Bursar does
#   make browser        show it in a browser: serves examples/browser on http://localhost:8000/
#   make test           linters, types and the tests, on both kernels: what a change must pass
#   make test-all       the same, and every slow test; its parts can be run one by one (HACKING.md, "Testing"):
#       test-slow               slow tests without a part of their own
#       test-model              long random programs: on both kernels, on every host, after every step
#       test-fuzz               thousands of random inputs of each kind
#       test-faults             every request for memory fails in turn, in whole runs as well
#       test-lifetimes          millions of lives leave nothing behind
#       test-kill               workflows that are killed at any point, and resumed
#       test-install            installs into fresh environments, with and without a compiler
#       test-sanitized          on an extension that checks every access
#       test-no-fast-paths      on an extension in which every operation takes its slow path
#       test-no-private-layouts on an extension that knows no private layout of CPython
#       test-native             the tests in C, in every way; test-native-thread-gcc and so on: in one
#       test-pythons            the whole suite on the other CPythons of this machine
#       test-browser            the tests in headless Chromium, which must be installed
#   make test-python-kernel     a part of `make test`: what depends on the kernel, on the one in Python
#   make bench          measure the workloads of benchmarks/ beside their peers, and draw a bar chart into build/bench
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
ON_PYTHON := $(addprefix tests/,law unit ops io drive threads fibers supervision hosts trace evidence determinism attack model parity)
ON_PYTHON += tests/workflow/test_execute.py
ON_PYTHON += -k "not node and not test_kernels"

# A file of tests is one worker's; there are as many workers as processors.
AT_ONCE := -n auto --dist loadfile

SLOW := $(BIN)/python -m pytest -n auto --dist worksteal -m "slow and not browser"
IN_BUILD := PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python scripts/test_build.py
BUILDS := sanitized no-fast-paths no-private-layouts

# The slow tests of each part. test-slow takes the rest, so that none is forgotten.
MODEL := $(addprefix tests/,model parity determinism)
FUZZ := tests/fuzz
FAULTS := tests/native/kernel/test_faults.py
LIFETIMES := tests/native/kernel/test_lifetimes.py
KILL := tests/workflow/test_kill.py
INSTALL := tests/project/test_install.py
PARTS := test-slow test-model test-fuzz test-faults test-lifetimes test-kill test-install $(BUILDS:%=test-%) test-native test-pythons
PARTS += test-browser

.PHONY: demo browser browser-kit test test-python-kernel test-all $(PARTS) bench bench-native bench-browser
.PHONY: docs lint clean
.NOTPARALLEL: # each part takes all processors

demo: $(INSTALLED)
	$(BIN)/bursar demo

browser: $(INSTALLED) $(PYODIDE)
	$(BIN)/python scripts/browser_kit.py serve examples/browser

# Without npm the tests that need it are skipped, unless BURSAR_REQUIRE_BROWSER forbids it.
test: lint
	@! command -v npm >/dev/null || $(MAKE) --no-print-directory browser-kit
	$(BIN)/python -m pytest $(AT_ONCE)
	@$(MAKE) --no-print-directory test-python-kernel
	for build in $(BUILDS); do $(IN_BUILD) $$build --quick || exit; done

# Where there is no other kernel, all that `make test` runs is on this one.
test-python-kernel: $(INSTALLED)
	@! $(BIN)/python -c 'import sys, bursar.backend; sys.exit(not bursar.backend.NATIVE)' || \
	    (set -x; BURSAR_KERNEL=python $(BIN)/python -m pytest $(AT_ONCE) $(ON_PYTHON))

test-all: test docs $(PARTS)

test-slow: $(INSTALLED)
	$(SLOW) $(addprefix --ignore=,$(MODEL) $(FUZZ) $(FAULTS) $(LIFETIMES) $(KILL) $(INSTALL))

test-model: $(INSTALLED)
	$(SLOW) $(MODEL)

test-fuzz: $(INSTALLED)
	$(SLOW) $(FUZZ)

test-faults: $(INSTALLED)
	$(SLOW) $(FAULTS)

test-lifetimes: $(INSTALLED)
	$(SLOW) $(LIFETIMES)

test-kill: $(INSTALLED)
	$(SLOW) $(KILL)

test-install: $(INSTALLED)
	$(SLOW) $(INSTALL)

$(BUILDS:%=test-%): test-%: $(INSTALLED)
	$(IN_BUILD) $*

test-native: $(INSTALLED)
	$(BIN)/python scripts/test_native.py

test-native-%: $(INSTALLED)
	$(BIN)/python scripts/test_native.py $*

test-pythons: $(INSTALLED)
	$(BIN)/python scripts/test_all_pythons.py $(ON_PYTHON)

test-browser: $(INSTALLED_BROWSER) $(PYODIDE)
	BURSAR_REQUIRE_BROWSER=1 $(BIN)/python -m pytest -m browser

bench: $(INSTALLED_BENCH)
	@mkdir -p build/bench
	$(BIN)/python -m bursar_benchmarks --json build/bench/figures.json --plot build/bench/figures.svg

bench-native: $(INSTALLED)
	$(BIN)/python -m bursar_benchmarks.native

bench-browser: $(INSTALLED_BROWSER) $(PYODIDE)
	$(BIN)/python -m bursar_benchmarks.browser

# The variable silences a notice, not a warning about these pages: the theme gets fixes until May 2027, and its
# successor, Zensical, reads the same mkdocs.yml.
docs: $(INSTALLED_DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html; for the search: python -m http.server -d build/site"

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
	@! command -v cc >/dev/null || $(BIN)/python -c 'import bursar._native' || \
	    { echo "the extension was not built although there is a C compiler; see: pip install --verbose ." >&2; exit 1; }
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
