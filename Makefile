# Partita's commands. `make up` and `make test` need nothing but Python 3.11+ on Debian or Ubuntu.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
# Without bytecode each start of a process compiles some 1,500 modules: 2.5 s of CPU.
unexport PYTHONDONTWRITEBYTECODE
CODE := apps cue documentation kernel mocks partita_client partita_mock readers surfaces platform_site sync_stack worker release tests bench examples/sync manage.py partita_program.py

.DEFAULT_GOAL := help
.PHONY: help install up sync-demo test test-fast test-cluster kubernetes faults bench proto format lint types imports migrations-check deploy-check site check docs reference pictures requirements dist package sbom image clean

# Install a file of requirements, each by its hash, without uv's list of packages; in a terminal, dots say it goes on.
define install
echo "installing $(2) ($$(grep -c == $(1)) packages) into $(VENV)"; \
[ ! -t 1 ] || while sleep 1 && kill -0 $$$$ 2>/dev/null; do printf .; done & \
$(BIN)/uv pip install -q --require-hashes --python $(PY) -r $(1); code=$$?; kill $$! 2>/dev/null; \
[ ! -t 1 ] || printf '\r\033[K'; exit $$code
endef

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 20

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Partita needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another one: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@echo "making the virtual environment $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv && $(PYTHON) -m venv $(VENV); \
	  else echo "python3 -m venv does not work here: install it first (Debian, Ubuntu: sudo apt-get install python3-venv)" >&2; exit 1; fi; }

$(VENV)/.uv: requirements-uv.txt $(PY)
	@echo "installing uv, which installs the rest, into $(VENV)"
	@$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r requirements-uv.txt && touch $@

