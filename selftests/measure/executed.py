# SPDX-License-Identifier: GPL-2.0
"""Counting what the guest of QEMU executes (executed/plugin.c): on this machine, the plugin and what it has written; in a VM, the marks
where phases begin and end."""

import ctypes
import mmap
import subprocess
from collections import Counter

from rig import SRC

PLUGIN = SRC / "build/executed/plugin.so"


def build():
    PLUGIN.parent.mkdir(parents=True, exist_ok=True)
    source = SRC / "selftests/measure/executed/plugin.c"
    # The functions of QEMU are found when it loads the plugin.
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden", "-fPIC", "-shared", "-o", PLUGIN, source], check=True)


def counting(what):
    """Returns the options for a VM that counts `locked` instructions, or those of `strings`."""
    return ["--plugin", f"{PLUGIN},count={what}"]


def newest(role):
    """Returns the directory of the last machine of this role that counted."""
    return max((SRC / "build/vm").glob(f"*/{role}/plugin"), key=lambda file: file.stat().st_mtime).parent


def counted(directory):
    """Yields phase, address, how often, and the target of a call or 0."""
    for line in (directory / "plugin").read_text().splitlines():
        phase, address, count, target = line.split()
        yield int(phase), int(address, 16), int(count), int(target, 16)


def by_phase(directory):
    """Returns how many there were in each phase."""
    found = Counter()
    for phase, _, count, _ in counted(directory):
        found[phase] += count
    return found


def mark(phase):
    """Executes the NOP that the plugin knows: this phase begins, or with 0 one has ended."""
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes([0x0f, 0x1f, 0x80, phase, 0xed, 0xc0, 0x10, 0xc3]))
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
