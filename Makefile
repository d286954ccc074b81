# swarm: one Go program and a small PyTorch engine inside it. See README.md.

GO       ?= go
comma    := ,
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
PREFIX   ?= $(HOME)/.local
UP       ?= --nodes auto --config 4loc4ext --rounds 40
SOURCES  := $(shell find cmd configs internal launcher metrics node -type f 2>/dev/null | grep -v -e __pycache__ -e '\.pytest_cache')

# go-nvml's functions are looked up at their first call, long after the program has started. Some distributions
# configure the linker to resolve everything at start. Such a program crashes on a machine without a driver. This flag
# comes last on the linker's line, so that it wins.
LAZY     := $(if $(filter linux,$(shell $(GO) env GOOS)),-extldflags=-Wl$(comma)-z$(comma)lazy)

# The same flags for building, testing and checking. Otherwise the packages of all modules are compiled again for
# each.
export GOFLAGS := $(shell $(GO) env GOFLAGS 2>/dev/null) -trimpath $(if $(LAZY),-ldflags=$(LAZY))

.PHONY: help setup build man install uninstall up test test-go test-python lint bench chaos soak net-test fuzz gpu-check torch2 smollm2 peers figures screenshots clean

help: ## this list
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: ## install what is missing: Go modules, a C compiler, Python with PyTorch
	@.ci/setup

build: bin/swarm ## bin/swarm

bin/swarm: $(SOURCES) go.mod go.sum
	@mkdir -p bin
	@echo "building bin/swarm"
	@CGO_ENABLED=1 $(GO) build -ldflags "-s -w -X main.version=$(VERSION) $(LAZY)" -o $@ ./cmd/swarm

# install creates a new file, so that a running swarm keeps its own.
install: build ## bin/swarm into PREFIX/bin, manual pages: PREFIX=~/.local, DESTDIR= for packages
	@install -d "$(DESTDIR)$(PREFIX)/bin"
	@install -m 755 bin/swarm "$(DESTDIR)$(PREFIX)/bin/swarm"
	@bin/swarm man --out "$(DESTDIR)$(PREFIX)/share/man/man1"
	@echo "Installed $(DESTDIR)$(PREFIX)/bin/swarm"
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) \
		printf '%s is not on PATH: export PATH="%s:$$PATH"\n' "$(PREFIX)/bin" "$(PREFIX)/bin" ;; esac

man: build ## the manual pages, into man/
	@bin/swarm man --out man
	@echo "man/swarm.1 and a page for each command: man -l man/swarm-up.1"

uninstall: ## remove what install made; runs and the database stay
	@rm -f "$(DESTDIR)$(PREFIX)/bin/swarm" "$(DESTDIR)$(PREFIX)"/share/man/man1/swarm.1 "$(DESTDIR)$(PREFIX)"/share/man/man1/swarm-*.1
	@echo "Removed $(DESTDIR)$(PREFIX)/bin/swarm"

up: setup build ## train eight nodes, end to end: UP="--nodes 4 --config 8loc0ext" to change what
	@bin/swarm up $(UP)

test: setup build ## every test: Go with the race detector, Python, end to end
	@.ci/test

lint: ## gofmt, go vet, the width of prose, staticcheck
	@.ci/lint

bench: setup build ## the speed figures, as ratios within one run
	@.ci/bench

chaos: setup build ## a storm of faults over a real run, which must end as a calm one: SEED=1 FAULTS=200
	@SEED="$(SEED)" FAULTS="$(FAULTS)" ONLY="$(ONLY)" .ci/chaos

soak: setup build ## a run without an end, watched for what grows: MINUTES=15
	@MINUTES="$(MINUTES)" .ci/soak

net-test: setup build ## partitions, a hostile worker, a thousand simulated nodes, power cuts, fuzzing: ONLY=partition,hostile,scale,powercut,fuzz CUT=60s MESSAGES=100000
	@ONLY="$(ONLY)" .ci/net_test

fuzz: ## every fuzz target for SECONDS_EACH=10 seconds: TARGETS=REGEXP limits them
	@SECONDS_EACH="$(SECONDS_EACH)" TARGETS="$(TARGETS)" .ci/fuzz

gpu-check: ## everything measured on a CUDA GPU, against its targets; needs bin/swarm, no Go: GPU_CHECK="--part engine", "--part swarm" or "--help"
	@"$$(.ci/python || echo python3)" .ci/gpu_check $(GPU_CHECK)

torch2: setup build ## the engine with PyPI's PyTorch, oldest and newest: gigabytes, kept in ~/.cache/swarm-torch; TORCH2="2.1" or "--no-up"
	@.ci/torch2 $(TORCH2)

smollm2: setup build ## a swarm of SmolLM2-135M-Instruct, a real model, on tasks of the paper: SMOLLM2=--compare for a GPU
	@.ci/smollm2 $(SMOLLM2)

peers: setup build ## the same work beside transformers, TRL, GenRL, reasoning-gym and other peers of PyPI: PEERS="--only tasks"
	@python3 .ci/peers $(PEERS)

figures: build ## the studies' figures, docs/figures, from their exports, docs/study/*.db.gz
	@.ci/figures

screenshots: ## the README's pictures, docs/images, made in Chromium from real databases
	@.ci/screenshots

clean: ## remove what the build made
	rm -rf bin
