# Two commands need nothing but Python (3.11 or newer) and make:
#   make demo    which rows may be left out: samplers compared on the Adult data, and a page
#   make test    run every check

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
JOBS ?= 2
TESTS = $(BIN)/python -m pytest -q --dist worksteal
COUNTED = $(TESTS) -n $(JOBS) -p tests.counting --cov --cov-report=
PLAIN = MVSBOOST_PLAIN_NUMBA=1 NUMBA_CACHE_DIR=$(CURDIR)/$(VENV)/plain-kernels
SIZE ?= quick
CASES ?= 20000

# without it on disk every process compiles the bytecode of all that it imports, for seconds
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-gpu test-oldest release-check campaign bench paper lint kernels unit unit-nojit unit-plain-numba coverage docs clean

demo: $(VENV)/demo.stamp
	$(BIN)/mvsboost compare adult --target target --out demo-results

# mypy has one core, and kernels are compiled on the other: once, and not by every process of tests.
# Many tests wait for other processes, so the three legs run at the same time
test: $(VENV)/dev.stamp
	$(MAKE) -j 2 lint kernels
	rm -f .coverage .coverage.*
	$(MAKE) -j 3 unit unit-nojit unit-plain-numba
	$(MAKE) coverage

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=src:. $(BIN)/lint-imports

kernels: $(VENV)/dev.stamp
	$(BIN)/mvsboost warmup

unit: $(VENV)/dev.stamp
	COVERAGE_FILE=.coverage.unit $(COUNTED) --durations=10

# kernels as plain Python: real tracebacks, and lines that coverage can count
unit-nojit: $(VENV)/dev.stamp
	NUMBA_DISABLE_JIT=1 COVERAGE_FILE=.coverage.nojit $(COUNTED) --durations=10 \
		-m "not large" -W "ignore:overflow encountered:RuntimeWarning" \
		tests/kernels tests/runtime tests/exact tests/trees tests/backends

# what compiles kernels where Numba's insides are not what they were; one process compiles each once
unit-plain-numba: $(VENV)/dev.stamp
	$(PLAIN) $(TESTS) -n 1 tests/kernels tests/trees/test_grower.py tests/backends/test_models.py

coverage: $(VENV)/dev.stamp
	$(BIN)/coverage combine -q --keep
	$(BIN)/coverage report --skip-covered --fail-under=95

# on a GPU what `make unit` runs on the simulator; numba-cuda uses what is deprecated in NumPy
test-gpu: $(VENV)/dev.stamp
	NUMBA_ENABLE_CUDASIM=0 $(BIN)/pytest -q -W ignore::DeprecationWarning \
		tests/backends/test_cuda.py tests/backends/test_cuda_arrays.py

# every dependency in the least version that pyproject.toml allows, but for dask, whose least versions
# do not go with the others'; needs Python 3.11 or 3.12.
# Matplotlib 3.8 calls the newest pyparsing by names of old
test-oldest: $(OLDEST)/stamp
	NUMBA_CACHE_DIR=$(CURDIR)/$(OLDEST)/kernels $(OLDEST)/bin/pytest -q -n $(JOBS) --dist worksteal \
		-W ignore::pyparsing.warnings.PyparsingDeprecationWarning \
		--ignore=tests/clusters --ignore=src/mvsboost/dask --deselect='tests/test_docs.py::test_listings_run[docs/scale.md]'

# the wheel as a user gets it, away from the checkout; nothing may be left to commit
release-check:
	PYTHON=$(PYTHON) JOBS=$(JOBS) .ci/release-check

# combinations of features under invariants, a quarter of an hour; see docs/reliability.md
campaign: $(VENV)/dev.stamp
	$(BIN)/python tests/combinations/campaign.py --cases $(CASES) --jobs $(JOBS) --out campaign.md

# hours on two cores; see benchmarks/run.py for parts of it
bench: $(VENV)/bench.stamp
	rm -f benchmarks/results.json
	PYTHONWARNINGS=ignore $(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/fits.py
	$(BIN)/python benchmarks/page.py

# SIZE=standard takes hours, SIZE=full days; what was done already is not done again
paper: $(VENV)/paper.stamp
	$(BIN)/python -m research --size $(SIZE) --jobs $(JOBS) --out paper-results

docs: $(VENV)/dev.stamp
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/site.py --out site

# uv installs five times as fast as pip, which is there in any case
install = ( $(BIN)/python -m pip install -q --disable-pip-version-check uv \
	&& VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install -q -e ".[$(1)]" \
	|| $(BIN)/python -m pip install -q --disable-pip-version-check --no-compile -e ".[$(1)]" )

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.stamp: $(VENV)/bin/python pyproject.toml
	$(call install,demo)
	touch $@

$(VENV)/dev.stamp: $(VENV)/bin/python pyproject.toml
	$(call install,dev)
	touch $@ $(VENV)/demo.stamp

$(VENV)/paper.stamp: $(VENV)/bin/python pyproject.toml
	$(call install,paper)
	touch $@

$(VENV)/bench.stamp: $(VENV)/dev.stamp
	$(call install,bench)
	touch $@

$(OLDEST)/stamp: pyproject.toml .ci/oldest.py
	$(PYTHON) -m venv --clear $(OLDEST)
	$(PYTHON) .ci/oldest.py > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install -q --disable-pip-version-check --no-compile \
		-c $(OLDEST)/constraints.txt -e ".[test]"
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST) .coverage* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache demo-results paper-results site campaign.md
	find . -name __pycache__ -prune -exec rm -rf {} +
