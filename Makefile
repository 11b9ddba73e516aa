# What people type. Everything else is in scripts/ and in `hoist --help`.
#
#   make cluster-up NODES=2 NODE_KIND=container KUBERNETES=v1.36.3 CNI=kube-router NAME=hoist
#   make cluster-down NAME=hoist
#   make test | test-vm | test-kubevirtci | test-kine | test-podman | test-faults | test-versions
#   make bench | lint | images | kubevirtci-image

NAME ?= hoist
NODES ?= 1
NODE_KIND ?= container
KUBERNETES ?=
CNI ?=
# More flags for `hoist up`, see docs/cli.md.
UP_FLAGS ?=

# The development profile: it builds in a fraction of the time and shares its artefacts with the tests;
# starting a cluster is waiting for others, not computing.
TARGET = $(or $(CARGO_TARGET_DIR),target)
HOIST = $(TARGET)/hoist

# Where the official installers put Rust and Go: first, an older one of the distribution may be there too.
export PATH := $(HOME)/.cargo/bin:/usr/local/go/bin:$(PATH)

.PHONY: bench cluster-up cluster-down images kubevirtci-image lint build setup \
	test test-vm test-kubevirtci test-kine test-podman test-faults test-versions

cluster-up: images
	@$(HOIST) up --name '$(NAME)' --nodes '$(NODES)' --node-kind '$(NODE_KIND)' \
		$(if $(KUBERNETES),--kubernetes '$(KUBERNETES)') $(if $(CNI),--cni '$(CNI)') $(UP_FLAGS)

cluster-down: build
	@$(HOIST) down --name '$(NAME)'

images: setup build
	@$(HOIST) images ensure --node-kind '$(NODE_KIND)' $(if $(KUBERNETES),--kubernetes '$(KUBERNETES)')

# What KUBEVIRTCI_GOCLI_CONTAINER names, and what it starts beside the machines: see docs/kubevirtci.md.
kubevirtci-image: setup build
	@$(HOIST) images ensure --kubevirtci $(if $(KUBERNETES),--kubernetes '$(KUBERNETES)')

test: setup
	@scripts/test

# More of nodes in virtual machines than `test` has: many minutes where KVM is not to be had.
test-vm: setup
	@scripts/test vm

# All benchmarks, or one: make bench BENCH=vm-boot; tests/bench/main.rs has the names and what can be set.
bench: NODE_KIND = vm
bench: images
	@cargo test --locked --quiet --package hoist --test bench -- $(BENCH)

# More of kubevirtci's cluster-up than `test` has, from the same stand-in for its cluster image.
test-kubevirtci: setup
	@scripts/test kubevirtci

# Clusters that lose containers, their data, or the hoist that makes them: half an hour.
test-faults: setup
	@scripts/test faults

# A cluster that keeps its data with kine; building its image takes some minutes, once.
test-kine: setup
	@scripts/test kine

# The basics on Podman, as root, beside the usual engine.
test-podman: setup
	@scripts/test podman

# Every pinned version of Kubernetes; building the images of one takes ten to twenty minutes, once.
test-versions: setup
	@scripts/test versions

lint:
	@scripts/check

build: setup
	@cargo build --locked --quiet --bin hoist
	@ln -sfn "$$(rustc --print host-tuple)/debug/hoist" '$(HOIST)'

setup:
	@scripts/setup
