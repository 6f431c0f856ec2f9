# SPDX-License-Identifier: GPL-2.0
"""The workloads of the benchmarks, on a mount. Each is a function that runs for some seconds, and returns how many operations it did
and how long they took."""

import json
import os
import subprocess
import time
from pathlib import Path

from rig import FILE_MB

MOUNT = Path("/mnt/bench")


def fio(rw, bs, depth, files=f"{MOUNT}/file"):
    """Returns a workload of fio on these files, with colons between them; with no seconds it does one operation, which is what fio's own
    start costs."""
    def measure(seconds):
        length = ["--time_based", f"--runtime={int(seconds * 1000)}ms"] if seconds else ["--number_ios=1"]
        said = subprocess.run(
            ["fio", "--name=bench", f"--filename={files}", f"--size={FILE_MB}M", f"--rw={rw}", f"--bs={bs}",
             "--direct=1", "--ioengine=libaio", f"--iodepth={depth}", *length,
             "--norandommap", "--randrepeat=1", "--output-format=json"],
            check=True, stdout=subprocess.PIPE).stdout
        side = json.loads(said)["jobs"][0]["read" if "read" in rw else "write"]
        return side["total_ios"], max(side["runtime"], 1) / 1000
    measure.starts = True
    return measure


def loop(operation):
    """Returns a workload that repeats a function, which does some operations and says how many."""
    def measure(seconds):
        done, start = 0, time.monotonic()
        while (passed := time.monotonic() - start) < seconds:
            done += operation()
        return done, passed
    measure.starts = False
    return measure


def getattr_():
    for _ in range(16):
        os.stat(MOUNT / "file")
    return 16


def metadata():
    """Six operations on a new file."""
    name, other = MOUNT / "new", MOUNT / "other"
    with open(name, "wb") as file:
        file.write(b"x" * 100)
    os.stat(name)
    os.rename(name, other)
    os.listdir(MOUNT)
    with open(other, "rb") as file:
        file.read()
    os.unlink(other)
    return 6


WORKLOADS = {
    "GETATTR": loop(getattr_),
    "metadata mix": loop(metadata),
    "4 KiB random read, depth 1": fio("randread", "4k", 1),
    "4 KiB random write, depth 1": fio("randwrite", "4k", 1),
    "4 KiB random read, depth 16": fio("randread", "4k", 16),
    "4 KiB random write, depth 16": fio("randwrite", "4k", 16),
    "1 MiB sequential read": fio("read", "1m", 4),
    "1 MiB sequential write": fio("write", "1m", 4),
}
