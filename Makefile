# A bare `python3` and `make` are enough: uv is brought into the virtual environment where the machine has none.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.7
# The lock file decides versions; nothing is resolved anew by a build.
UV := $(shell command -v uv 2>/dev/null || echo $(BIN)/uv)
READY := $(VENV)/.ready
# Kubernetes of the real control plane: a version (1.34.4) or a minor (1.34). Empty: the newest that is supported.
KUBERNETES ?=
export KUBERNETES
# 1: operators of the real suite run with the rights of an installation, and no others.
RIGHTS ?=
export RIGHTS
# The suite starts hundreds of processes: each would compile every module anew where the environment forbids compiled ones.
export PYTHONDONTWRITEBYTECODE :=
# Two parts at once, each with a control plane of its own: most tests wait for a cluster more than they compute. A third would save
# time on two cores, and leave timings no room; histories in virtual time and plain functions know no timings, and take what the two
# leave idle.
WORKERS ?= 2
PYTEST := $(BIN)/pytest --dist loadfile --numprocesses
SPREAD := $(shell expr $(WORKERS) + 1) --histories-aside --no-loadscope-reorder

.PHONY: help setup demo demo-real test suite check check-aside unit browser test-e2e rights soak manifests controlplane programs image sbom audit bench bench-peers docs format clean

help: ## List the targets
	@bold=; plain=; if [ -t 1 ] && [ -z "$${NO_COLOR:-}" ]; then bold='\033[1m'; plain='\033[0m'; fi; \
	awk -v bold="$$bold" -v plain="$$plain" 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %s%-14s%s %s\n", bold, $$1, plain, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv with the command at .venv/bin/plimsoll

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(BIN)/uv: | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

$(READY): pyproject.toml uv.lock | $(if $(filter $(BIN)/uv,$(UV)),$(BIN)/uv,$(BIN)/python)
	UV_PROJECT_ENVIRONMENT=$(VENV) $(UV) sync --quiet --locked --inexact --compile-bytecode
	@touch $@

demo: $(READY) ## Watch the operator on an embedded cluster, in a story of a few minutes; to its end at once where nobody watches
	$(BIN)/plimsoll demo

demo-real: $(READY) controlplane ## The same operator on a real control plane: a scale-down that stays balanced
	$(BIN)/python -m tools.demo

check: $(READY) ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

unit: $(READY) ## The tests that need no cluster, no process of their own and no long history (under a minute)
	$(PYTEST) $(WORKERS) -q -m "not real and not process and not history and not soak"

test: controlplane programs browser ## Checks, unit tests, and the suite on the real control plane
	@$(MAKE) -j 2 check-aside suite

suite: $(READY)
	$(PYTEST) $(SPREAD) -m "not soak"

# In the time that the suite waits for its clusters.
check-aside:
	@nice -n 19 $(MAKE) check

test-e2e: $(READY) controlplane ## The suite on the real control plane alone; KUBERNETES=1.34 picks a version, RIGHTS=1 the rights of an installation
	$(PYTEST) $(WORKERS) --no-loadscope-reorder -m "real and not soak"

# One process: which rights were used is known only at the end, and to who ran everything.
rights: $(READY) controlplane ## The scenarios of every controller as an installation's ServiceAccount: nothing refused, no right unused
	RIGHTS=all $(BIN)/pytest -q --numprocesses 0 -m "real and not soak" $(addprefix tests/,rbac placement deletion_cost nodegroups allocation)

soak: $(READY) controlplane ## The long campaigns: many seeds, many histories
	$(BIN)/pytest -m soak --timeout 7200

manifests: $(READY) ## Print what an installation applies to a cluster
	@$(BIN)/plimsoll manifests

controlplane: $(READY) ## Build etcd, kube-apiserver, controllers, scheduler, kubectl and kwok once, into the user's cache
	$(BIN)/python -m tools.controlplane build --if-possible

programs: $(READY) ## Build helm, promtool and the checker of Dockerfiles once, into the user's cache
	$(BIN)/python -m tools.programs --if-possible

browser: $(READY) ## Find the Chromium that tests of the dashboard drive; install the system's where it has none
	$(BIN)/python -m tools.browser --if-possible

BASE ?= $(shell sed -n 's/^ARG BASE=//p' Dockerfile)
ENGINE ?= docker
image: ## Build the container image with $(ENGINE); BASE=…@sha256:… takes another base
	$(ENGINE) build --build-arg BASE=$(BASE) --build-arg UV_VERSION=$(UV_VERSION) --tag plimsoll:$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml) .

sbom: $(READY) ## What the image is made of, as CycloneDX with hashes, from the lock file: artifacts/sbom.cdx.json
	@mkdir -p artifacts
	$(UV) export --quiet --locked --no-dev --format cyclonedx1.5 --preview-features sbom-export --output-file artifacts/sbom.cdx.json

audit: $(READY) ## Known vulnerabilities of the locked dependencies; asks the advisory service, and fails where it cannot
	@$(UV) audit --locked --preview-features audit-command || { echo 'make audit: a vulnerability was found, or the advisory service could not be asked and nothing was checked: see above' >&2; exit 1; }

bench: $(READY) controlplane browser ## Every benchmark, one after the other
	$(BIN)/python -m benchmarks

bench-peers: $(READY) ## The packing benchmark with Karpenter's beside it (needs Go; ten minutes)
	$(BIN)/python -m benchmarks.packing --peers

docs: $(READY) ## Write the generated pages of docs/ anew, and build the site into site/ with every link checked
	$(BIN)/python -m tools.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: $(READY) ## Let ruff lay out and mend what it can
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

clean: ## Remove the virtual environment and what tools left in the tree
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis artifacts dist build
