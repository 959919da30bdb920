# make serve          install, fetch the demo model on first use, serve it      (ARGS="--port 8000 --plugin lpm")
# make test           install what the tests need and run all but the slow ones (ARGS="-k radix")
# make test-all       run the slow ones too
# make check-cuda     prove the cuda backend on this machine's GPU, in under 8 minutes; a table comes last (ARGS="--help")
# make soak           twenty minutes of random services on the simulated backend
# make docs           build the documentation into build/docs; a warning is an error
# make install        make .venv with the sgframe command in it
# make surface        what plugins, settings and commands have changed since the last release (ARGS="--write")
# make lint           format, lint, types, and who may import whom

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
# Two files of tests at a time, in order, each with one thread: what one waits for, another computes.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: install serve test test-all check-cuda soak lint docs surface clean

install: .venv/.installed

serve: .venv/.installed
	@exec $(BIN)/sgframe serve $(ARGS)

test: .venv/.installed-test
	$(PYTEST) -m "not slow" $(ARGS)

test-all: .venv/.installed-test
	$(PYTEST) $(ARGS)

check-cuda:
	$(PYTHON) benchmarks/check_cuda.py $(ARGS)

soak: .venv/.installed-test
	$(BIN)/python -m pytest tests/soak --soak-seconds 1200 $(ARGS)

lint: .venv/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy core plugins backends frontends
	$(BIN)/lint-imports

docs: .venv/.installed-test
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs build/docs

surface: .venv/.installed-test
	$(BIN)/python tests/support/public_surface.py $(ARGS)

clean:
	rm -rf .venv

.venv/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "sgframe needs Python 3.11 or newer, found $$($(PYTHON) --version 2>&1); name one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/.installed: .venv/.made pyproject.toml constraints.txt
	@echo "Installing sgframe into .venv; the first time this takes some minutes" >&2
	@$(PIP) --editable .
	@touch $@

.venv/.installed-test: .venv/.installed
	@echo "Installing what the tests need" >&2
	@$(PIP) --editable '.[test,docs]'
	@touch $@
