# make demo, make test: each sets up everything it needs on a fresh machine.
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# The page needs no npm, only its checks do: where there is none, they are left out.
NPM := $(shell command -v npm)
TOOLS := $(if $(NPM),node_modules/.installed)

.PHONY: setup demo page docs test long soak fuzz mutants audit licences sbom check browser database format clean

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	python3 -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

node_modules/.installed: package-lock.json
	npm ci --no-audit --no-fund --silent
	touch $@

demo: setup
	$(BIN)/capsnet demo

# The explorer as files for any web server, with the networks running in the browser.
page: setup
	$(BIN)/capsnet explore --static build/page

# The documentation as a site, with the explorer in it: open build/site/index.html.
docs: setup
	$(BIN)/python -m sphinx -W --keep-going -q -c docs/site . build/site

test: check browser database
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not long" --durations=30

# Minutes: the kernels in Triton's interpreter, large networks in ONNX Runtime, mypy as users run it.
long: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m long

# Faults on purpose, thousands of each; the table in docs/reliability.md is written anew.
soak: setup
	rm -f soak.jsonl
	CAPSNET_SOAK=soak.jsonl OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 tests/soak
	$(BIN)/python tests/soak/table.py soak.jsonl docs/reliability.md soak

# N inputs that nobody wrote over all readers of files; their table in docs/reliability.md is written anew.
fuzz: N ?= 1000000
fuzz: setup
	rm -f fuzz.jsonl
	CAPSNET_SOAK=fuzz.jsonl CAPSNET_FUZZ=$(N) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 tests/soak/test_readers.py
	$(BIN)/python tests/soak/table.py fuzz.jsonl docs/reliability.md fuzz

# Faults in the code on purpose: N of them, drawn by SEED; some test has to fail for each.
SEED ?= 1
mutants: N ?= 300
mutants: setup
	OMP_NUM_THREADS=1 nice -n 10 $(BIN)/python tests/mutants/mutants.py --number $(N) --seed $(SEED) \
	  --page docs/reliability.md

# Known weaknesses of the pinned packages; needs the network. It has an environment of its own.
audit:
	python3 -m venv .audit
	.audit/bin/pip install --quiet --disable-pip-version-check pip-audit==2.10.1
	.audit/bin/pip-audit --strict --no-deps --disable-pip --progress-spinner off -r constraints.txt

licences: setup
	$(BIN)/python -m capsnet.dev licences

# The software bill of materials of the environment, for a release.
sbom: setup
	$(BIN)/python -m capsnet.dev sbom

check: setup $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(if $(NPM),npm run --silent check,@echo "There is no npm: the browser code was NOT checked.")

# The explorer's tests drive a real browser; without one they are skipped, in CI they fail.
browser:
	@command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq chromium) || \
	  echo "Chromium could not be installed: the browser tests will be SKIPPED."

# The tests of tuning start a PostgreSQL of their own; without one they are skipped, in CI they fail.
database:
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
	  (apt-get update -qq && apt-get install -y -qq postgresql) || \
	  echo "PostgreSQL could not be installed: the tests that need it will be SKIPPED."

format: setup $(TOOLS)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(if $(NPM),npm run --silent format)

clean:
	rm -rf $(VENV) .audit node_modules build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
