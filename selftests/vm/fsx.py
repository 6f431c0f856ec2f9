#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Does to a file what programs do, at random, and compares it with a copy in memory: reads and writes through the page cache, through a
mapping and past the cache, from and to several buffers; holes, truncation, copies within the file.

fsx.py FILE SECONDS [SIZE]: prints the seed; FSX_SEED= repeats one.
"""

import ctypes
import mmap
import os
import random
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
KEEP_SIZE, PUNCH_HOLE = 1, 2


class File:
    def __init__(self, path, size, rng):
        self.size, self.rng = size, rng
        self.cached = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self.direct = os.open(path, os.O_RDWR | os.O_DIRECT)
        self.copy = bytearray()
        # NFS takes direct I/O of any alignment.
        self.buffer = mmap.mmap(-1, 1 << 20)

    def extent(self):
        length = min(int(2 ** self.rng.uniform(0, 20)) + self.rng.choice((-1, 0, 1)), 1 << 20, self.size) or 1
        return self.rng.randrange(self.size - length + 1), length

    def inside(self):
        """Returns an extent of the file as it is now."""
        offset, length = self.extent()
        if offset >= len(self.copy):
            return 0, 0
        return offset, min(length, len(self.copy) - offset)

    def expect(self, offset, data, what):
        true = self.copy[offset : offset + len(data)]
        if data != true:
            at = next((i for i, (a, b) in enumerate(zip(data, true)) if a != b), len(true))
            raise AssertionError(f"{what}: {len(data)} octets at {offset} differ from {offset + at} on; the file has {len(self.copy)}")

    def put(self, offset, data):
        self.copy.extend(bytes(max(0, offset - len(self.copy))))
        self.copy[offset : offset + len(data)] = data

    def pieces(self, length):
        """Returns views of the buffer, of that length together, in pieces that begin anywhere."""
        views, at = [], 0
        for _ in range(self.rng.choice((1, 1, 2, 5))):
            piece = self.rng.randrange(length - at + 1) if length > at else 0
            views.append(memoryview(self.buffer)[at : at + piece])
            at += piece
        views.append(memoryview(self.buffer)[at:length])
        return [view for view in views if view]

    def write(self):
        offset, length = self.extent()
        data = self.rng.randbytes(length)
        assert os.pwrite(self.cached, data, offset) == length
        self.put(offset, data)

    def write_direct(self):
        offset, length = self.extent()
        data = self.rng.randbytes(length)
        self.buffer[:length] = data
        assert os.pwritev(self.direct, self.pieces(length), offset) == length
        self.put(offset, data)

    def write_mapped(self):
        offset, length = self.inside()
        if length:
            with mmap.mmap(self.cached, len(self.copy)) as mapped:
                data = self.rng.randbytes(length)
                mapped[offset : offset + length] = data
                self.put(offset, data)

    def read(self):
        offset, length = self.extent()
        data = os.pread(self.cached, length, offset)
        assert len(data) == max(0, min(length, len(self.copy) - offset)), f"{len(data)} octets of {length} at {offset}"
        self.expect(offset, data, "read")

    def read_direct(self):
        offset, length = self.extent()
        got = os.preadv(self.direct, self.pieces(length), offset)
        assert got == max(0, min(length, len(self.copy) - offset)), f"{got} octets of {length} at {offset}, direct"
        self.expect(offset, self.buffer[:got], "direct read")

    def read_mapped(self):
        offset, length = self.inside()
        if length:
            with mmap.mmap(self.cached, len(self.copy), prot=mmap.PROT_READ) as mapped:
                self.expect(offset, mapped[offset : offset + length], "mapped read")

    def truncate(self):
        length = self.rng.randrange(self.size + 1)
        os.ftruncate(self.cached, length)
        self.copy.extend(bytes(max(0, length - len(self.copy))))
        del self.copy[length:]

    def punch(self):
        offset, length = self.inside()
        if length and LIBC.fallocate(self.cached, KEEP_SIZE | PUNCH_HOLE, ctypes.c_long(offset), ctypes.c_long(length)) == 0:
            self.put(offset, bytes(length))

    def copy_within(self):
        offset, length = self.inside()
        to = self.rng.randrange(self.size - length + 1)
        if not length or abs(to - offset) < length:
            return
        try:
            done = os.copy_file_range(self.cached, self.cached, length, offset, to)
        except OSError:
            return
        self.put(to, self.copy[offset : offset + done])

    def drop(self):
        os.fsync(self.cached)
        os.posix_fadvise(self.cached, 0, 0, os.POSIX_FADV_DONTNEED)

    def step(self):
        step = self.rng.choices(
            (
                self.write, self.write_direct, self.write_mapped, self.read, self.read_direct, self.read_mapped,
                self.truncate, self.punch, self.copy_within, self.drop,
            ),
            (6, 6, 4, 6, 6, 4, 1, 1, 1, 2),
        )[0]  # fmt: skip
        step()


def main(path, seconds, size=1 << 21):
    seed = int(os.environ.get("FSX_SEED", random.randrange(1 << 32)))
    print(f"seed {seed}", flush=True)
    file = File(path, int(size), random.Random(seed))
    end, steps = time.monotonic() + float(seconds), 0
    while time.monotonic() < end:
        file.step()
        steps += 1
    file.drop()
    file.expect(0, os.pread(file.cached, 2 * file.size, 0), "the whole file")
    assert os.fstat(file.cached).st_size == len(file.copy)
    print(f"{steps} steps")


main(*sys.argv[1:])
