# make demo            translate a document with the model in hub_cards/ (FILE=letter.txt for your own text)
# make test            lint, formatting, types and tests: whether a change is ready
# make slow            the tests that take minutes, learning included
# make benchmark       speed of decoding by batch size (MODEL=folder, DATA=documents.jsonl); BENCHMARK=attention, steps
#                      or decoding for speed and memory against other software, with random weights
# make space           the demo in a browser, at http://127.0.0.1:7860, offline
# make test-space      its tests in Chromium, which is fetched from the system's packages
# make report          one page of all results, training/results/report.html, and the tables in report.md, README.md
#                      and the card of the model of `make demo`
# make reproduce       do the runs behind the results that are missing (HOURS=2 starts none after that); hours to days
# make recipes         try the recipes of the papers' experiments in miniature
# make format          rewrite the files as `make test` wants them
#
# The first call makes a virtual environment in $(VENV) with everything in it; the later ones reuse it.

PYTHON ?= python3
VENV ?= .venv
FILE ?=
MODEL ?= hub_cards/docmt-tiny-en-de
DATA ?= tests/data/toy.en-de.jsonl
BENCHMARK ?= batches
HOURS ?= 24
# of the model of `make demo`, then of those that its card compares it with
CARD_RESULTS := $(patsubst %,training/results/tiny-en-de.%.json,gated-adj-transfer.eval \
    sentence-level-transfer.eval sentence-level.eval marian.eval gated-adj-transfer.train \
    sentence-level-transfer.train sentence-level-pronouns.train sentence-level.train marian.train \
    gated-adj-transfer.benchmark)
WORKERS ?= 1
# pip takes the build for CPUs where one of its sources has it: "+cpu" ranks above the plain release. Elsewhere the
# plain release may be one for CUDA, of some gigabytes. Any requirement that pip understands can stand here.
TORCH_SPEC ?= torch==2.13.0

BIN := $(VENV)/bin
CODE := modeling_docmt training hub_cards tests
RUFF_RULES := --line-length 119 --target-version py311 --extend-exclude "hub_cards/docmt-*"

# small models gain nothing from threads, and two test processes must not fight over the cores
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false

.DEFAULT_GOAL := test
.PHONY: demo test lint format types pytest slow benchmark report reproduce recipes space test-space

demo: $(VENV)/.ready-to-run
	$(BIN)/python -m training.demo $(if $(FILE),--file "$(FILE)")

test: lint types pytest

lint: $(VENV)/.ready-to-test
	$(BIN)/ruff check --select E,F,I,UP,B,W $(RUFF_RULES) --config "lint.isort.lines-after-imports=2" $(CODE)
	$(BIN)/ruff format --check $(RUFF_RULES) $(CODE)

format: $(VENV)/.ready-to-test
	$(BIN)/ruff check --fix --select E,F,I,UP,B,W $(RUFF_RULES) --config "lint.isort.lines-after-imports=2" $(CODE)
	$(BIN)/ruff format $(RUFF_RULES) $(CODE)

types: $(VENV)/.ready-to-test
	$(BIN)/mypy

pytest: $(VENV)/.ready-to-test
	$(BIN)/python -m pytest -n 2 --dist loadfile -q

slow: $(VENV)/.ready-to-test
	$(BIN)/python -m pytest -m "slow or learning"

benchmark: $(VENV)/.ready-to-test
	$(BIN)/python -m training.benchmark $(BENCHMARK) $(if $(filter batches,$(BENCHMARK)),--model $(MODEL) --data $(DATA))

# the README has a row a model; what was tried of each, and on development sets, is in the report
report: $(VENV)/.ready-to-test
	$(BIN)/python -m training.report training/results/*.json --output training/results/report.html \
	    --markdown training/results/report.md --claims training/claims.yaml --readme README.md --blocks claims
	$(BIN)/python -m training.report $$(ls training/results/tiny-*.json | \
	    grep -v -e benchmark -e '\.dev\.' -e literature -e counted -e sequential -e growing) --readme README.md
	$(BIN)/python -m hub_cards.build --model_dir hub_cards/docmt-tiny-en-de --readme README.md $(CARD_RESULTS)

space: $(VENV)/.ready-for-space
	$(BIN)/python hub_cards/space/app.py

test-space: $(VENV)/.ready-to-test
	$(BIN)/python -m pip install --quiet --editable ".[dev,space,browser]"
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	    if [ "$$(id -u)" = 0 ]; then apt-get install -y --no-install-recommends chromium chromium-driver; \
	    else echo "Needed: sudo apt-get install chromium chromium-driver"; exit 1; fi
	$(BIN)/python -m pytest -m slow tests/browser -q

reproduce: $(VENV)/.ready-to-test
	$(BIN)/python -m training.reproduce run --hours $(HOURS) --workers $(WORKERS)

recipes: $(VENV)/.ready-to-test
	$(BIN)/python -m training.recipes check

$(VENV)/.ready-to-run: setup.cfg pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "$(TORCH_SPEC)"
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.ready-to-test: $(VENV)/.ready-to-run
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

$(VENV)/.ready-for-space: $(VENV)/.ready-to-run
	$(BIN)/python -m pip install --quiet --editable ".[space]"
	touch $@
