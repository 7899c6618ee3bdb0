# Every command of a developer. `make` alone lists them.
PYTHON ?= python3
PORT ?= 8000
ROWS ?= 20000
ROWS_PER_SECOND ?= 3
REPLICAS ?= 0
TEXTS ?= 20000
ARGS ?=
# Of the test run; four keep two processors busy, because tests also wait. WORKERS=0 runs in one process.
WORKERS ?= 4

BIN := .venv/bin
# Compiled modules are kept, whatever the shell says: each worker would rewrite the asserts of all modules in each run,
# which takes longer than to import them.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
PIP := -m pip --disable-pip-version-check --quiet install --require-hashes
# pip installs uv, and uv everything else: Debian 12's pip takes no line of a lock for a requirement with an extra, such
# as coverage[toml], once there is a newer release.
UV := $(BIN)/uv --quiet --system-certs
SYNC := $(UV) pip sync --require-hashes --python
# The service, with everything that an installation may want, and the servers of the demo.
EXTRAS := --extra arrow --extra bigquery --extra otel --extra sso --extra demo
LOCK_OPTIONS := --universal --python-version 3.11 --generate-hashes --no-annotate --no-header
# The settings refuse to load without a secret; nothing is signed with this one.
LINT_ENVIRONMENT := SECRET_KEY=only-for-reading-the-settings-while-checking-types

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-citus test-oracle test-shippers test-clients test-conformance faults record lint lock check-locks bench install-dev
.DELETE_ON_ERROR:

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

demo: .venv/demo.stamp ## run the whole service here with sample rows until Ctrl-C (PORT=8000 ROWS=20000 ROWS_PER_SECOND=3 REPLICAS=0)
	@$(BIN)/python manage.py demo --port $(PORT) --rows $(ROWS) --rows-per-second $(ROWS_PER_SECOND) \
	  --replicas $(REPLICAS)

test: .venv/dev.stamp ## run the tests on embedded servers, without drills and browser (ARGS='-k name')
	@$(PYTEST) --numprocesses=$(WORKERS) --installations=without $(ARGS)

test-all: .venv/dev.stamp ## run every test: whole installations, broken on purpose, and a browser too
	@$(PYTEST) --numprocesses=$(WORKERS) $(ARGS)

# What a log database on a cluster must answer as one server does, and what is so there alone.
CITUS_TESTS := tests/cluster tests/endpoints/test_stored_queries.py tests/endpoints/test_stored_queries_usage_counts.py \
	tests/endpoints/test_empty_tenant.py tests/endpoints/sandbox tests/endpoints/lql \
	tests/endpoints/log_database/test_publishing.py tests/endpoints/api/test_sandbox.py \
	tests/endpoints/api/test_query_view.py tests/endpoints/api/test_logs.py tests/endpoints/api/test_log_position.py \
	tests/logsources/test_batches.py tests/logsources/test_loading.py

test-citus: .venv/dev.stamp ## run the suite's answers on the cluster of CITUS_COORDINATOR_URL (ARGS='-k name')
	@if [ -z "$$CITUS_COORDINATOR_URL" ]; then echo "Skipped: CITUS_COORDINATOR_URL names no cluster for tests."; \
	else $(PYTEST) --citus $(CITUS_TESTS) $(ARGS); fi

test-oracle: .venv/dev.stamp ## compare the BigQuery dialect with GoogleSQL, ten minutes (TEXTS=20000)
	@$(PYTEST) tests/googlesql/test_oracle.py --oracle-texts=$(TEXTS)

test-shippers: .venv/dev.stamp ## install real log shippers from npm, PyPI and Debian and run them against the service
	@$(PYTEST) --shippers tests/shippers $(ARGS)

test-clients: .venv/dev.stamp ## make a TypeScript client with generators from npm, check its types and run it
	@$(PYTEST) --clients tests/clients $(ARGS)

test-conformance: .venv/dev.stamp ## install the conformance suite of MCP from npm and run it against the service
	@$(PYTEST) --conformance tests/conformance $(ARGS)

faults: .venv/dev.stamp ## see that a test notices each fault of tests/seeded_faults (ARGS='-k cache')
	@$(BIN)/python -m tests.seeded_faults $(ARGS)

record: .venv/dev.stamp ## write the recorded answers anew; look at the difference, commit it alone, say why
	@RECORD_ANSWERS=1 $(BIN)/python -m pytest tests/recorded tests/endpoints/management/commands/test_demo.py -p no:randomly --numprocesses=0 --quiet $(ARGS)

lint: .venv/dev.stamp ## check style, format, types, import contracts, and that recorded answers change alone
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(LINT_ENVIRONMENT) $(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tests.recorded_commits

bench: .venv/dev.stamp .venv/peers.stamp ## measure the service beside its peers, about ten minutes (ARGS='cached uncached')
	@$(BIN)/python -m benchmarks $(ARGS)

lock: .venv/uv.stamp ## pin the dependencies of pyproject.toml anew, with hashes (ARGS=--upgrade)
	echo uv | $(UV) pip compile - $(LOCK_OPTIONS) --output-file requirements-uv.lock $(ARGS)
	$(UV) pip compile pyproject.toml $(LOCK_OPTIONS) $(EXTRAS) --output-file requirements.lock $(ARGS)
	$(UV) pip compile pyproject.toml $(LOCK_OPTIONS) --extra dev --constraints requirements.lock --output-file requirements-dev.lock $(ARGS)
	$(UV) pip compile benchmarks/peers/requirements.in $(LOCK_OPTIONS) --output-file benchmarks/peers/requirements.lock $(ARGS)

# An installation, unlike `uv pip sync`, looks whether something that a package needs is not pinned.
check-locks: .venv/uv.stamp ## see that each lock can be installed, on Python 3.11 to 3.14
	@$(PYTHON) -m venv --clear --without-pip .venv/empty
	@for lock in requirements-uv requirements requirements-dev benchmarks/peers/requirements; do \
	  for version in 3.11 3.12 3.13 3.14; do \
	    $(UV) pip install --dry-run --require-hashes --python .venv/empty/bin/python --python-version $$version \
	      --requirements $$lock.lock || { echo "$$lock.lock cannot be installed on Python $$version." >&2; exit 1; }; \
	  done; done

install-dev: .venv/dev.stamp ## make .venv with everything a developer needs

.venv/made.stamp:
	@command -v $(PYTHON) >/dev/null || { echo "There is no $(PYTHON) here: install Python 3.11 or later." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or later is needed, this is $$($(PYTHON) --version): name another with make PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "Python cannot make virtual environments here: apt install python3-venv" >&2; exit 1; }
	@echo "Making .venv …"
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/uv.stamp: requirements-uv.lock | .venv/made.stamp
	@echo "Installing uv …"
	@$(BIN)/python $(PIP) -r $<
	@touch $@

.venv/demo.stamp: requirements.lock | .venv/uv.stamp
	@echo "Installing the pinned dependencies …"
	@$(SYNC) $(BIN)/python $<
	@rm -f .venv/dev.stamp
	@touch $@

# They include those of the service.
.venv/dev.stamp: requirements-dev.lock | .venv/uv.stamp
	@echo "Installing the pinned dependencies of development …"
	@$(SYNC) $(BIN)/python $<
	@touch $@ .venv/demo.stamp

.venv/peers.stamp: benchmarks/peers/requirements.lock | .venv/uv.stamp
	@echo "Installing what the benchmarks compare with …"
	@$(PYTHON) -m venv .venv/peers
	@$(SYNC) .venv/peers/bin/python $<
	@touch $@
