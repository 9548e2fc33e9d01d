# Everything a checkout can do; `make help` lists it.
# The first target run makes .venv with the exact versions of requirements.lock,
# by uv where it is installed and by pip where it is not.

PYTHON ?= python3
BIN := .venv/bin
ARGS ?=

.PHONY: console test check images screenshots docs bench dist lock clean help

console: .venv/.ready ## open the console (ARGS='--cpus 4' and the like are passed on)
	$(BIN)/dynftrace $(ARGS)

test: .venv/.ready ## run the tests, on all cores
	$(BIN)/pytest -n auto --dist worksteal -q $(ARGS)

check: .venv/.ready ## check lint, format, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/test_layers.py

images: ## rebuild the guest kernels and modules (needs a gcc for each of PORTS)
	$(MAKE) -C arches/guest

screenshots: .venv/.ready ## draw every screen again: screenshots/ and tests/tui/screens/
	$(BIN)/python -m dynftrace.tui.pictures.screenshots screenshots tests/tui/screens

docs: .venv/.ready ## regenerate the README's tables, the man page and the completions
	$(BIN)/python -m dynftrace.tui.manual.readme README.md
	$(BIN)/python -m dynftrace.tui.manual.manpage tui/manual/share

bench: .venv/.ready ## measure the targets, as ratios within one run
	$(BIN)/python -m tests.benchmarks $(ARGS)

dist: .venv/.ready ## build the source archive and the wheel into dist/
	rm -rf dist
	if command -v uv >/dev/null; then uv build -q; \
	else $(BIN)/python -m pip -q install build && $(BIN)/python -m build >/dev/null; fi

lock: ## choose the versions of requirements.lock again (needs uv)
	uv pip compile --universal --upgrade --python-version 3.11 --group dev --extra serve pyproject.toml \
		--no-header --no-emit-index-url --no-annotate -q -o requirements.lock

.venv/.ready: pyproject.toml requirements.lock
	if command -v uv >/dev/null; then \
		{ test -x $(BIN)/python || uv venv -q --python $(PYTHON) .venv; } && \
		uv pip install -q --python $(BIN)/python -r requirements.lock && \
		uv pip install -q --python $(BIN)/python --no-deps -e .; \
	else \
		$(PYTHON) -m venv .venv && \
		$(BIN)/python -m pip install -q -r requirements.lock && \
		$(BIN)/python -m pip install -q --no-deps -e .; \
	fi
	touch $@

clean: ## remove everything that was built
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

help:
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 20
