#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Writes and truncates a file at random, with any size at any offset, and compares it with a copy in memory.

fio's own verification needs blocks that do not overlap, or a size of which all sizes are multiples.
"""

import os
import random
import sys

SIZE = 8 << 20
ROUNDS = 60


def size(rng):
    """Returns a length from 1 byte to 2 MiB, each power of two as likely as another."""
    return min(int(2 ** rng.uniform(0, 21)) + rng.choice((-1, 0, 1)), 2 << 20) or 1


def drop_cache(fd):
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def main(path):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    copy = bytearray()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for number in range(ROUNDS):
        offset, length = rng.randrange(SIZE), size(rng)
        if rng.random() < 0.1:
            os.ftruncate(fd, offset)
            copy[offset:] = bytes(max(0, offset - len(copy)))
        else:
            data = rng.randbytes(length)
            assert os.pwrite(fd, data, offset) == length
            copy.extend(bytes(max(0, offset - len(copy))))
            copy[offset : offset + length] = data
        if number % 10 == 9:
            drop_cache(fd)
        offset, length = rng.randrange(SIZE), size(rng)
        assert os.pread(fd, length, offset) == copy[offset : offset + length], f"round {number}: {length} bytes at {offset}"
    drop_cache(fd)
    assert os.pread(fd, 2 * SIZE, 0) == copy, "the whole file"
    os.close(fd)
    os.unlink(path)


main(sys.argv[1])
