VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: test torture fuzz soak quickstart lint types install clean

MINUTES ?= 60
INPUTS ?= 10000

install: $(INSTALLED)

# remade only when what is to be installed changes
$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

test: $(INSTALLED)
	$(BIN)/python -m pytest -n auto

# faults in the real commands, damaged inputs, and hours of use: docs/torture.md
torture: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.torture --minutes $(MINUTES)

fuzz: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.torture.fuzzing --count $(INPUTS)

soak: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.torture.soak --minutes $(MINUTES)

quickstart: $(INSTALLED)
	$(BIN)/python -m cfgen.quickstart

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache
