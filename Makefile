# The book and its package. `make book` builds the site, `make test` checks everything; `make help` lists the rest.
PYTHON ?= python3
BIN := .venv/bin
SITE := _build/html
# What is counted while the book is built or tested stays here, not in your account's cache.
export TOKENSEL_CACHE := $(CURDIR)/_build/counts

.DEFAULT_GOAL := help
.PHONY: help book test serve lint notebooks launch live bench shots clean

help:
	@echo "make book       execute every chapter and build the site in $(SITE)"
	@echo "make test       build the book if needed, then run every test"
	@echo "make serve      build the book and serve it at http://127.0.0.1:8000"
	@echo "make lint       ruff, and the normal form of the notebooks"
	@echo "make notebooks  bring the notebooks to their normal form and format their code"
	@echo "make launch     run every chapter as Colab does: alone, without the package until its first cell;"
	@echo "                NOTEBOOKS=book/text/imdb.ipynb takes only those named"
	@echo "make live       start Live code in every chapter, with a Jupyter server in the place of Binder's (needs npm);"
	@echo "                CHAPTERS=book/text/imdb takes only those named"
	@echo "make bench      time and memory against what a reader would write instead"
	@echo "make shots      pictures of every page (desktop, phone, dark, wide) in build/shots;"
	@echo "                PAGES=imdb takes only those whose address holds the word"
	@echo "make clean      remove everything that was built, except .venv"

# The environment: exact versions, and the package itself as it stands here.
.venv/installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed, \
	and $(PYTHON) is " + sys.version.split()[0] + ". Name another: make PYTHON=python3.12 book")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

book: .venv/installed
	$(BIN)/jupyter-book build . -W -n --keep-going
	@$(BIN)/python -c 'import pathlib; print(pathlib.Path("$(SITE)/index.html").resolve().as_uri())'

test: book
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --reuse-contracts --numprocesses logical --maxprocesses 4 --dist loadfile

serve: book
	$(BIN)/python -m http.server 8000 --bind 127.0.0.1 --directory $(SITE)

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python book/_ext/notebook_form.py --check

notebooks: .venv/installed
	$(BIN)/python book/_ext/notebook_form.py
	$(BIN)/ruff format book

launch: .venv/installed
	PYTHONPATH=book/_ext $(BIN)/python tests/book/launch.py $(NOTEBOOKS)

live: book
	PYTHONPATH=book/_ext $(BIN)/python tests/book/live.py $(CHAPTERS)

bench: .venv/installed
	$(BIN)/python -m benchmarks

shots: book
	PYTHONPATH=book/_ext $(BIN)/python tests/book/shots.py $(PAGES)

clean:
	rm -rf _build build *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path "./.venv/*" -prune -exec rm -rf {} +
