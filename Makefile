# Entrabot: `make demo` shows the product, `make test` runs its tests. Both do all their own set-up:
# uv is taken from PATH, or installed into the private folder .tools.
PYTHON ?= python3
export UV_PYTHON ?= $(PYTHON)
export UV_PYTHON_DOWNLOADS ?= never
UV := $(or $(shell command -v uv 2>/dev/null),.tools/bin/uv)
RUN := $(UV) run --no-sync
# Tests wait for processes and clocks more than they compute, so two run at a time even on a small machine.
WORKERS ?= 2

.PHONY: demo test check lint types contracts setup clean

demo: setup
	$(RUN) entrabot demo

test: setup
	$(RUN) pytest -n $(WORKERS) --dist loadfile $(PYTEST_ARGS)

check: lint types contracts

lint: setup
	$(RUN) ruff check .
	$(RUN) ruff format --check .

types: setup
	$(RUN) mypy

contracts: setup
	$(RUN) lint-imports

setup: .venv/.ready

.venv/.ready: $(UV) pyproject.toml $(wildcard plugins/*/pyproject.toml)
	$(UV) sync --quiet --all-packages
	@touch $@

.tools/bin/uv:
	$(PYTHON) -m venv .tools
	.tools/bin/pip install --quiet --disable-pip-version-check 'uv>=0.5,<1'

clean:
	rm -rf .venv .tools build dist
