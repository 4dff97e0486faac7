# Two commands set everything up: `make demo` and `make test`. `make` alone says what there is and what is missing.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-full fuzz fuzz-http coverage check architecture tables brokers keys grants bench wheel clean

# The first CPython 3.11 on PATH; `make PYTHON=/path/to/python3.11 ...` names another.
PYTHON ?= $(shell for name in python3.11 python3 python; do \
	path=$$(command -v $$name 2>/dev/null) && $$path -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null \
	&& echo $$path && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest --durations=20
NAME ?= drain
MINUTES ?= 10
ONLY ?=
# The optional compiled way of a batch; without a C compiler raymirror copies in pure Python.
NATIVE := $(wildcard setup.py engine/wire/native/src/*)

help:
	@echo 'raymirror keeps Apache Kafka clusters in step.'
	@echo
	@echo '  make demo       two real clusters, a live mirror with Spark, two proofs of the copy (sets everything up first)'
	@echo '  make test       the tests (sets everything up first): with Ray, with brokers, without, side by side'
	@echo '  make test-full  all tests, the long ones too, in the same way; both print the slowest'
	@echo '  make fuzz       search for inputs that break a reader: make fuzz MINUTES=10 ONLY=wire'
	@echo '  make fuzz-http  ask the HTTP server for all that its OpenAPI document allows, and more: make fuzz-http MINUTES=10'
	@echo '  make check      lint, format, types'
	@echo '  make coverage   unit tests; every branch of policies, engine/wire and engine/core'
	@echo '  make architecture  draw the packages and their imports: docs/architecture.md'
	@echo '  make tables     write docs/tables.md from the description of the tables'
	@echo '  make brokers    write the table of docs/brokers.md from engine/kafka/capabilities'
	@echo '  make keys       write the tables of engine/CONFIG.md from policies/keys'
	@echo '  make grants     write the tables of docs/grants.md from policies/grants'
	@echo '  make bench      one benchmark: make bench NAME=drain'
	@echo '  make setup      only set up: $(VENV) from requirements.lock; builds the native module if there is a C compiler'
	@echo '  make wheel      a wheel of raymirror for this platform, with the native module: dist/'
	@echo '  make clean      remove $(VENV) and caches of the tools'
	@echo
	@$(if $(PYTHON),$(PYTHON) deploy/preflight.py --venv $(VENV) || true,echo 'missing: CPython 3.11 on PATH (or: make PYTHON=/path/to/python3.11 ...)')

setup: $(STAMP)

# setuptools goes first: PySpark comes as source, and its build must use the locked setuptools, not the newest.
# The stamp is written last, so an interrupted set-up continues where it was. A virtual environment that is broken, or of
# another Python, is created again.
$(STAMP): requirements.lock pyproject.toml $(NATIVE)
	@$(if $(PYTHON),,echo 'raymirror needs CPython 3.11 and none is on PATH: install it (Debian: apt install python3.11 python3.11-venv), or: make PYTHON=/path/to/python3.11 ...' >&2; exit 2)
	@$(PYTHON) deploy/preflight.py --venv $(VENV) --about-to-install
	@rm -f $(STAMP)
	@test "$$($(BIN)/python -c 'import math, pip, sys; print(sys.base_prefix)' 2>/dev/null)" \
	    = "$$($(PYTHON) -c 'import sys; print(sys.base_prefix)')" || $(PYTHON) -m venv --clear $(VENV)
	sed -n '/^setuptools==/,/[^\\]$$/p' requirements.lock > $(VENV)/setuptools.lock
	$(BIN)/python -m pip install --quiet --require-hashes -r $(VENV)/setuptools.lock
	$(BIN)/python -m pip install --quiet --require-hashes --no-build-isolation --use-pep517 --no-deps -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --no-index -e .
	@$(BIN)/python -c 'from engine.wire import native; print("the way of a batch: " + native.in_use())'
	@touch $(STAMP)

demo: setup
	@$(PYTHON) deploy/preflight.py --venv $(VENV) --about-to-run
	@$(BIN)/raymirror demo

test: setup
	@$(PYTHON) deploy/preflight.py --venv $(VENV) --about-to-run
	@$(BIN)/python -m tests.streams --durations=20

test-full: setup
	@$(PYTHON) deploy/preflight.py --venv $(VENV) --about-to-run
	@$(BIN)/python -m tests.streams --full --durations=20

fuzz: setup
	@$(BIN)/python -m pip install --quiet 'atheris>=3,<4' || echo 'atheris does not install here' >&2
	@$(BIN)/python -m tests.fuzz $(MINUTES) $(ONLY)

fuzz-http: setup
	@$(BIN)/python -m tests.fuzz.http $(MINUTES)

coverage: setup
	@$(PYTEST) tests/unit --cov=policies --cov=engine.wire --cov=engine.core --cov-branch --cov-report=term-missing --cov-fail-under=100

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

architecture: setup
	@$(BIN)/python -m bench house --draw docs/architecture.md > /dev/null

tables: setup
	@$(BIN)/python -m engine.jobs.sql.page docs/tables.md

brokers: setup
	@$(BIN)/python -m engine.kafka.capabilities.page docs/brokers.md

keys: setup
	@$(BIN)/python -c 'from pathlib import Path; from policies.keys.page import written; \
	    page = Path("engine/CONFIG.md"); page.write_text(written(page.read_text()))'

grants: setup
	@$(BIN)/python -c 'from pathlib import Path; from policies.grants.page import written; \
	    page = Path("docs/grants.md"); page.write_text(written(page.read_text()))'

bench: setup
	@$(PYTHON) deploy/preflight.py --venv $(VENV) --about-to-run
	@$(BIN)/python -m bench $(NAME)

wheel: setup
	@rm -rf build
	@$(BIN)/python -m pip wheel --quiet --no-build-isolation --no-deps --no-index --wheel-dir dist .
	@ls dist/*.whl

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis engine/wire/native/*.so
