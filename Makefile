# Development commands. Everything runs inside .venv, which is created on first use; VENV=DIR puts it elsewhere, for instance
# beside a checkout that cannot be written to.
PYTHON ?= python3
VENV ?= .venv
ifneq ($(words $(VENV)),1)
$(error VENV: expected one path without spaces, found "$(VENV)")
endif
TOO_OLD := "expected Python 3.11 or newer, found %d.%d; name another one: make demo PYTHON=python3.12"
RUN := $(VENV)/bin/python
BASE := $(VENV)/.base
READY := $(VENV)/.ready
EXTRAS := $(VENV)/.extras
DOCS := $(VENV)/.docs
KATEX := docs/theme/katex/katex.min.js
OLDEST := $(VENV)-oldest
PEERS := $(VENV)-peers
# modules are compiled when they are first imported, which takes less time than compiling all of them
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
WORKERS ?= auto
PYTEST := -m pytest -q -n $(WORKERS) --dist worksteal -o cache_dir=$(VENV)/pytest

# keep compiled modules: many tests start an interpreter, and each would compile all modules again
unexport PYTHONDONTWRITEBYTECODE

# install the requirements of some extras, each file checked against its hash in constraints.txt, then the package
define install
@$(RUN) .ci/requirements.py --pip > $(VENV)/pip.txt
@$(RUN) $(PIP_INSTALL) -r $(VENV)/pip.txt
@$(RUN) .ci/requirements.py $(1) > $(VENV)/requirements.txt
@$(RUN) $(PIP_INSTALL) -r $(VENV)/requirements.txt -c constraints.txt
@$(RUN) $(PIP_INSTALL) --no-deps --no-build-isolation -e .
endef

#: Tests that together run every kernel, for runs with bounds checks or without compilation.
KERNEL_TESTS := tests/solvers/test_methods.py tests/solvers/test_accounts.py tests/solvers/test_frontier.py \
	tests/solvers/test_grid.py tests/solvers/test_labels.py tests/solvers/test_labels_several.py \
	tests/solvers/test_knapsacks.py tests/solvers/test_levels.py tests/solvers/test_pooling.py \
	tests/solvers/test_reduction.py tests/solvers/test_outcomes.py tests/solvers/test_accuracy.py \
	tests/learning/test_learn_parts.py tests/learning/test_shared_layers.py tests/fuzz/test_fuzzer.py::test_short_run

#: Files whose English is checked: spelling by codespell, banned phrases by .ci/prose.py.
PROSE := README.md hatch_build.py CHANGELOG.md CONTRIBUTING.md SECURITY.md CODE_OF_CONDUCT.md CITATION.cff mkdocs.yml Makefile pyproject.toml docs examples src bench fuzz tests .ci

#: Tests of everything that relies on a dependency, for runs with the oldest supported versions.
OLDEST_TESTS := tests/cli/test_ends.py tests/cli/test_json.py tests/core/test_threads.py tests/core/test_exact.py \
	tests/formats/test_files.py tests/formats/test_npz.py tests/solvers/test_curve.py tests/policy/test_policy_files.py \
	tests/baselines/test_expectation.py tests/gym tests/learning/test_checkpoints.py \
	tests/plot/test_plot_value.py tests/test_copies.py
#: Tests of vectors with autoreset modes and of wrappers that Gymnasium has since version 1.1.
NEWER_TESTS := tests/gym/test_errors_and_accounts.py tests/gym/test_gym_agents.py tests/gym/test_loops.py tests/gym/test_true_account.py tests/gym/test_vector_reports.py

#: Tests that need packages which cannot be installed beside the others.
PEER_TESTS := tests/model/test_rddl.py tests/model/test_frames.py::test_frames_of_arrow tests/test_agent_examples.py::test_masks_in_torchrl \
	tests/test_agent_examples.py::test_masks_in_rllib

.PHONY: help setup lock browser demo test test-wheel test-pythons test-generic test-kernels test-oldest test-peers test-slow test-ray nightly lint format fuzz bench bench-check bench-claims bench-learning bench-targets docs schema images paper clean