$(VENV)/.runtime: requirements.txt $(VENV)/.uv
	@$(call install,requirements.txt,Partita's libraries)
	@touch $@

$(VENV)/.development: requirements-dev.txt $(VENV)/.runtime
	@$(call install,requirements-dev.txt,the tools of the tests)
	@touch $@

$(BIN)/partita: $(PY)
	@ln -sf ../../partita $@

install: $(VENV)/.runtime $(BIN)/partita  ## install what Partita needs into .venv

up: install  ## start Partita on embedded defaults and launch the first example suite
	@echo "loading Partita; the first start compiles its libraries"
	@exec $(PY) manage.py up

sync-demo: install  ## the configuration sync in a minute: push, webhook, value, drift, heal
	@exec $(PY) -m examples.sync

test: $(VENV)/.development  ## run all tests against real servers on private ports
	@$(PY) -m tests.support.run

test-fast: $(VENV)/.development  ## pure and service tests only: no server, under a minute
	@$(PY) -m tests.support.run --fast

test-cluster: $(VENV)/.development  ## the tests on a real Kubernetes: one that it starts, or that of TEST_KUBECONFIG
	@$(PY) -m tests.support.run --cluster

kubernetes: $(VENV)/.development  ## build the Kubernetes that test-cluster starts: once, 10 minutes (needs Go)
	@$(PY) -m tests.support.kubernetes build

faults: $(VENV)/.development  ## 20 random crashes a victim with real leases; the table goes to bench/RESULTS.md
	@$(PY) -m tests.support.run --faults

bench: $(VENV)/.development  ## the benchmarks, side by side with their peers
	@$(PY) -m tests.support.run --bench

proto: $(VENV)/.development  ## generate sync_stack/rpc/gen from proto/
	@rm -rf sync_stack/rpc/gen && mkdir -p sync_stack/rpc/gen
	@cd proto && ../$(PY) -m grpc_tools.protoc -I . --python_out=../sync_stack/rpc/gen --pyi_out=../sync_stack/rpc/gen \
	  --grpc_python_out=../sync_stack/rpc/gen $$(find partita -name '*.proto')
	@find sync_stack/rpc/gen -name '*_pb2_grpc.py' -exec sed -i 's/^from partita\./from sync_stack.rpc.gen.partita./' {} +
	@find sync_stack/rpc/gen -type d -exec touch {}/__init__.py \;

docs: $(VENV)/.development  ## build the documentation site, which the server has under /docs/
	@$(PY) -m documentation.site --out documentation/html

reference: $(VENV)/.development  ## write the reference tables of docs/ anew, from the code
	@for part in suite module bundle; do $(PY) -m tests.support.$${part}_reference || exit 1; done
	@DJANGO_SETTINGS_MODULE=platform_site.settings.test $(PY) -m documentation.reference

pictures: $(VENV)/.development  ## take the pictures of the pages anew, into docs/images
	@PICTURES_TO=docs/images $(PY) -m tests.support.run -- -q -n 0 tests/integration/test_pictures.py

format: $(VENV)/.development  ## let ruff rewrite the code
	@$(BIN)/ruff check -q --fix $(CODE); $(BIN)/ruff format -q $(CODE)

lint: $(VENV)/.development
	@$(BIN)/ruff check $(CODE) && $(BIN)/ruff format --check -q $(CODE)

types: $(VENV)/.development
	@$(BIN)/mypy apps cue documentation kernel mocks partita_client partita_mock readers surfaces platform_site sync_stack worker release tests examples/sync

imports: $(VENV)/.development
	@$(BIN)/lint-imports

migrations-check: $(VENV)/.development
	@DJANGO_SETTINGS_MODULE=platform_site.settings.test SQLITE_PATH=:memory: $(PY) manage.py makemigrations --check --dry-run

deploy-check: $(VENV)/.development
	@DJANGO_SETTINGS_MODULE=platform_site.settings.production DB_DRIVER=sqlite PUBLIC_API_URL=https://partita.example \
	  HTTPS_REDIRECT=true HSTS_INCLUDE_SUBDOMAINS=true HSTS_PRELOAD=true \
	  JWT_SECRET=only-for-this-check-0123456789abcdefghijklmnop $(PY) manage.py check --deploy --fail-level WARNING

architecture: $(VENV)/.development
	@$(BIN)/pytest -q tests/architecture

site: $(VENV)/.development
	@$(PY) -m documentation.site

check: lint types imports architecture site migrations-check deploy-check  ## every check that needs no server

# For all platforms and versions of Python: what a marker leaves out here must have its hash there.
PIN := $(BIN)/uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-annotate --custom-compile-command "make requirements"
requirements: $(VENV)/.uv  ## pin anew, with hashes, what pyproject.toml names
	@$(PIN) pyproject.toml -o requirements.txt
	@$(PIN) pyproject.toml --group dev -o requirements-dev.txt
	@echo uv | $(PIN) - -o requirements-uv.txt

dist: docs  ## build the wheels and the source archive of a release into dist/
	@$(BIN)/uv build -q --out-dir dist
	@$(BIN)/uv build -q --wheel --out-dir dist partita_mock
	@$(BIN)/uv build -q --wheel --out-dir dist partita_client

package: dist

VERSION = $$($(PY) -c 'from kernel.version import VERSION; print(VERSION)')
sbom: $(VENV)/.runtime  ## write the bill of materials of a release into dist/, as CycloneDX
	@$(PY) -m release.bill_of_materials dist/partita-$(VERSION).cdx.json

# BASE=IMAGE names another base; the index of packages, if it is another one, is in PIP_INDEX_URL.
image: docs  ## build the image partita:VERSION from this checkout
	@docker build --target control-plane --tag partita:$(VERSION) --build-arg VERSION=$(VERSION) \
	  --build-arg REVISION=$$(git rev-parse HEAD) $(if $(BASE),--build-arg BASE=$(BASE)) \
	  $(if $(PIP_INDEX_URL),--build-arg PIP_INDEX_URL) $(if $(PIP_CERT),--build-arg PIP_CERT) .

clean:  ## remove what the commands made, but not the data folder
	@rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
