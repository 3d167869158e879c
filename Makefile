# The few verbs people type. Everything runs inside .venv, which is made on first use.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
EXTRAS := $(VENV)/.extras
DOCS := $(VENV)/.docs
OLDEST := .venv-oldest
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

# install what extras need, each file checked by its hash in constraints.txt, and then the package itself
define install
$(RUN) .ci/requirements.py --pip > $(VENV)/pip.txt
$(RUN) $(PIP_INSTALL) -r $(VENV)/pip.txt
$(RUN) .ci/requirements.py $(1) > $(VENV)/requirements.txt
$(RUN) $(PIP_INSTALL) -r $(VENV)/requirements.txt -c constraints.txt
$(RUN) $(PIP_INSTALL) --no-deps --no-build-isolation -e .
endef

#: Tests that between them lead to every kernel, for runs that look closer at them.
KERNEL_TESTS := tests/solvers/test_methods.py tests/solvers/test_frontier.py tests/solvers/test_labels.py \
	tests/solvers/test_pooling.py tests/solvers/test_reduction.py tests/solvers/test_outcomes.py tests/solvers/test_accuracy.py \
	tests/learning/test_learn_parts.py tests/fuzz/test_fuzzer.py

#: Tests of everything that leans on a dependency, for runs with the oldest of them.
OLDEST_TESTS := tests/cli/test_ends.py tests/cli/test_json.py tests/core/test_threads.py tests/core/test_exact.py \
	tests/formats/test_files.py tests/formats/test_npz.py tests/solvers/test_curve.py tests/policy/test_policy_files.py \
	tests/baselines/test_expectation.py tests/gym/test_model_env.py tests/learning/test_checkpoints.py \
	tests/plot/test_plot_value.py tests/test_copies.py

.PHONY: help setup lock demo test test-generic test-kernels test-oldest test-all lint format fuzz bench bench-check docs schema images paper clean

help:
	@echo "make demo    set up and tell the story of a delivery van"
	@echo "make test    set up and run the test suite"
	@echo "make test-generic  the same tests, compiled for any processor"
	@echo "make test-kernels  tests of kernels with array bounds checked, and without compilation"
	@echo "make test-oldest  tests with the oldest versions of all dependencies that are allowed"
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
	$(call install,dev)
	-$(RUN) -m solvent warmup
	@touch $(READY)

# torch comes in builds of the same version for processors and accelerators: the one of this machine, whatever its hash
$(EXTRAS): $(READY)
	$(RUN) $(PIP_INSTALL) --no-deps $(shell grep -o '^torch==[^ ]*' constraints.txt)
	$(call install,dev bench rl envs)
	@touch $(EXTRAS)

$(DOCS): $(READY)
	$(call install,dev docs)
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

# tests with the oldest versions of all dependencies, whose kernels are kept apart; newer packages beneath them may say
# that they are out of date
test-oldest: $(OLDEST)/.ready
	NUMBA_CACHE_DIR="$(CURDIR)/$(OLDEST)/kernels" $(OLDEST)/bin/python -m pytest -q -n auto -W ignore::DeprecationWarning $(OLDEST_TESTS)

$(OLDEST)/.ready: pyproject.toml oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python $(PIP_INSTALL) -c oldest.txt pytest pytest-xdist hypothesis jsonschema -e .
	@touch $(OLDEST)/.ready

# keep the versions in constraints.txt (edit them there) and look up the hashes of all their files
lock: $(READY)
	$(RUN) $(PIP_INSTALL) uv
	grep '^#' constraints.txt > constraints.new
	grep -o '^[A-Za-z0-9._-]*==[^ ;]*' constraints.txt | $(RUN) -m uv pip compile - --no-deps --universal \
		--python-version 3.11.5 --generate-hashes --no-header --no-annotate --quiet >> constraints.new
	mv constraints.new constraints.txt

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
	$(RUN) -c "from solvent.formats.schema import write_schema; write_schema()"

images: $(READY)
	$(RUN) docs/images/make.py

paper: $(READY)
	$(VENV)/bin/solvent paper --out out/paper
	$(RUN) docs/images/reproduction.py out/paper

clean:
	rm -rf $(VENV) $(OLDEST) site .mypy_cache .ruff_cache .pytest_cache .hypothesis
