# make demo, make test: each sets up everything it needs on a fresh machine.
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# The page needs no npm, only its checks do: where there is none, they are left out.
NPM := $(shell command -v npm)
TOOLS := $(if $(NPM),node_modules/.installed)

.PHONY: setup demo page test long check browser database format clean

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

test: check browser database
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not long" --durations=30

# Minutes: the kernels in Triton's interpreter, large networks in ONNX Runtime, mypy as users run it.
long: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m long

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
	rm -rf $(VENV) node_modules build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
