# SPDX-License-Identifier: GPL-2.0
#
# The commands that people type; `make help` lists them. What a module build compiles is in Kbuild.

# The kernel of a native build: its headers or its build directory.
KDIR ?= /lib/modules/$(shell uname -r)/build

# Which module the VMs run: this one (rust) or the in-tree one (c).
MODULE ?= rust
CLIENT ?= rust
SERVER ?= rust

# How long each fuzz target runs, and how long `make hostile` measures beside each attack, in seconds; how often that measures all; the
# attacks whose name matches this, or the kernels of `make check-kernels`.
TIME ?= 60
RUNS ?= 1
ONLY ?=
KEEP ?=

# The VMs: their RDMA device (rxe, iwarp-tcp, iwarp-sctp, siw or strict), that of a pair's server if it is another one, virtual CPUs, memory and
# that of a pair's server, seconds until they are killed, additions to the kernel's command line. KERNEL= boots another kernel than the stock one: debug, rt-debug, uml or uml-debug.
RDMA ?= rxe
PEER_RDMA ?= $(RDMA)
SMP ?= 2
MEM ?= $(if $(filter %debug,$(KERNEL)),3G,2G)
PEER_MEM ?= $(MEM)
LIMIT ?= 600
APPEND ?=
# What maps memory for the strict device, instead of its own operations: iommu or bounce.
DMA ?=

# The shell of the guest expands a `$` in RUN.
override RUN := $(value RUN)
export KVER PEER_KVER RUN MODULE CLIENT SERVER

vm := scripts/enter scripts/vm.py
vm_options = --rdma $(RDMA) --peer-rdma $(PEER_RDMA) --smp $(SMP) --memory $(MEM) --peer-memory $(PEER_MEM) --limit $(LIMIT) --append='$(APPEND)' $(if $(DMA),--dma $(DMA))
built = scripts/build.sh $(if $(filter rust iwarp-%,$(1) $(2) $(RDMA) $(PEER_RDMA)),module,buildroot)$(siw)$(strict)
# The stock kernel lacks siw.
# The server of a pair may have another kernel: PEER_KVER=.
peer = $(if $(PEER_KVER), && scripts/build.sh peer)
siw = $(if $(filter siw,$(RDMA) $(PEER_RDMA)),$(if $(KERNEL),, && nice scripts/enter selftests/iwarp/siw.sh))
strict = $(if $(filter strict,$(RDMA) $(PEER_RDMA)), && nice scripts/enter selftests/strict/strict.sh $(if $(KERNEL),$(KERNEL)-)strict)

.PHONY: modules modules_install module buildroot shell vm vm2 demo check check-all check-fast check-uml adapters soak check-kernels check-packages debug-check conformance doc examples fuzz mutants instructions counts locks interop bench bench-time growth hostile deb release fmt clean distclean help

## Build
modules: ## both modules for the kernel in KDIR= (default: the running one); the default
	@scripts/native.sh $(KDIR)
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

modules_install: ## install them to updates/ of their kernel's modules, where depmod prefers rpcrdma.ko to the in-tree one
	scripts/install.sh $(INSTALL_MOD_PATH)

module: ## both modules for Debian's kernel (KVER= names one), in a build root that brings all tools
	@scripts/build.sh module

buildroot: ## only the build root and the kernel's Rust metadata
	@scripts/build.sh buildroot

shell: buildroot ## a shell in the build root
	@scripts/enter

deb: ## Debian packages in build/deb: for DKMS, the Rust metadata of each generic kernel in scripts/buildroot/kernels, or of KVER= (also for arm64), manual and status command
	@scripts/packaging/deb.sh

release: ## source tarball, packages, changes and checksums of the last commit, in build/release/
	@scripts/packaging/release.sh

## Try
demo: ## two VMs: NFS over RDMA with this project's client and server, shown step by step; RDMA=iwarp-tcp: over its own device
	@scripts/demo.sh

vm: ## a shell in a VM, or RUN='command'; MODULE=rust|c
	@$(call built,$(MODULE))
	@$(vm) single --module $(MODULE) $(vm_options) -- "$$RUN"

vm2: ## the same on the client of a pair; CLIENT=rust|c SERVER=rust|c; the server exports /export at SERVER_ADDR (NFSv4: /)
	@$(call built,$(CLIENT),$(SERVER))$(peer)
	@$(vm) pair --client $(CLIENT) --server $(SERVER) $(vm_options) -- "$$RUN"

## Test
check: ## all gates: host tests, builds, most tests under User-Mode Linux with KASAN, and those of the stock kernel
	@scripts/check.sh

check-all: ## make check, the long forms of the tests, and each fault in a loop: 100 disconnects, 20 device removals
	@scripts/check.sh all

check-fast: ## the gates that need no VM
	@scripts/check.sh fast

check-uml: ## the tests in the kernel, and a pair with mounts and lost connections, under User-Mode Linux: minutes
	@scripts/check.sh uml

adapters: ## each adapter whose limits the tests know, over a device that is strict about DMA, under User-Mode Linux
	@scripts/check.sh adapters

soak: ## files and programs beside faults for SOAK_MINUTES= minutes (100), over a strict device and iwarp-tcp: nothing may grow
	@scripts/check.sh soak

