#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Writes and reads a file past the page cache, from and to memory that begins and ends anywhere in its pages.

fio's memory for direct I/O begins with a page.
"""

import mmap
import os
import random
import sys

OFFSETS = (0, 1, 511, 512, 2048, 4095)
LENGTHS = (1, 100, 512, 3585, 4096, 4097, 8191, 8192, 65536, 65537, 262145, 1048576)


def main(path):
    memory = memoryview(mmap.mmap(-1, 2 << 20))
    direct = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_DIRECT)
    cached = os.open(path, os.O_RDONLY)
    rng = random.Random(1)
    failed = 0
    for length in LENGTHS:
        for number, offset in enumerate(OFFSETS):
            here = memory[offset : offset + length]
            data = rng.randbytes(length)
            # The memory around it stays as it is.
            whole = bytearray(rng.randbytes(len(memory)))
            try:
                here[:] = data
                assert os.pwritev(direct, [here], number) == length, "written"
                assert os.pread(cached, length, number) == data, "what was written"
                memory[:] = whole
                assert os.preadv(direct, [here], number) == length, "read"
                whole[offset : offset + length] = data
                assert memory == whole, "what was read"
            except (AssertionError, OSError) as error:
                print(f"{length} bytes at {offset} in a page: {error}")
                failed += 1
            os.posix_fadvise(cached, 0, 0, os.POSIX_FADV_DONTNEED)
    os.unlink(path)
    return failed != 0


sys.exit(main(sys.argv[1]))
