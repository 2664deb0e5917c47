# Every target does its own set-up in .venv, once; ARGS goes to the command: make demo ARGS=--keep-open
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CPU_TORCH := https://download.pytorch.org/whl/cpu

.PHONY: demo test coverage mutants fuzz compat package lint bench docs screenshots clean

demo: $(READY)  ## the failure room, watched: two short trainings with the live page open
	$(BIN)/rlwatch lab failure-room --dashboard $(ARGS)

test: $(READY)  ## everything that CI needs
	$(BIN)/python -m pytest -n 2 $(ARGS)

# Without browsers, ranks, the lab and most of the real trainings: what is left judges, reads, audits and reports.
COVERED := detect signals audit readers runs alerts report streams capture
QUICK = $(filter-out $(wildcard $(addprefix tests/test_,*browser* dashboard* docs* lab* examples* packages* ranks* \
	import_cost* end_to_end* simulated* detectors* show* traps* roots* wandb* audit_run* audit_exact* \
	capture_configs* capture_exact* capture_releases* capture_trainers* resume*)),$(wildcard tests/test_*.py))

coverage: export COVERAGE_FILE := $(VENV)/coverage
coverage: $(READY)  ## lines and branches that the quick tests run, a package
	$(BIN)/python -m pytest -q -n 2 --cov-branch $(addprefix --cov=rlwatch/,$(COVERED)) --cov-report= $(QUICK) $(ARGS)
	$(BIN)/python tests/coverage_table.py

mutants: $(READY)  ## small faults in the rules and the maths, one at a time: does a test notice?
	$(BIN)/python tests/mutants.py $(ARGS)

fuzz: $(READY)  ## the property tests, with other examples each time
	$(BIN)/python -m pytest -n 2 --hypothesis-profile=fuzz $$(grep -l "^from hypothesis" tests/*.py) $(ARGS)

compat: $(READY)  ## what is captured is exact, under the oldest and the newest TRL
	$(BIN)/python tests/compat.py $(ARGS)

package: $(READY)  ## the wheel from the package index: the core under each Python that is there, each extra alone
	$(BIN)/python tests/packages.py $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)  ## what watching costs, how fast logs are read, how well the rules do
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/ingest.py
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/dashboard.py
	$(BIN)/python benchmarks/detectors.py

docs: $(READY)  ## built into site/
	$(BIN)/python -m mkdocs build --strict

screenshots: $(READY)  ## of the pages, from the runs that `make demo` left in runs/
	$(BIN)/python docs/screenshots.py $(ARGS)

# torch goes first and alone, so that pip may look for a CPU build at PyTorch's own index; where that is out of reach,
# the build comes from wherever pip finds one.
$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV): some 2 GB of packages, minutes the first time (where pip warns of a retry, it goes on without)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --retries 1 --timeout 15 --extra-index-url $(CPU_TORCH) -c constraints.txt --no-deps torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis
