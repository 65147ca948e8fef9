# Needs Python 3.11-3.13, pip and make; everything else is installed into .venv.
#   make demo     run the main job on a shipped example
#   make test     run every check
#   make kill-test  kill a search 20 times at random moments, and resume it each time
#   make extra    install the optional libraries, and check what uses them
#   make test-page check the result page in a real Chromium, which it installs where apt-get can
#   make docs     build the documentation as a site, strictly
#   make validate  replay public measured runs, and print how far off they are
#   make bench    measure cost, beside the peer: PEER=... PEER_AIC=... TRACE_DIR=...
#   make bench-screen  hold the screens and short replays to their bounds: TRACE_DIR=...
#   make bench-search   measure the search on problems with known optima: OPTUNA=path/to/python
#   make parity   compare results with the peer: PEER=path/to/python
#   make clean    remove .venv and caches
# PYTHON=python3.12 chooses the interpreter of a new .venv.

.DEFAULT_GOAL := help
.PHONY: help demo test kill-test test-page docs extra format bench bench-search bench-screen validate parity clean

RIGHT_VERSION := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11 python; do \
	"$$name" -c "$(RIGHT_VERSION)" 2>/dev/null && echo "$$name" && break; done)

VENV := .venv
COMMA := ,
BIN := $(VENV)/bin
DEMO := examples/aisimulate/spica/configs/quickstart.yaml
CODE := src tests tools

help:
	@sed -n 's/^#   //p' Makefile

demo: $(VENV)/runtime.stamp
	@$(BIN)/aisimulate spica --config $(DEMO)

test: $(VENV)/dev.stamp
	@$(BIN)/ruff format --check --quiet $(CODE) || { echo "run 'make format'"; exit 1; }
	@$(BIN)/ruff check --quiet $(CODE)
	@$(BIN)/python tools/check_limits.py $(CODE)
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/pytest -n 2

kill-test: $(VENV)/dev.stamp
	@AISIMULATE_KILLS=20 $(BIN)/pytest -n 0 tests/spica/test_killed_search.py

extra: $(VENV)/extra.stamp
	@$(BIN)/pytest -n 2 tests/forecast
	@$(BIN)/pytest -n 0 tests/spica/extra_optuna.py tests/spica/extra_vizier.py tests/spica/extra_ray.py

test-page: $(VENV)/page.stamp
	@for name in "$(CHROMIUM)" chromium chromium-browser google-chrome; do \
		test -n "$$name" && found=$$(command -v "$$name") && break; done; \
	if test -z "$$found"; then echo "installing chromium (once)"; \
		apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium >/dev/null \
		|| { echo "no Chromium found, and apt-get cannot install it: name yours with CHROMIUM=path"; exit 1; }; \
		found=$$(command -v chromium); fi; \
	CHROMIUM="$$found" $(BIN)/pytest tests/browser

docs: $(VENV)/docs.stamp
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet && echo "build/site/index.html"

format: $(VENV)/dev.stamp
	@$(BIN)/ruff check --quiet --fix $(CODE)
	@$(BIN)/ruff format --quiet $(CODE)

bench: $(VENV)/runtime.stamp
	@$(BIN)/python -m tools.bench $(if $(PEER),--peer $(PEER)) $(if $(PEER_AIC),--peer-aic $(PEER_AIC)) \
		$(if $(TRACE_DIR),--trace-dir $(TRACE_DIR)) $(BENCH_ARGS)

bench-screen: $(VENV)/runtime.stamp
	@$(BIN)/python -m tools.bench_screen $(if $(TRACE_DIR),--trace-dir $(TRACE_DIR)) $(BENCH_ARGS)

bench-search: $(VENV)/runtime.stamp
	@$(BIN)/python -m tools.bench_search $(if $(OPTUNA),--optuna $(OPTUNA)) $(BENCH_ARGS)

validate: $(VENV)/runtime.stamp
	@$(BIN)/python -m tools.validate $(VALIDATE_ARGS)

parity: $(VENV)/runtime.stamp
	@test -n "$(PEER)" || { echo "usage: make parity PEER=path/to/python (see tools/parity/README.md)"; exit 2; }
	@$(BIN)/python -m tools.parity.suite --peer $(PEER) $(if $(PEER_AIC),--peer-standalone $(PEER_AIC)) $(PARITY_ARGS)

clean:
	@rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
	@find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps tell an up-to-date environment from a missing one; the developers' one contains the other.
$(VENV)/runtime.stamp: pyproject.toml | $(VENV)/pyvenv.cfg
	$(call install,.)
	@touch $@

$(VENV)/dev.stamp: pyproject.toml | $(VENV)/pyvenv.cfg
	$(call install,.[dev])
	@touch $(VENV)/runtime.stamp $@

$(VENV)/extra.stamp: pyproject.toml | $(VENV)/pyvenv.cfg
	$(call install,.[dev$(COMMA)forecast$(COMMA)optuna$(COMMA)vizier$(COMMA)ray])
	@touch $(VENV)/runtime.stamp $(VENV)/dev.stamp $@

$(VENV)/docs.stamp: pyproject.toml | $(VENV)/pyvenv.cfg
	$(call install,.[docs])
	@touch $(VENV)/runtime.stamp $@

$(VENV)/page.stamp: pyproject.toml | $(VENV)/pyvenv.cfg
	$(call install,.[dev$(COMMA)page-test])
	@touch $(VENV)/runtime.stamp $(VENV)/dev.stamp $@

# Some distributions ship Python without ensurepip: then their own pip fills the environment.
$(VENV)/pyvenv.cfg:
	@test -n "$(PYTHON)" || { echo "no Python 3.11, 3.12 or 3.13 found; set PYTHON=path/to/python"; exit 1; }
	@"$(PYTHON)" -c "$(RIGHT_VERSION)" || { echo "$(PYTHON) is not Python 3.11, 3.12 or 3.13"; exit 1; }
	@echo "creating $(VENV) (once)"
	@"$(PYTHON)" -m venv $(VENV) >/dev/null 2>&1 || "$(PYTHON)" -m venv --clear --without-pip $(VENV)

define install
	@echo "installing $(1) into $(VENV) (once)"
	@if $(BIN)/python -m pip --version >/dev/null 2>&1; then pip="$(BIN)/python -m pip"; \
		else pip="$(PYTHON) -m pip --python $(BIN)/python"; fi; \
	$$pip install --quiet --disable-pip-version-check --editable '$(1)'
endef
