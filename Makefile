# The few verbs people type. Everything runs inside .venv, which is made on first use.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
EXTRAS := $(VENV)/.extras
DOCS := $(VENV)/.docs

#: Tests that between them lead to every kernel, for runs that look closer at them.
KERNEL_TESTS := tests/plan/test_methods.py tests/plan/test_frontier.py tests/plan/test_paths.py \
	tests/plan/test_pooling.py tests/plan/test_reduction.py tests/plan/test_outcomes.py tests/plan/test_accuracy.py \
	tests/learning/test_learn_parts.py tests/fuzz/test_fuzzer.py

.PHONY: help setup demo test test-generic test-kernels test-all lint format fuzz bench bench-check docs schema images paper clean

help:
	@echo "make demo    set up and tell the story of a delivery van"
	@echo "make test    set up and run the test suite"
	@echo "make test-generic  the same tests, compiled for any processor"
	@echo "make test-kernels  tests of kernels with array bounds checked, and without compilation"
	@echo "make test-all  the same with the slow tests and those that need the extras 'bench', 'rl' and 'envs'"
	@echo "make lint    ruff and mypy"
	@echo "make format  rewrite the code in the project's format"
	@echo "make fuzz    compare every solver with oracles on random problems, and load hostile files; MINUTES=10 SEED=1 choose"
	@echo "             how long and which; TARGET=problems, files, policies, checkpoints or flips choose one of them"
	@echo "make bench   run every peer beside Solvent and rewrite docs/benchmarks.md (half an hour; QUICK=1: minutes)"
	@echo "make bench-check  compare work and ratios of times with the committed baseline"
	@echo "make docs    build the documentation into site/, without warnings"
	@echo "make schema  write the JSON Schema of model files"
	@echo "make images  draw the pictures of the README and the documentation"
	@echo "make paper   make the paper's figures again, and the page about them"
	@echo "make clean   remove .venv and caches"

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	-$(RUN) -m solvent warmup
	@touch $(READY)

$(EXTRAS): $(READY)
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,bench,rl,envs]"
	@touch $(EXTRAS)

$(DOCS): $(READY)
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,docs]"
	@touch $(DOCS)

demo: $(READY)
	$(VENV)/bin/solvent demo

test: $(READY)
	$(RUN) -m pytest -q -n auto

# the same tests with code for any processor, which must give the same results
test-generic: $(READY)
	-NUMBA_CPU_NAME=generic $(RUN) -m solvent warmup
	NUMBA_CPU_NAME=generic $(RUN) -m pytest -q -n auto

# kernels with array bounds checked, and as plain Python
test-kernels: $(READY)
	-NUMBA_BOUNDSCHECK=1 $(RUN) -m solvent warmup
	NUMBA_BOUNDSCHECK=1 $(RUN) -m pytest -q -n auto $(KERNEL_TESTS)
	NUMBA_DISABLE_JIT=1 $(RUN) -m pytest -q -n auto tests/fuzz/test_fuzzer.py -k \
		"test_short_run and (general or one_sided or deterministic or product or steps or resources or continuous)"

test-all: $(EXTRAS)
	$(RUN) -m pytest -q -n auto -m "slow or not slow"

lint: $(READY)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

format: $(READY)
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

fuzz: $(READY)
	$(RUN) -m fuzz --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(if $(TARGET),--target $(TARGET))

bench: $(EXTRAS)
	$(RUN) -m bench.peers $(if $(QUICK),--quick,--page)
	$(RUN) -m bench.limit $(if $(QUICK),--quick,--page)
	$(RUN) -m bench.learning $(if $(QUICK),--seeds 1,--page)

bench-check: $(READY)
	$(RUN) -m bench.check

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

schema: $(READY)
	$(RUN) -c "from solvent.model.schema import write_schema; write_schema()"

images: $(READY)
	$(RUN) docs/images/make.py

paper: $(READY)
	$(VENV)/bin/solvent paper --out out/paper
	$(RUN) docs/images/reproduction.py out/paper

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .hypothesis
