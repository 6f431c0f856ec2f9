# SPDX-License-Identifier: GPL-2.0

"""What all formats share: the error of a decoder, a reader that checks lengths, and CRC32C (RFC 3720, appendix B.4)."""


class WireError(Exception):
    """What a receiver must refuse. `kind` is one of the error classes that README.md lists."""

    def __init__(self, kind, why=""):
        super().__init__(f"{kind}: {why}" if why else kind)
        self.kind = kind


class Reader:
    """Reads big-endian fields in order. Too few octets are the error class `short`."""

    def __init__(self, octets):
        self.rest = bytes(octets)

    def take(self, count):
        if count > len(self.rest):
            raise WireError("short", f"{count} octets expected, {len(self.rest)} left")
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def number(self, size):
        return int.from_bytes(self.take(size), "big")


def number(value, size):
    """A big-endian field. A value that does not fit raises OverflowError: it is the caller's mistake, not the peer's."""
    return value.to_bytes(size, "big")


def _table():
    table = []
    for index in range(256):
        for _ in range(8):
            index = index >> 1 ^ (0x82F63B78 if index & 1 else 0)
        table.append(index)
    return table


_TABLE = _table()


def crc32c(octets):
    crc = 0xFFFFFFFF
    for octet in octets:
        crc = crc >> 8 ^ _TABLE[(crc ^ octet) & 0xFF]
    return crc ^ 0xFFFFFFFF


def crc_field(octets):
    """The CRC as it is sent. RFC 5044, section 4.4: unlike every other field, least significant octet first."""
    return crc32c(octets).to_bytes(4, "little")