help:
	@echo "make demo    set up and run the delivery van example"
	@echo "make test    set up and run the test suite; TESTS=... names some tests or options of pytest"
	@echo "make test-slow  what 'make test' leaves out: slow tests, and those that need the extras 'bench', 'rl' and 'envs'"
	@echo "make test-ray  tests with a Ray cluster on this machine"
	@echo "make test-generic  compare answers with kernels for this processor and for a generic one"
	@echo "make test-kernels  tests of kernels with array bounds checked, and without compilation"
	@echo "make test-oldest  tests with the oldest supported version of every dependency"
	@echo "make test-wheel  the first pages of the documentation and some tests with the built wheel in a fresh environment"
	@echo "make test-pythons  the same with every version of Python; PYTHONS=... names the interpreters"
	@echo "make test-peers  tests with TorchRL, RLlib and pyRDDLGym, which need an environment of their own"
	@echo "make nightly  all random problems, third-party environments, kills, fuzzing, odd circumstances (an hour)"
	@echo "make lint    ruff, mypy, codespell and the list of banned phrases"
	@echo "make format  rewrite the code in the project's format"
	@echo "make fuzz    compare every solver with oracles on random problems, and load hostile files; MINUTES=10 SEED=1 set"
	@echo "             the duration and the seed; TARGET=problems, files, policies, checkpoints or flips runs one target"
	@echo "make bench   compare Solvent with other tools and rewrite docs/benchmarks.md (half an hour; QUICK=1: minutes)"
	@echo "make bench-learning  train agents beside OmniSafe and rewrite docs/learning-benchmarks.md (hours, can be interrupted"
	@echo "             and continued; QUICK=1: minutes, and rewrites nothing; RECORDS=FILE: all runs again, with records of their own)"
	@echo "make bench-claims  measure the paper's claims about learning and rewrite docs/learning-claims.md (an hour, can be"
	@echo "             interrupted and continued; QUICK=1: minutes, and rewrites nothing)"
	@echo "make bench-targets  measure the targets of the project, and say which are met (minutes)"
	@echo "make bench-check  compare work and time ratios with the committed baseline"
	@echo "make docs    build the documentation into site/, without warnings"
	@echo "make schema  write the JSON Schema of model files"
	@echo "make images  draw the figures of the README and the documentation"
	@echo "make paper   reproduce the paper's figures and rewrite the pages about them"
	@echo "make clean   remove .venv and caches"

setup: $(READY)

# what Solvent itself needs
$(BASE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and $(TOO_OLD) % sys.version_info[:2])'
	@echo "Creating $(VENV) and installing what Solvent needs (half a minute, longer if it must be downloaded first)..."
	@$(PYTHON) -m venv $(VENV)
	$(call install)
	@touch $(BASE)

# what its development needs
$(READY): $(BASE)
	@echo "Installing what the tests need into $(VENV)..."
	$(call install,dev)
	@echo "Compiling kernels for this machine (once, a minute or two)..."
	-@$(RUN) -m solvent warmup
	@touch $(READY)

# torch has several builds of one version, for CPUs and accelerators: install the build of this machine, unchecked
$(EXTRAS): $(READY)
	@echo "Installing the packages of the extras into $(VENV) (some minutes if they must be downloaded first)..."
	@$(RUN) $(PIP_INSTALL) --no-deps $(shell grep -o '^torch==[^ ]*' constraints.txt)
	$(call install,dev bench rl envs ray)
	@touch $(EXTRAS)

$(DOCS): $(READY)
	@echo "Installing what the documentation needs into $(VENV)..."
	$(call install,dev docs)
	@touch $(DOCS)

demo: $(BASE)
	$(VENV)/bin/solvent demo
	@echo "The program is $(VENV)/bin/solvent; \"source $(VENV)/bin/activate\" makes it known as solvent."

test: $(READY)
	$(RUN) $(PYTEST) $(TESTS)

# what only the check of a commit runs: slow tests, and tests of extras; tests with Ray share one cluster, in one process
test-slow: $(EXTRAS) browser
	$(RUN) $(PYTEST) -m "(slow or extras) and not nightly" --ignore tests/cluster $(TESTS)

test-ray: $(EXTRAS)
	$(RUN) $(PYTEST) -n 0 -m "not nightly" tests/cluster

# answers must be the same with code for a generic processor, which also checks the bounds of arrays
test-generic: $(READY)
	$(RUN) .ci/processors.py

# kernels with array bounds checked, compiled as for test-generic, and as plain Python
test-kernels: $(READY)
	NUMBA_CPU_NAME=generic NUMBA_BOUNDSCHECK=1 $(RUN) $(PYTEST) $(KERNEL_TESTS)
	NUMBA_DISABLE_JIT=1 $(RUN) $(PYTEST) tests/fuzz/test_fuzzer.py -k \
		"test_short_run and (general or one_sided or deterministic or product or steps or resources or continuous or accounts)"

# tests with the oldest supported versions; newer transitive dependencies may warn that these versions are deprecated
test-oldest: $(OLDEST)/.ready
	$(OLDEST)/bin/python $(PYTEST) -W ignore::DeprecationWarning $(OLDEST_TESTS) $(addprefix --ignore ,$(NEWER_TESTS))

