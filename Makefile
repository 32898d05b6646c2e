# Astrarium: a fresh machine needs Python >= 3.10 and a C++20 compiler; `make run` and `make test` do the rest.
PYTHON     ?= python3
VENV       ?= .venv
PYTEST_ARGS ?=
JOBS       ?= 2
CMAKE_JOBS ?= 2
OUT        ?= src/astrarium
SEED       := $(or $(SEED),$(shell date +%s))

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint .ci/constraints.txt
CPP := $(shell find native ns3 -name '*.cpp' -o -name '*.hpp')
SOURCES := pyproject.toml CMakeLists.txt $(shell find src native -type f ! -name '*.pyc' ! -name '_core*.so')
# A test file runs in one process, so that what its tests share is made once.
AT_ONCE := --numprocesses $(JOBS) --dist loadfile
# A build that fails stops make; `ASTRARIUM_REQUIRE_CORE=0 make run` goes on with the pure-Python engine instead.
export ASTRARIUM_REQUIRE_CORE ?= 1
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(CMAKE_JOBS)

.DEFAULT_GOAL := help
.PHONY: help run test browser roam native-tests sanitize exam build lint types stubs contracts docs-examples prose docs bench dist dev-core ns3 clean

help:  ## what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  PYTHON=...  interpreter to build with (default python3);  VENV=...  virtual environment (default .venv)"
	@echo "  PYTEST_ARGS='...' goes to pytest;  JOBS=2 test processes at once (0: in pytest's own)"
	@echo "  dev-core:   PYTHON needs nanobind; OUT=dir; CMAKE_JOBS=2"

run: $(VENV)/.installed  ## install into .venv and run the quick start: a table, and a timeline for ui.perfetto.dev
	$(BIN)/astrarium run examples/quickstart/design.yaml --timeline examples/quickstart/timeline.json

test: $(VENV)/.test  ## install into .venv and run the tests (about 5 minutes on 2 cores)
	$(BIN)/python -m pytest -q $(AT_ONCE) $(PYTEST_ARGS)

browser: $(VENV)/.browser  ## open every page in Chromium: sizes, themes, keyboard, accessibility, pictures (about 2 minutes)
	$(BIN)/python -m pytest -q -m browser tests/browser $(PYTEST_ARGS)

roam: $(VENV)/.test  ## the same tests, whose random cases are drawn from a new seed; prints it, and SEED=... repeats it
	@echo "make roam SEED=$(SEED) repeats this run"
	ASTRARIUM_SEED=$(SEED) $(BIN)/python -m pytest -q --hypothesis-profile=roaming --hypothesis-seed=$(SEED) $(AT_ONCE) $(PYTEST_ARGS)

native-tests: $(VENV)/.test  ## unit tests of the engine's parts in C++, under ASan and UBSan
	$(BIN)/cmake -S . -B build/tests -DPython_EXECUTABLE=$(abspath $(BIN)/python) -DASTRARIUM_TESTS=ON -DCMAKE_BUILD_TYPE=Debug
	$(BIN)/cmake --build build/tests --target native_tests --parallel $(CMAKE_JOBS)
	build/tests/native_tests

sanitize: native-tests  ## the engine's tests under ASan and UBSan, and the unit tests in C++
	PYTHON=$(BIN)/python tools/sanitize.sh $(PYTEST_ARGS)

exam: $(VENV)/.exam  ## the long and heavy parts: large cases, fuzzing, kill tests, optional dependencies
	$(BIN)/python -m pytest -q -m exam --hypothesis-profile=exam $(PYTEST_ARGS)

build: $(VENV)/.installed  ## install into .venv

lint: $(VENV)/.dev  ## ruff, clang-format, and the limits on the length of files, functions and C++ classes
	$(BIN)/ruff check .
	$(BIN)/python tools/limits.py
	$(BIN)/python tools/cpp_limits.py
	$(BIN)/clang-format --dry-run -Werror $(CPP)

types: $(VENV)/.dev  ## mypy --strict, also of what README and docs show; the stub of the compiled core is up to date
	$(BIN)/mypy
	$(BIN)/python tools/typed_blocks.py
	$(BIN)/python tools/stubs.py --check

stubs: $(VENV)/.dev  ## write src/astrarium/_core/*.pyi from the compiled core
	$(BIN)/python tools/stubs.py

contracts: $(VENV)/.dev  ## rooms import downward only; only _native.py touches the core; compatibility is two tables
	$(BIN)/lint-imports
	$(BIN)/python tools/contracts.py
	$(BIN)/python tools/rooms.py --check

docs-examples: $(VENV)/.test  ## of the tests: every code block of README and docs, and every example, prints what it says
	$(BIN)/python -m pytest -q tests/packaging/test_readme.py $(wildcard tests/examples)

prose: $(VENV)/.installed  ## write what README, docs and the quick start really print into them, docs/reference, the order of rooms
	$(BIN)/python tools/reference.py
	$(BIN)/python tools/model_figures.py
	$(BIN)/python tools/rooms.py
	$(BIN)/python tools/readme_figure.py
	$(BIN)/python tools/prose.py

docs: $(VENV)/.docs  ## build the documentation into site/
	$(BIN)/mkdocs build --strict

bench: $(VENV)/.installed  ## print the figures that the README quotes
	@set -e; for script in $(sort $(filter-out benchmarks/_%,$(wildcard benchmarks/*.py))); do echo "== $$script"; $(BIN)/python $$script; done

dist: $(VENV)/.dev  ## build sdist and wheel into dist/, check them, and try the wheel in an empty environment
	rm -rf dist
	$(PIP) build twine
	ASTRARIUM_REQUIRE_CORE=1 $(BIN)/python -m build -q
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tools/try_wheel.py dist/*.whl

dev-core:  ## build astrarium._core with CMake straight into src/astrarium/, incrementally (for work on native/)
	@PYTHON="$(PYTHON)" OUT="$(OUT)" CMAKE_JOBS="$(CMAKE_JOBS)" tools/dev_core.sh

ns3:  ## build the program behind network.backend: ns3 (needs ns-3; Debian: libns3-dev libgsl-dev libxml2-dev libsqlite3-dev)
	@$(MAKE) --no-print-directory -C ns3

clean:  ## remove what was built
	rm -rf build dist wheelhouse site ns3/build $(VENV) src/astrarium/_core*.so

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and f"Astrarium needs Python >= 3.10; {sys.executable} is {sys.version.split()[0]}. Try: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

# Build tools live in the environment, so that a rebuild compiles only what changed.
$(VENV)/.build-tools: .ci/constraints.txt | $(BIN)/python
	$(PIP) 'scikit-build-core>=0.10' 'nanobind>=2.4' cmake ninja
	@touch $@

$(VENV)/.installed: $(SOURCES) $(VENV)/.build-tools
	$(PIP) --no-build-isolation .
	@[ "$(ASTRARIUM_REQUIRE_CORE)" != 1 ] || (cd $(VENV) && bin/python -c 'import astrarium._core')
	@touch $@

$(VENV)/.test $(VENV)/.exam $(VENV)/.dev $(VENV)/.docs $(VENV)/.browser: $(VENV)/.%: pyproject.toml .ci/constraints.txt | $(VENV)/.installed
	$(PIP) 'astrarium[$*]'
	@[ $* != browser ] || tools/chromium.sh $(BIN)
	@touch $@
