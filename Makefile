# Each target sets up the virtual environment it needs, once. Only Python 3.11+ and make are needed.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-oldest check test-all test-models bench coverage reproduce docs lint clean

demo: $(VENV)/.core            ## the main job, end to end, on example data
	@$(BIN)/python examples/demo.py

test: $(VENV)/.test            ## the tests a newcomer runs, in about three minutes
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-oldest: $(VENV)-oldest/.done  ## the same, with the oldest versions that pyproject.toml declares
	$(VENV)-oldest/bin/python -m pytest -n 2 --dist worksteal

# What looks at fewer examples above, or at frozen numbers, runs again: with every example, and its oracle asked.
check: $(VENV)/.lint           ## what `make test` left out, style, types and the site; needs no server
	HYPOTHESIS_PROFILE=repeat $(BIN)/python -m pytest -n 2 --dist worksteal \
		-m "(long or examples or hypothesis or frozen) and not slow"
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" reproductions
	@$(MAKE) --no-print-directory lint docs

test-all: $(VENV)/.all         ## also what needs a server or more time
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -n 2 --dist worksteal -m "slow or not slow" tests reproductions

test-models: $(VENV)-models/.done  ## the same posteriors by PyMC and Stan, and as ArviZ shows them
	MPLBACKEND=Agg $(VENV)-models/bin/python -m pytest -m slow tests/likelihood/test_pymc.py \
		tests/likelihood/test_stan_program.py tests/posterior/test_arviz.py

bench: $(VENV)/.all $(VENV)-peer/.done  ## speed, as ratios against peers measured in the same run
	VESTRY_PEER=$(VENV)-peer/bin/python $(BIN)/python benchmarks/run.py

coverage: $(VENV)/.all         ## lines and branches of what privacy rests on
	@mkdir -p build/coverage
	HYPOTHESIS_PROFILE=repeat $(BIN)/python -m coverage run --rcfile=quality/coverage.ini -m pytest -n 2 --dist worksteal -m "not slow"
	$(BIN)/python -m coverage run --rcfile=quality/coverage.ini -m pytest -m slow tests/ledger
	$(BIN)/python -m coverage combine --quiet --rcfile=quality/coverage.ini
	$(BIN)/python -m coverage report --rcfile=quality/coverage.ini --fail-under=97

reproduce: $(VENV)/.test       ## the papers' figures, in reproduced/; `--data` names their tables
	$(BIN)/python -m reproductions all --output reproduced

docs: $(VENV)/.docs            ## the site, in site/; it is read without a network
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "open site/index.html"

lint: $(VENV)/.lint            ## style, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) $(VENV)-peer $(VENV)-models $(VENV)-oldest demo-output bench-output reproduced site

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Vestry needs Python 3.11 or newer; set PYTHON=python3.11")'
	@echo "setting up $(VENV) (once, about a minute)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	@$(PIP) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.core
	@$(PIP) --editable '.[test]'
	@touch $@

$(VENV)/.all: $(VENV)/.test
	@$(PIP) --editable '.[all,test,heavy,docs]'
	@touch $@

# A peer that needs older versions of what we use has an environment of its own.
$(VENV)-peer/.done:
	@$(PYTHON) -m venv $(VENV)-peer
	@$(VENV)-peer/bin/python -m pip install --quiet --disable-pip-version-check 'diffprivlib==0.6.6' 'scikit-learn<1.6' 'numpy<2.3'
	@touch $@

# PyMC needs older versions than the extras do; ArviZ 0.23, which comes with it, a Matplotlib below 3.11.
$(VENV)-models/.done: pyproject.toml
	@$(PYTHON) -m venv $(VENV)-models
	@$(VENV)-models/bin/python -m pip install --quiet --disable-pip-version-check --editable . \
		'pymc>=5.28,<6' 'pystan>=3.10,<4' 'matplotlib<3.11' 'pytest>=9' 'hypothesis>=6.170' 'mpmath>=1.4'
	@touch $@

$(VENV)-oldest/.done: pyproject.toml constraints-oldest.txt
	@$(PYTHON) -m venv $(VENV)-oldest
	@$(VENV)-oldest/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-oldest.txt \
		--editable '.[test,postgres,polars,delta]'
	@touch $@

$(VENV)/.docs: $(VENV)/.core
	@$(PIP) --editable '.[docs]'
	@touch $@

$(VENV)/.lint: $(VENV)/.test
	@$(PIP) --editable '.[test,lint]'
	@touch $@
