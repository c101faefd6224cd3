# Every target works on a fresh clone with Python 3.11+ and make: the first one that needs .venv makes it.

SEED ?= 1
ROUNDS ?= 200
KILLS ?= 100
SERVER_KILLS ?= 10
STRIDE ?= 1

PYTHON_CANDIDATES = python3 python3.13 python3.12 python3.11
UV = uv>=0.13.9,<0.14
BIN = .venv/bin

# Without bytecode each start of a program would compile all its imports anew, and `make bench` would measure that.
unexport PYTHONDONTWRITEBYTECODE
# The libraries are those of .venv and nothing else.
unexport PYTHONPATH
unexport PYTHONHOME

.DEFAULT_GOAL := help
.PHONY: help setup lock fmt lint types layers check test demo bench sim torture postgres show-tamper transcript wheel clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: .venv/.ready ## make .venv with everything locked in requirements-dev.lock

demo: .venv/.ready ## agents at work on the files of this folder
	$(BIN)/agentos demo .

test: .venv/.ready ## run the tests; three at a time keep two cores busy
	$(BIN)/python -m pytest -n 3 --dist loadfile

check: lint types layers test ## everything that a change has to pass

fmt: .venv/.ready ## format the code and repair what can be repaired
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lint: .venv/.ready ## look for mistakes and unformatted code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.ready ## check the types, strictly
	$(BIN)/mypy

layers: .venv/.ready ## check that imports point down the layers
	$(BIN)/lint-imports

bench: .venv/.ready ## measure turns, stores, lists and bytes, each against its bound
	$(BIN)/python -m agentos.testing.bench

sim: .venv/.ready ## simulate with seeded faults (SEED=1 ROUNDS=200); the last line is the final digest
	$(BIN)/python -m agentos.testing.simulate --seed $(SEED) --rounds $(ROUNDS)

torture: .venv/.ready ## kill kernels on each store (KILLS=100), servers (SERVER_KILLS=10), and fail every STRIDE-th step of a store
	$(BIN)/python -m agentos.testing.torture --kills $(KILLS) --server-kills $(SERVER_KILLS) --seed $(SEED)
	$(BIN)/python -m agentos.testing.nth_fault --stride $(STRIDE)

postgres: .venv/.ready ## start a PostgreSQL server that ends with Ctrl-C, and print its URL
	@$(BIN)/python -m agentos.testing.postgres

show-tamper: .venv/.ready ## tamper with copies of a store in every way, and let verify name what was done
	$(BIN)/python -m agentos.testing.tamper

transcript: .venv/.ready ## write docs/chat-transcript.md: a chat in tmux, as it stands on the screen
	$(BIN)/python -m agentos.testing.chat_transcript docs/chat-transcript.md

wheel: .venv/.ready ## build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation

lock: $(BIN)/uv ## choose the newest allowed versions anew and write both lock files
	$(LOCK) -o requirements.lock pyproject.toml
	$(LOCK) -o requirements-dev.lock -c requirements.lock --group dev pyproject.toml

clean: ## remove .venv, what was built, and all caches; stores stay
	rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find agentos tests -name __pycache__ -prune -exec rm -rf {} +

# Names, versions and hashes, good for every platform and Python from 3.11 on, and no address of an index.
LOCK = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-header --no-emit-index-url

.venv/.ready: pyproject.toml requirements.lock requirements-dev.lock $(BIN)/uv
	@echo "installing the locked packages into .venv" >&2
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --require-hashes -r requirements-dev.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation --no-deps -e .
	@touch $@

$(BIN)/uv:
	@python=$$($(FIND_PYTHON)) && echo "making .venv with $$python" >&2 && "$$python" -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(UV)"

# Prints the first Python that is new enough, PYTHON= before all others.
define FIND_PYTHON
for python in $(or $(PYTHON),$(PYTHON_CANDIDATES)); do \
	if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
		echo "$$python"; exit 0; \
	fi; \
done; \
echo "agentos needs Python 3.11 or newer; tried: $(or $(PYTHON),$(PYTHON_CANDIDATES)). Name one with make PYTHON=..." >&2; \
exit 1
endef
