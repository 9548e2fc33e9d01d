# All tasks of a checkout; `make help` lists them.
# The first target creates .venv with the exact versions of requirements.lock,
# with uv if it is installed, otherwise with pip.

PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
SITE := mkdocs~=1.6 mkdocs-material~=9.5

.PHONY: console test fuzz kernels soak determinism check images refresh screenshots docs site bench corrupt dist lock clean help

console: .venv/.ready ## open the console (with options in ARGS, such as ARGS='--cpus 4')
	$(BIN)/dynftrace $(ARGS)

# The tests start many processes: each would compile all modules if none may write them.
test: .venv/.ready ## run the tests, on all cores
	PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/.venv/bytecode $(BIN)/pytest -n auto --dist worksteal -q $(ARGS)

KERNELS ?= .kernels
kernels: .venv/.ready ## read kernels of a distribution (downloaded with apt into KERNELS=) and refresh the pages about them
	$(BIN)/python -m tests.support.debian $(KERNELS) docs/kernels.md
	DYNFTRACE_KERNELS=$(abspath $(KERNELS)) $(BIN)/python -m tests.support.kernel_sessions README.md docs/guide.md
	DYNFTRACE_KERNELS=$(abspath $(KERNELS)) $(BIN)/pytest -q tests/core/elf/test_flat.py

fuzz: .venv/.ready ## damage everything dynftrace reads (N= cases of each kind, or MINUTES=)
	$(BIN)/python -m tests.fuzz $(if $(N),--n $(N)) $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

soak: .venv/.ready ## use it for long; memory must level off (MINUTES= of shell and console)
	$(BIN)/python -m tests.soak $(if $(N),--n $(N)) $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

determinism: .venv/.ready ## compare all output with the committed hashes (ARGS='--python PATH')
	$(BIN)/python -m tests.determinism $(ARGS)

check: .venv/.ready ## check lint, format, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/test_layers.py

images: ## rebuild the guest kernels and modules (needs a gcc for each of PORTS)
	$(MAKE) -C arches/guest

refresh: screenshots docs ## after a change of the images: rewrite screens, tables, hashes and the README's call site
	$(BIN)/python -m tests.determinism --write
	$(BIN)/python -m tests.support.readme_site README.md

screenshots: .venv/.ready ## redraw every screen: screenshots/ and tests/tui/screens/
	$(BIN)/python -m dynftrace.tui.pictures.screenshots screenshots tests/tui/screens

docs: .venv/.ready ## regenerate the tables of architectures, the man page and the completions
	$(BIN)/python -m dynftrace.tui.manual.parts docs/architectures.md
	$(BIN)/python -m dynftrace.tui.manual.manpage tui/manual/share

# In an environment of its own: the versions of the tests stay as they are. With -q, mkdocs does
# not count warnings, so --strict would have no effect.
site: .venv/.ready ## build the documentation site into build/site and check its links
	$(BIN)/python -m dynftrace.tui.manual.site build/pages
	if command -v uv >/dev/null; then run="uv run -q --no-project"; \
		for each in $(SITE); do run="$$run --with $$each"; done; NO_MKDOCS_2_WARNING=1 $$run mkdocs build --strict; \
	else test -x build/venv/bin/mkdocs || { $(PYTHON) -m venv build/venv && \
		build/venv/bin/pip install -q $(SITE); }; NO_MKDOCS_2_WARNING=1 build/venv/bin/mkdocs build --strict; fi

bench: .venv/.ready ## run the benchmarks (ARGS=--write updates docs/performance.md)
	$(BIN)/python -m tests.benchmarks $(ARGS)

corrupt: .venv/.ready ## damage every bit that ftrace patches, on every port (7 minutes)
	$(BIN)/python -m tests.corruption $(ARGS)

dist: .venv/.ready ## build the source archive and the wheel into dist/
	rm -rf dist
	if command -v uv >/dev/null; then uv build -q; \
	else $(BIN)/python -m pip -q install build && $(BIN)/python -m build >/dev/null; fi

lock: ## update the versions in requirements.lock (needs uv)
	uv pip compile --universal --upgrade --python-version 3.11 --group dev --extra serve --extra mount --extra kernels pyproject.toml \
		--no-header --no-emit-index-url --no-annotate -q -o requirements.lock

# A source archive has no links: without these, the package would be empty.
.venv/.ready: pyproject.toml requirements.lock
	for each in core arches tui; do test -e .pkg/dynftrace/$$each || \
		ln -s ../../$$each .pkg/dynftrace/$$each; done
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

clean: ## remove all build output
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

help:
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 20
