#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Counts, on a VM pair with a debug kernel, which locks of the transport module one RPC takes on the client, and which on the
server: the kernel's lock_stat has the number of acquisitions of each class. Locks of sunrpc, of the RDMA core and of the device
are not counted.

Prints a line for each operation and side: locks per RPC, and how often each. `make locks` runs it for this project's module and
the in-tree one.
"""

import os
import re
import subprocess
import sys
from collections import Counter

sys.dont_write_bytecode = True

from counts import MOUNT, OPERATIONS, make_file, rpcs
from rig import fail, mount, on_server, run

# The names of lock classes of this module, and of the in-tree one.
OURS = re.compile(r"(?:rpcrdma|rdma)::|&buf->rb_lock|&cma_xprt->|&svcrdma_")
# A class: its name, and twelve numbers, of which the eighth is that of acquisitions.
CLASS = re.compile(r"\s*(\S+):((?:\s+[\d.]+){12})")
START = "echo 1 >/proc/sys/kernel/lock_stat && echo 0 >/proc/lock_stat"
STOP = "cat /proc/lock_stat; echo 0 >/proc/sys/kernel/lock_stat"


def here(command):
    return subprocess.run(command, shell=True, check=True, stdout=subprocess.PIPE, text=True).stdout


def acquisitions(statistics):
    """How often each class of the transport module was acquired."""
    counted = Counter()
    for line in statistics.splitlines():
        found = CLASS.match(line)
        if found and OURS.match(found[1]):
            counted[found[1].split("#")[0]] += int(found[2].split()[7])
    return counted


def main():
    if not os.path.exists("/proc/lock_stat"):
        fail("the kernel does not count locks")
    mount(MOUNT, os.environ["SERVER_ADDR"], "actimeo=0", "noac")
    make_file()
    print("\t".join(["operation", "side", "locks per RPC", "each"]))
    for name, repeat, operation in OPERATIONS:
        operation(3)
        here(START)
        on_server(START)
        before = rpcs()
        operation(repeat)
        done = rpcs() - before
        if done < repeat:
            fail("the server delegated the file, so RPCs were not needed: run it again")
        for side, counted in (("client", acquisitions(here(STOP))), ("server", acquisitions(on_server(STOP)))):
            each = ", ".join(f"{lock} {count / done:.2f}" for lock, count in counted.most_common() if count * 50 > done)
            print("\t".join([name, side, f"{counted.total() / done:.2f}", each]), flush=True)
    run("umount", str(MOUNT))


if __name__ == "__main__":
    main()
