# Developers and CI use the same targets. `make` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
BUILT := $(VENV)/.built
RUST := Cargo.toml Cargo.lock $(shell find rust -name '*.rs' -o -name Cargo.toml)

export VIRTUAL_ENV := $(CURDIR)/$(VENV)
# From here, where recipes run: pip takes a space in it for the end of a name.
export PIP_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Most modules of the packages are never imported, and Python compiles those that are. (0 switches the option on.)
export PIP_NO_COMPILE := 0
export RAY_USAGE_STATS_ENABLED := 0
# Each job starts processes: where no byte code may be kept, as in many containers, each compiles all of Oka again. A job
# of one task took 0.78 CPU seconds rather than 0.40 (Intel Xeon, 2026-11-23).
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help build wheel smoke wordcount test lint format rust-test loom python-test docs stubs portable fuzz soak test-all chaos kafka-kills natives rescales nexmark load s3-server bench bench-check peers first-hour k8s-check k8s-tools k8s-kuberay clean
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 10) else "Oka needs Python 3.10 or newer: make PYTHON=/path/to/python3")'
	@command -v cargo >/dev/null || { echo "Oka needs a Rust toolchain: https://rustup.rs" >&2; exit 1; }
	@echo "setting up $(VENV) and building the Rust core: a few minutes the first time"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet maturin
	$(BIN)/maturin develop --release --locked --extras ray,arrow,kafka,avro,otlp,bench,report,docs,dev
	@touch $@

$(BUILT): $(INSTALLED) $(RUST)
	$(BIN)/maturin develop --quiet --release --locked --skip-install
	@touch $@

build: $(BUILT) ## set up .venv and build the Rust core into it

# Programs of their own: in the native module they would be in every worker. Cargo is told of that module, too: so what a
# program needs has the features that it has there, and is compiled once for both.
BESIDE_NATIVE := --bins --package oka-native --package
PROGRAMS := target/release/oka-nexmark target/release/oka-load engine/bin/oka-s3-server
nexmark: target/release/oka-nexmark ## build the generator of Nexmark's events, for pipelines/nexmark
load: target/release/oka-load ## build the HTTP client at a rate, for oka bench serve
s3-server: engine/bin/oka-s3-server ## build the S3 server, for oka s3 serve; wheels made behind it have it

# Where a wheel has it, too.
engine/bin/%: target/release/%
	install -D --strip $< $@

