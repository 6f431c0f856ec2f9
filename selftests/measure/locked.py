#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Counts the locked instructions of each transport module that an RPC takes, on the client and on the server, beside those of its spin
locks, which locks.py counts: QEMU counts them as the guest executes them (executed.py, locked_guest.py).

They are those of the module itself, and of the helpers of the kernel that it calls: by those Rust does what is inline in C. Prints a line
for each operation and side: how many, and which function of the module executes or calls them. Runs inside the build root.
"""

import bisect
import json
import subprocess
import sys
from collections import Counter

sys.dont_write_bytecode = True

import executed
from counts import OPERATIONS
from rig import boot, fail

# What Rust calls for what is inline in C: helpers of the kernel, and of this project.
HELPERS = "rust_helper_", "rust_rdma_helper_"


class Symbols:
    """The functions of a guest's kernel."""

    def __init__(self, text):
        self.lines = sorted((int(address, 16), name, *rest) for address, kind, name, *rest in map(str.split, text.splitlines()) if kind in "tT")
        self.addresses = [line[0] for line in self.lines]

    def at(self, address):
        """Returns the name of the function at this address, and whether that is one of the transport module."""
        _, name, *module = self.lines[max(bisect.bisect_right(self.addresses, address) - 1, 0)]
        return name, module == ["[rpcrdma]"]


def plain(names):
    """Returns readable names: those of Rust without the crates' hashes."""
    said = subprocess.run(["c++filt", "-s", "rust"], input="\n".join(names), check=True, stdout=subprocess.PIPE, text=True).stdout
    return dict(zip(names, said.splitlines()))


def places(directory):
    """Returns how often each function of the module executed locked instructions, or had a helper do that, for each phase."""
    symbols = Symbols((directory / "symbols").read_text())
    own, helpers, calls = {}, Counter(), {}
    for phase, address, count, target in executed.counted(directory):
        (name, is_own), (called, _) = symbols.at(address), symbols.at(target)
        if target and called.startswith(HELPERS):
            calls.setdefault((phase, called), Counter())[name if is_own else None] += count
        elif not target and name.startswith(HELPERS):
            helpers[phase, name] += count
        elif not target and is_own:
            own.setdefault(phase, Counter())[name, ""] += count
    # Some helpers execute it only at times.
    for (phase, helper), locked in helpers.items():
        callers = calls.get((phase, helper), Counter())
        for caller, count in callers.items():
            if caller:
                own.setdefault(phase, Counter())[caller, helper] += locked * count / callers.total()
    return own


def measure(module):
    succeeded, said = boot("pair", ["selftests/measure/locked_guest.py"], "--client", module, "--server", module, "--accel", "tcg",
                           *executed.counting("locked"), "--limit", "1800")
    if not succeeded:
        fail(f"the VMs with the module {module} failed: {said[-2000:]}")
    done = json.loads(said.splitlines()[-1])
    run = executed.newest("client").parent
    for side in "client", "server":
        found = places(run / side)
        names = plain(sorted({name for counted in found.values() for name, _ in counted}))
        for phase, (operation, *_) in enumerate(OPERATIONS, 1):
            counted, rpcs = found.get(phase, Counter()), done[operation]
            each = ", ".join(f"{names[name]} {helper} {count / rpcs:.2f}".replace("rust_rdma_helper_", "").replace("rust_helper_", "")
                             for (name, helper), count in counted.most_common() if count * 50 > rpcs)
            print("\t".join([module, operation, side, f"{counted.total() / rpcs:.2f}", each]), flush=True)


def main():
    executed.build()
    print("\t".join(["module", "operation", "side", "locked per RPC", "each"]))
    for module in "rust", "c":
        measure(module)


if __name__ == "__main__":
    main()