check-kernels: ## the modules on each kernel of scripts/buildroot/kernels; goes on where it ended; ONLY= kernels, KEEP=1: their roots stay
	@ONLY='$(ONLY)' KEEP='$(KEEP)' scripts/check.sh kernels

debug-check: ## all tests on debug kernels (built once), under User-Mode Linux or QEMU, over rxe, siw, iwarp-tcp and iwarp-sctp
	@scripts/check.sh debug

check-packages: ## the Debian packages, in chroots from a clean root and in a VM: install, upgrade, roll back, refuse, remove; lintian; KVER=7.3-arm64: those for arm64, in emulated machines
	@scripts/check.sh packages

conformance: buildroot ## which requirement of the protocol which test shows
	@scripts/enter scripts/conformance.py

doc: module ## the documentation of all crates, in build/cargo/doc; fails if a link in it leads nowhere
	@scripts/enter scripts/doc.sh

examples: module ## compiles the examples in the documentation of the wrapper crates
	@scripts/enter scripts/examples.sh

fuzz: buildroot ## each parser for TIME= seconds
	@scripts/enter selftests/fuzz/run.sh TIME=$(TIME)

mutants: buildroot ## change the protocol crates in every known way and see the tests fail: hundreds of builds
	@for crate in proto rdmap uabi; do scripts/enter nice selftests/mutants.sh $$crate || exit; done

instructions: buildroot ## what a header costs, and a segment of iWARP
	@scripts/enter selftests/measure/instructions.sh

counts: ## work requests, doorbells and completions per RPC, of this project's client and server and the in-tree ones
	@$(call built,rust)
	@for side in rust c; do echo "client: $$side"; \
		$(vm) pair --client $$side --server c $(vm_options) -- selftests/measure/counts.py || exit; done
	@for side in rust c; do echo "server: $$side"; \
		$(vm) pair --client rust --server $$side $(vm_options) -- 'selftests/measure/counts.py --server' || exit; done

locks: ## locks and other locked instructions per RPC of this project's module and the in-tree one, on client and server: with the debug kernel under User-Mode Linux, and under QEMU
	@KERNEL=uml-debug scripts/build.sh module
	@for side in rust c; do echo "client and server: $$side"; \
		KERNEL=uml-debug $(vm) pair --client $$side --server $$side --limit $(LIMIT) -- selftests/measure/locks.py || exit; done
	@scripts/build.sh module && scripts/enter selftests/measure/locked.py

interop: ## this project's module and the in-tree one on either side: every version, sys over IPv4 and IPv6, krb5p
	@$(call built,rust)
	@scripts/enter selftests/interop/interop.py

# The candidates of a benchmark are those over all devices, or over those that RDMA= names on the command line or in the environment.
bench_options = --only '$(ONLY)' $(if $(filter file,$(origin RDMA)),,--devices $(RDMA))

bench: ## instructions per operation: this project's module and the in-tree one over each device (RDMA= chooses), and NFS over TCP; ONLY= workloads; PROFILE=1: who executes them
	@scripts/build.sh module && nice scripts/enter selftests/iwarp/siw.sh
	@scripts/enter selftests/measure/bench.py $(bench_options) $(if $(PROFILE),--profile)

bench-time: ## the same in CPU time per operation of client and server, under User-Mode Linux
	@KERNEL=uml scripts/build.sh module
	@KERNEL=uml scripts/enter selftests/measure/cpu_time.py $(bench_options)

growth: ## how cost grows, beside the in-tree module: instructions by calls in flight, payload and connections; memory of connections; objects of each software device
	@scripts/build.sh module && KERNEL=uml scripts/build.sh module && nice scripts/enter selftests/iwarp/siw.sh
	@scripts/enter nice scripts/programs.sh
	@scripts/enter selftests/measure/growth.py --only '$(ONLY)'
	@scripts/enter selftests/measure/growth.py --objects --only '$(ONLY)'
	@KERNEL=uml scripts/enter selftests/measure/growth.py --memory

# Under User-Mode Linux, whose times are those of real processors; KERNEL= without a name is the stock kernel, under QEMU.
hostile: export KERNEL ?= uml
hostile: ## what a mount notices of clients that attack its server, this project's and the in-tree one; ONLY= attacks, TIME= seconds for each, RUNS=3: and medians
	@$(call built,rust)
	@scripts/enter nice scripts/programs.sh
	@scripts/enter selftests/hostile/hostile.py --seconds $(TIME) --runs $(RUNS) --only '$(ONLY)'

fmt: buildroot ## format the Rust sources
	@scripts/enter scripts/fmt.sh

## Clean
clean: ## remove what builds and tests left in the checkout
	@scripts/clean.sh

distclean: clean ## remove the cache too: build root, kernel metadata, downloads
	@scripts/clean.sh cache

help: ## this list
	@awk -F ':.*## ' '/^## / { printf "\n%s\n", substr($$0, 4) } \
		/^[a-z0-9_-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile
	@printf '\nVM settings: KERNEL=%s RDMA=%s SMP=%s MEM=%s LIMIT=%s APPEND=%s.\nRDMA is rxe, siw, iwarp-tcp, iwarp-sctp or strict. docs/testing.md has more.\n' \
		'$(KERNEL)' '$(RDMA)' '$(SMP)' '$(MEM)' '$(LIMIT)' '$(APPEND)'
