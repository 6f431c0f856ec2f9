#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Counts, on the client of a VM pair, or with --server on its server, what one RPC costs in work requests,
doorbells and completions: one thread, queue depth 1; then several threads at once.

Prints one line of tab-separated numbers for each operation; `make counts` puts
the tables of this project's module and of the C module below each other.
"""

import json
import mmap
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True

from rig import SRC, fail, mount, on_server, run

COLUMNS = ["SEND", "REG_MR", "LOCAL_INV", "RDMA_WRITE", "RDMA_READ", "signalled", "send doorbells",
           "receive doorbells", "completions", "completion workers", "nfsd wake-ups", "pages freed"]
PROBES = SRC / "selftests/measure/verbs.bt"
MOUNT = Path("/mnt/counts")
BLOCK = {"4k": 4096, "64k": 65536, "1m": 1 << 20}


def getattrs(count):
    for _ in range(count):
        os.stat(f"{MOUNT}/file")


def blocks(count, size, writing):
    flags = os.O_DIRECT | (os.O_WRONLY if writing else os.O_RDONLY)
    fd = os.open(f"{MOUNT}/file", flags)
    # O_DIRECT wants aligned memory, and that is what mmap gives.
    memory = mmap.mmap(-1, size)
    for i in range(count):
        offset = (i * size) % (8 << 20)
        if writing:
            os.pwritev(fd, [memory], offset)
        else:
            os.preadv(fd, [memory], offset)
    os.close(fd)


def at_once(jobs, count, size, writing):
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda _: blocks(count // jobs, size, writing), range(jobs)))


OPERATIONS = [("GETATTR", 200, lambda n: getattrs(n))]
for name, size in BLOCK.items():
    OPERATIONS.append((f"READ {name}", 100, lambda n, size=size: blocks(n, size, False)))
    OPERATIONS.append((f"WRITE {name}", 100, lambda n, size=size: blocks(n, size, True)))
for jobs in (8, 32):
    OPERATIONS.append((f"READ 4k, {jobs} at once", 960, lambda n, jobs=jobs: at_once(jobs, n, 4096, False)))
    OPERATIONS.append((f"WRITE 4k, {jobs} at once", 960, lambda n, jobs=jobs: at_once(jobs, n, 4096, True)))


def make_file():
    """Makes the file of the operations. The server writes to it, too, lest it delegates it to the client, which then needs no RPC."""
    with open(f"{MOUNT}/file", "wb") as file:
        file.write(os.urandom(8 << 20))
    on_server(": >>/export/file")


def rpcs():
    """Requests sent over the mount so far."""
    with open("/proc/self/mountstats") as stats:
        mine = stats.read().split(f" mounted on {MOUNT} ", 1)[1]
    line = next(l for l in mine.splitlines() if l.strip().startswith("xprt:"))
    return int(line.split()[7])


class Here:
    """The probes on this machine."""

    def __enter__(self):
        self.out = tempfile.NamedTemporaryFile("r")
        self.tracer = subprocess.Popen(["bpftrace", "-q", "-f", "json", "-o", self.out.name, PROBES],
                                       stdout=subprocess.DEVNULL)
        while '"ready' not in self.out.read():
            self.out.seek(0)
            if self.tracer.poll() is not None:
                fail("bpftrace did not start")
        return self

    def __exit__(self, *_):
        self.tracer.send_signal(2)
        self.tracer.wait()
        self.out.seek(0)
        self.said = self.out.read()


class Server:
    """The probes on the server of the pair."""

    def __enter__(self):
        on_server(f"rm -f /tmp/counts; setsid bpftrace -q -f json -o /tmp/counts {PROBES} >/dev/null 2>&1 & "
                  "until grep -qs ready /tmp/counts; do sleep 0.2; done")
        return self

    def __exit__(self, *_):
        on_server("pkill -INT bpftrace; while pgrep bpftrace >/dev/null; do sleep 0.1; done")
        self.said = on_server("cat /tmp/counts")


def count(operation, repeat, side):
    """Runs the operation under the probes; returns their counts per RPC."""
    with side as probes:
        before = rpcs()
        operation(repeat)
        done = rpcs() - before
    if done < repeat:
        fail("the server delegated the file, so RPCs were not needed: run it again")
    counted = {}
    for line in probes.said.splitlines():
        entry = json.loads(line)
        if entry["type"] == "map":
            counted.update(entry["data"].get("@", {}))
    return done, [counted.get(column, 0) / done for column in COLUMNS]


def main():
    side = Server() if "--server" in sys.argv else Here()
    mount(MOUNT, os.environ["SERVER_ADDR"], "actimeo=0", "noac")
    make_file()
    print("\t".join(["operation", "RPCs"] + COLUMNS))
    for name, repeat, operation in OPERATIONS:
        operation(3)
        done, numbers = count(operation, repeat, side)
        print("\t".join([name, str(done)] + [f"{n:.2f}" for n in numbers]), flush=True)
    run("umount", str(MOUNT))


if __name__ == "__main__":
    main()
