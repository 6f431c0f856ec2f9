#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Finds the kernel's reports of its own faults in a kernel log: dmesg.py FILE... exits 1 if there are any."""

import re
import sys
from pathlib import Path

# That a module out of tree or unsigned was loaded taints the kernel too; such lines are no faults and match nothing.
FAULT = re.compile(
    r"\bWARNING: (?!.*unencrypted|possible)|WARNING: possible"
    r"|\bBUG:|kernel BUG at|\bOops\b|general protection fault|Kernel panic|Unable to handle kernel"
    r"|refcount_t:|list_(add|del) corruption|\bUBSAN:|\bKASAN:|\bKCSAN:|kmemleak: \d+ new suspected|DMA-API: (?!preallocated|debugging enabled)"
    r"|ODEBUG:|ref_tracker:|unregister_netdevice: waiting|INFO: trying to register non-static key"
    r"|INFO: task .* blocked for more than|INFO: .*(lock|dead)|rcu:? .*(stall|detected)|possible recursive locking"
    r"|suspicious RCU usage|inconsistent lock state|soft lockup|hard LOCKUP|sleeping function called"
    r"|rust_kernel: panicked|panicked at|Modules linked in"
)


def reports(log):
    """Returns the lines of a log that report a fault."""
    return [line for line in log.splitlines() if FAULT.search(line)]


if __name__ == "__main__":
    found = [f"{name}: {line}" for name in sys.argv[1:] for line in reports(Path(name).read_text(errors="replace"))]
    print("\n".join(found), end="\n" if found else "")
    sys.exit(bool(found))
