# Two commands do everything on a bare machine with Python and pip: `make demo` and `make test`.
# Each makes its own environment in .venv, from the pinned versions in constraints.txt; a second run is quick.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test cluster lint format docs clean

demo: $(VENV)/.demo  ## Watch a model adapt, collapse and recover, on real images; writes aetta-demo/report.html
	$(BIN)/aetta demo --out aetta-demo

test: $(VENV)/.dev  ## The whole test suite
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

cluster: $(VENV)/.cluster  ## The tests that start Ray clusters on this machine
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/bench/test_ray.py tests/integrations

lint: $(VENV)/.dev  ## Style, types, and the one-way imports
	$(BIN)/ruff check src tests benchmarks docs/hooks
	$(BIN)/ruff format --check src tests benchmarks docs/hooks
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev  ## Put the code in the house style
	$(BIN)/ruff check --fix src tests benchmarks docs/hooks
	$(BIN)/ruff format src tests benchmarks docs/hooks

docs: $(VENV)/.docs  ## The documentation site, into site/index.html, with every link checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean:  ## Forget the environment and what was made
	rm -rf $(VENV) aetta-demo site

$(VENV)/.python:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version) if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.demo: $(VENV)/.python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[demo]'
	touch $@

$(VENV)/.dev: $(VENV)/.python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[dev]'
	touch $@

$(VENV)/.cluster: $(VENV)/.dev
	$(INSTALL) --editable '.[dev,ray-serve]'
	touch $@

$(VENV)/.docs: $(VENV)/.python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[docs]'
	touch $@
