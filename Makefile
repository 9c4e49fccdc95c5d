# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
# The others: setup, check (lint, types, layers, tests), bench, test-vm, lock, clean.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
PY := $(VENV)/bin/python
APT := mmdebstrap iproute2 iptables util-linux mount e2fsprogs tar kmod curl

.PHONY: help setup demo test prepare go-test check lint unit bench test-vm lock clean

help: ## Show this.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.ready ## Install what is missing; leaves the program at .venv/bin/aftershock.

$(VENV)/.ready: requirements.txt pyproject.toml scripts/setup.sh
	@scripts/setup.sh "$(VENV)" $(APT)
	@touch $@

demo: setup ## A public outage, replayed live: once with nobody answering, once with a right fix.
	$(VENV)/bin/aftershock demo

test: prepare go-test ## All tests, those on the real cluster included.
	$(PY) -m pytest

prepare: setup # What the tests would otherwise build in silence.
	$(PY) scripts/prepare.py

go-test: setup # The flags are those of the build, so that nothing is compiled twice.
	cd box && PATH="$$PATH:/usr/local/go/bin" CGO_ENABLED=0 go test -trimpath -tags providerless \
		./daemon ./loadbalancer ./localpath ./netpol

unit: setup ## Tests that need no cluster (seconds).
	$(PY) -m pytest tests/unit

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check src tests
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

check: lint test ## Everything that must hold before a change lands.

bench: setup ## Measure what the README claims.
	$(PY) bench/bench.py

test-vm: setup ## The cluster tests' core on cgroup v2, in a virtual machine (minutes).
	scripts/test-vm.sh

lock: setup ## Write requirements.txt anew: hashes, no index addresses.
	$(VENV)/bin/uv pip compile pyproject.toml --group dev --generate-hashes --universal --python-version 3.11 \
		--no-header --no-annotate --upgrade -q -o requirements.txt

clean: ## Remove the environment and results of this checkout (`aftershock clean` removes the cache).
	rm -rf $(VENV) runs demo build .mypy_cache .ruff_cache .pytest_cache