$(OLDEST)/.ready: pyproject.toml oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python $(PIP_INSTALL) -c oldest.txt pytest pytest-xdist hypothesis jsonschema pettingzoo -e .
	@touch $(OLDEST)/.ready

# the built wheel in a fresh environment, without src: the first pages of the documentation, and some tests
test-wheel: $(READY)
	$(RUN) .ci/wheel.py --workers $(WORKERS)

# the same with every version of Python, as far as they are found: PYTHONS="python3.13 /opt/python3.14/bin/python3"
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
ifeq ($(origin PYTHONS),file)
PYTHONS += $(wildcard $(HOME)/.pyenv/versions/3.1[2-9].*/bin/python)
endif
test-pythons: $(READY)
	$(RUN) -m hatchling build -t wheel -d dist/tested
	@for python in $(PYTHONS); do \
		if $$python --version > /dev/null 2>&1; then \
			$(RUN) .ci/wheel.py --wheel "$$(ls -t dist/tested/*.whl | head -1)" --python $$python || exit 1; \
		else echo "$$python: not found, not tested"; fi; \
	done

# the first command fails if a package is missing, for which tests would be skipped
test-peers: $(PEERS)/.ready
	$(PEERS)/bin/python -c "import torchrl, ray.rllib, pyRDDLGym, rddlrepository, pyarrow"
	$(PEERS)/bin/python $(PYTEST) -m "slow or not slow" $(PEER_TESTS)

$(PEERS)/.ready: pyproject.toml peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python $(PIP_INSTALL) --no-deps $(shell grep -o '^torch==[^ ]*' peers.txt)
	$(PEERS)/bin/python $(PIP_INSTALL) -c peers.txt pytest pytest-xdist hypothesis jsonschema torch "ray[rllib]" torchrl -e .[rddl]
	@touch $(PEERS)/.ready

# keep the versions in constraints.txt (edit them there) and look up the hashes of all their files
lock: $(READY)
	$(RUN) $(PIP_INSTALL) uv
	grep '^#' constraints.txt > constraints.new
	grep -o '^[A-Za-z0-9._-]*==[^ ;]*' constraints.txt | $(RUN) -m uv pip compile - --no-deps --universal \
		--python-version 3.11.5 --generate-hashes --no-header --no-annotate --quiet >> constraints.new
	mv constraints.new constraints.txt

# Chromium, for tests that open pages; installed if it is missing and that is possible
browser:
	bash .ci/browser.sh

# everything that takes too long for every commit; it ends with one line that says what was done
nightly: $(EXTRAS) browser
	$(RUN) .ci/nightly.py

lint: $(READY)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m codespell_lib $(PROSE)
	$(RUN) .ci/prose.py $(PROSE)

format: $(READY)
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

fuzz: $(READY)
	$(RUN) -m fuzz --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(if $(TARGET),--target $(TARGET))

bench: $(EXTRAS)
	$(RUN) -m bench.peers $(if $(QUICK),--quick,--page)
	$(RUN) -m bench.limit $(if $(QUICK),--quick,--page)
	$(RUN) -m bench.levels $(if $(QUICK),--seconds 0.2,--page)
	$(RUN) -m bench.learning $(if $(QUICK),--seeds 1,--page)
	$(RUN) -m bench.targets $(if $(QUICK),--quick,--page)

bench-learning: $(EXTRAS)
	$(RUN) -m bench.training $(if $(QUICK),--quick,--page) $(if $(RECORDS),--records $(RECORDS))

bench-claims: $(EXTRAS)
	$(RUN) -m bench.claims $(if $(QUICK),--quick,--page)

bench-targets: $(EXTRAS)
	$(RUN) -m bench.targets

bench-check: $(READY)
	$(RUN) -m bench.check

# the fonts and the script that typeset the mathematics of the documentation
$(KATEX): .ci/katex.py | $(READY)
	$(RUN) .ci/katex.py
	@touch $(KATEX)

docs: $(DOCS) $(KATEX)
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

schema: $(READY)
	$(RUN) -c "from solvent.formats.schema import write_schema; write_schema()"

images: $(READY) browser
	$(RUN) docs/images/make.py
	$(RUN) docs/images/report.py

paper: $(READY)
	$(VENV)/bin/solvent paper --out out/paper
	$(RUN) docs/images/reproduction.py out/paper

clean:
	rm -rf $(VENV) $(OLDEST) $(PEERS) .venv-omnisafe site docs/theme/katex .mypy_cache .ruff_cache .pytest_cache .hypothesis