.SECONDEXPANSION:
target/release/oka-%: Cargo.toml Cargo.lock $$(wildcard rust/$$*/*.toml rust/$$*/src/*.rs)
	cargo build --quiet --release --locked --target-dir target $(BESIDE_NATIVE) oka-$*
	@touch $@

# With the lines of our code, so that it shares what `make build` has compiled; the release's wheels are stripped.
WHEEL := dist/.built
wheel: $(WHEEL) ## build a wheel for the Python of .venv into dist, with its list of parts (SBOM)
$(WHEEL): $(BUILT) engine/bin/oka-s3-server $(shell find oka engine operators -type f ! -name '*.pyc' ! -name '*.so')
	$(BIN)/maturin build --quiet --release --locked --interpreter $(BIN)/python --out dist
	@touch $@

smoke: wheel ## the wheel in a fresh environment without Rust: a project, its first windows, its page
	$(BIN)/python tests/smoke.py $$(ls -t dist/*.whl | head -1)

wordcount: $(BUILT) ## count the words of a real text, 20 times over, on this machine
	$(BIN)/oka run pipelines/word_count.py repeat=20 --parallelism 2 --progress line

# What checks manifests without a cluster, and workflows: Go modules, kustomize only where there is no kubectl.
GO_MODULE_kubectl-validate := sigs.k8s.io/kubectl-validate@v0.0.4
GO_MODULE_kustomize := sigs.k8s.io/kustomize/kustomize/v5@v5.7.1
GO_MODULE_actionlint := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
K8S_TOOLS := $(patsubst %,.k8s/bin/%,actionlint kubectl-validate $(if $(shell command -v kubectl),,kustomize))

# Tests of the crates share what `make build` has compiled of others' crates. Clippy compiles ours for them, and lints them
# meanwhile: its own command would check all crates that they need once more.
CHECKED := --quiet --locked --release --config rust/checked.toml
CARGO_TEST := RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings cargo test $(CHECKED)

# What is downloaded goes beside what is compiled. The tests of the packages wait for half of their time: what compiles goes
# on meanwhile, and lets them go first.
test: ## everything that must pass: lint, types, Rust and Python tests
	@$(MAKE) --no-print-directory --jobs=3 $(BUILT) $(PROGRAMS) $(K8S_TOOLS)
	@$(MAKE) --no-print-directory $(WHEEL)
	@nice -n 19 $(MAKE) --no-print-directory lint rust-test k8s-check & checked=$$!; \
		$(MAKE) --no-print-directory python-test; tested=$$?; \
		wait $$checked && exit $$tested

lint: $(BUILT) .k8s/bin/actionlint ## formatting, lints, types, direction of imports
	cargo fmt --check
	$(call of-crates,--no-run)
	$(BIN)/ruff format --quiet --check
	$(BIN)/ruff check --quiet
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest engine._native --mypy-config-file rust/native/stubtest.ini
	$(BIN)/lint-imports
	$(BIN)/python tests/check_crates.py
	$(BIN)/python tests/draw_map.py --check
	.k8s/bin/actionlint

map: $(INSTALLED) ## the map in ARCHITECTURE.md, anew
	$(BIN)/python tests/draw_map.py

format: $(INSTALLED) ## format Rust and Python
	cargo fmt
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

define of-crates
$(CARGO_TEST) $(1)
$(CARGO_TEST) $(1) $(BESIDE_NATIVE) oka-nexmark
$(CARGO_TEST) $(1) $(BESIDE_NATIVE) oka-load --test against_a_server
$(CARGO_TEST) $(1) $(BESIDE_NATIVE) oka-s3-server
endef

lint rust-test: export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
rust-test: $(INSTALLED) loom ## tests of the crates
	$(call of-crates)

loom: ## the lock-free ring under every interleaving of its threads
	cargo test $(CHECKED) --config rust/loom.toml --package oka-ring-loom --lib

# Three processes: two have all tests on Ray, which wait for most of their time, and begin first, as they take longest. More
# would fall behind where there are two cores, and tests wait with limits.
python-test: $(BUILT) $(PROGRAMS) $(K8S_TOOLS) ## tests of the packages, real Ray included
	$(BIN)/python tests/run.py --numprocesses 3 --dist loadgroup --no-loadscope-reorder

docs: $(BUILT) ## the site of the documentation, in target/docs: a warning fails, such as a link to what is not there
	$(BIN)/python -m sphinx -W --keep-going -q -c docs -b html . target/docs
	@echo "target/docs/index.html"

stubs: $(INSTALLED) ## write engine/_native.pyi anew from the Rust types and docs
	$(BIN)/maturin generate-stubs --manifest-path rust/native/Cargo.toml --out .

# What takes the place of Linux's own means elsewhere, such as on macOS: the crates, and in a folder of its own the packages
# beside a module of that kind.
PORTABLE := target/portable
PORTABLE_CRATES := $(patsubst %,--package oka-%,ipc ring transport blob)
PORTABLE_TESTS := $(addprefix tests/,unit/test_system.py unit/test_network.py unit/test_blobs.py unit/host unit/deployment \
	integration/test_word_count.py integration/test_rescaled_windows.py integration/test_checkpoints.py \
	integration/test_hot_swap.py faults/test_failures.py faults/test_left_behind.py)
portable: export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
portable: $(INSTALLED) ## what runs off Linux, on this machine: crates and a part of the tests of the packages
	$(CARGO_TEST) --package oka-native $(PORTABLE_CRATES) --features oka-native/portable --lib --tests
	cargo build --quiet --release --locked --package oka-native --lib --features portable
	rm -rf $(PORTABLE) && mkdir -p $(PORTABLE)
	cp -r oka engine operators pipelines benchmarks k8s tests pyproject.toml $(PORTABLE)
	rm -f $(PORTABLE)/engine/_native*.so
	cp target/release/liboka_native.so $(PORTABLE)/engine/_native.so
	cd $(PORTABLE) && PYTHONPATH="$$PWD" "$(CURDIR)/$(BIN)/python" -m pytest -q -m "not ray" -k "not shm" $(PORTABLE_TESTS)

# What libFuzzer needs of the compiler; the flags are stable, so no other toolchain is.
COVERAGE := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
	-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := frames values columns blobs replies messages
HOST = $(shell rustc -vV | sed -n 's/^host: //p')

fuzz: ## random bytes, guided by coverage, into the decoders; FUZZ_SECONDS=60 in all
	RUSTFLAGS="$(COVERAGE)" cargo build --quiet --locked --package oka-fuzz --bins --profile fuzz \
		--target $(HOST) --target-dir target/fuzz
	@set -e; for target in $(FUZZ_TARGETS); do \
		mkdir -p target/fuzz/corpus/$$target; \
		target/fuzz/$(HOST)/fuzz/$$target target/fuzz/corpus/$$target -timeout=5 -max_len=4096 \
			-rss_limit_mb=512 -artifact_prefix=target/fuzz/$$target- -print_final_stats=1 \
			-max_total_time=$$(( $(FUZZ_SECONDS) / $(words $(FUZZ_TARGETS)) )) \
			> target/fuzz/$$target.log 2>&1 || { tail -n 40 target/fuzz/$$target.log; exit 1; }; \
		echo "$$target: clean"; grep -E 'executed_units|exec_per_sec|peak_rss' target/fuzz/$$target.log; \
	done

CHAOS_SEEDS ?= 0-99
chaos kafka-kills: export TESTS := whole
chaos: $(BUILT) ## drivers and workers killed, stopped and cut off at seeded moments, on each runtime; CHAOS_SEEDS=0-99
	CHAOS_SEEDS=$(CHAOS_SEEDS) HOSTILE_REQUESTS=2000 $(BIN)/python -m pytest -q -s --timeout 600 tests/faults/test_chaos.py tests/faults/test_nodes_come.py tests/faults/test_recovery.py tests/faults/test_features.py tests/faults/test_partitions.py \
		tests/faults/test_checkpoint_storage.py tests/unit/driver/test_recovery.py tests/faults/test_node_lost.py tests/faults/test_serving.py \
		tests/faults/test_hostile.py tests/faults/test_pods.py tests/faults/test_drained_node.py tests/faults/test_mixed_faults.py

KAFKA_SEEDS ?= 0-11
KAFKA_RECORDS ?= 3000000
kafka-kills: $(BUILT) ## workers and drivers killed at 60 moments of commits to Kafka, a broker away for a minute; KAFKA_SEEDS=0-11 KAFKA_RECORDS=3000000
	KAFKA_AWAY_SECONDS=60 $(BIN)/python -m pytest -q -s tests/integration/test_kafka_away.py
	KAFKA_SEEDS=$(KAFKA_SEEDS) KAFKA_RECORDS=$(KAFKA_RECORDS) $(BIN)/python -m pytest -q -s tests/faults/test_kafka.py

test-all: export TESTS := whole
test-all: python-test ## all tests of the packages, of which `make test` runs a part: all cells of tables, four times the examples

natives: $(BUILT) ## all tests with functions in Python alone, and with both ways compared: twice the time of `make test`
	for way in off check; do NATIVE=$$way $(BIN)/python tests/run.py --numprocesses 3 --dist loadgroup --no-loadscope-reorder || exit 1; done

RESCALE_SEEDS ?= 0-499
rescales: $(BUILT) ## random jobs that go on with fewer and more tasks: 5 minutes; RESCALE_SEEDS=0-499
	RESCALE_SEEDS=$(RESCALE_SEEDS) $(BIN)/python -m pytest -q --numprocesses 2 tests/property/test_rescales.py

bench: $(BUILT) ## the word-count benchmark at parallelism 1, a quarter of an hour; goes on where it stopped
	$(BIN)/oka bench word-count --parallelism 1 --json results/word_count.json

bench-check: $(BUILT) ## nothing is slower than benchmarks/guard/baseline.json, beside the pyzmq pair: 3 minutes
	$(BIN)/oka bench guard

# Peers have virtual environments of their own, without Oka's constraints; `make peers-NAME` sets up
# one. Flink in Java, which PyFlink needs, too, is built by Maven. PyFlink needs Python 3.11.
PEERS := bytewax pathway flink pyflink quix spark serve files

peers: $(PEERS:%=peers-%-or-say) ## set up the systems that Oka is measured beside, in .peers
	@failed=$$(cat .peers/*.failed 2>/dev/null | xargs); \
		test -z "$$failed" || { echo "failed: $$failed" >&2; exit 1; }

# One that fails does not keep the others from being set up.
peers-%-or-say:
	@mkdir -p .peers; rm -f .peers/$*.failed
	@$(MAKE) --no-print-directory peers-$* || echo $* > .peers/$*.failed

$(PEERS:%=peers-%): peers-%: .peers/%/.installed
peers-pyflink: peers-flink

.peers/flink/.installed: $(shell find benchmarks/peers/flink_java -type f)
	@echo "building .peers/flink"
	mvn --quiet --batch-mode --file benchmarks/peers/flink_java package
	@touch $@

.peers/%/.installed: benchmarks/peers/requirements/%.txt
	@echo "setting up .peers/$*"
	rm -rf .peers/$*
	$(PYTHON) -m venv .peers/$*
	env -u PIP_CONSTRAINT -u VIRTUAL_ENV .peers/$*/bin/python -m pip install --quiet --requirement $<
	@touch $@

k8s-check: $(BUILT) $(K8S_TOOLS) ## manifests of every overlay: schemas, lints, Dockerfile
	$(BIN)/oka k8s check

k8s-tools: $(K8S_TOOLS) ## install what k8s-check needs into .k8s: minutes the first time

k8s-kuberay: ## build KubeRay's own validation, which a test compares with ours: minutes
	cd tests/unit/k8s/kuberay && CGO_ENABLED=0 GOFLAGS=-mod=mod go build -gcflags='all=-N -l' -o $(CURDIR)/.k8s/bin/kuberay-validate .

# Without optimization they take two thirds of the time to build, and a second longer to run; a compiler that collects
# no garbage below 1 GiB takes four fifths of that, and without lines for a debugger a tenth less.
.k8s/bin/%: export GOBIN := $(CURDIR)/.k8s/bin
.k8s/bin/%: export GOGC := off
.k8s/bin/%: export GOMEMLIMIT := 1GiB
.k8s/bin/%: Makefile
	@command -v go >/dev/null || { echo "checking manifests needs Go 1.26 or newer: https://go.dev/dl" >&2; exit 1; }
	@echo "building $*"
	CGO_ENABLED=0 GOFLAGS=-mod=mod go install -gcflags='all=-N -l -dwarf=false' -ldflags='-s -w' $(GO_MODULE_$*)
	@touch $@

SOAK_SECONDS ?= 600
soak: $(BUILT) ## word counts for SOAK_SECONDS=600: memory stays flat, counts exact
	$(BIN)/oka bench soak --seconds $(SOAK_SECONDS)

first-hour: ## what README says, by an ordinary user, from a fresh clone in a folder with a space: an hour
	$(PYTHON) -m tests.first_hour

clean: ## remove what was built
	rm -rf $(VENV) .peers .k8s dist target engine/bin engine/_native*.so
