#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Writes what the codec encodes as a capture of a connection, so that a dissector can read it.

`capture.py tcp FILE`, `capture.py markers FILE` and `capture.py sctp FILE` write the examples that the tests use.
"""

import sys

import mpa
import sctp
import segment
from wire import crc_field
from wire import number

HOSTS = (bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2]))
PORTS = (49152, 20049)
# The active side is 0, the passive side 1.
ACTIVE, PASSIVE = 0, 1
RAW_IP = 101
SYN, ACK = 0x02, 0x10
DATA, INIT, INIT_ACK = 0, 1, 2
UNORDERED, WHOLE = 0x04, 0x03
ADAPTATION_PARAMETER, COOKIE_PARAMETER = 0xC006, 7


def write_pcap(path, packets):
    with open(path, "wb") as file:
        file.write(number(0xA1B2C3D4, 4) + number(2, 2) + number(4, 2) + bytes(8) + number(0xFFFF, 4) + number(RAW_IP, 4))
        for seconds, packet in enumerate(packets):
            file.write(number(seconds, 4) + bytes(4) + 2 * number(len(packet), 4) + packet)


def _sum(octets):
    """The checksum of RFC 1071."""
    octets += bytes(len(octets) % 2)
    total = sum(int.from_bytes(octets[place:place + 2], "big") for place in range(0, len(octets), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return number(total ^ 0xFFFF, 2)


def _ip(side, protocol, payload):
    header = (b"\x45\0" + number(20 + len(payload), 2) + b"\0\0\x40\0\x40" + number(protocol, 1) + b"\0\0" + HOSTS[side] + HOSTS[1 - side])
    return header[:10] + _sum(header) + header[12:] + payload


class Tcp:
    """A TCP connection from its SYN on."""

    def __init__(self):
        self.packets = []
        self.sent = [1000, 2000]
        self._packet(ACTIVE, SYN)
        self.sent[ACTIVE] += 1
        self._packet(PASSIVE, SYN | ACK)
        self.sent[PASSIVE] += 1
        self._packet(ACTIVE, ACK)

    def _packet(self, side, flags, payload=b""):
        header = (number(PORTS[side], 2) + number(PORTS[1 - side], 2) + number(self.sent[side], 4)
                  + number(self.sent[1 - side] if flags & ACK else 0, 4) + bytes([0x50, flags]) + number(0xFFFF, 2) + bytes(4))
        whole = header + payload
        check = _sum(HOSTS[side] + HOSTS[1 - side] + number(6, 2) + number(len(whole), 2) + whole)
        self.packets.append(_ip(side, 6, whole[:16] + check + whole[18:]))

    def send(self, side, payload):
        self._packet(side, ACK, payload)
        self.sent[side] += len(payload)


class Mpa(Tcp):
    """A TCP connection in full operation: each FPDU is a TCP segment of its own."""

    def __init__(self, markers):
        super().__init__()
        self.markers = markers
        self.position = [0, 0]
        told = {"revision": 1, "markers": markers, "crc": 1, "reject": 0, "enhanced": 0}
        self.send(ACTIVE, mpa.encode_startup({"frame": "request", **told, "private": b"hello"}))
        self.send(PASSIVE, mpa.encode_startup({"frame": "reply", **told, "private": b"welcome"}))

    def segment(self, side, fields):
        sent = mpa.encode_fpdu(segment.encode(fields), self.position[side], self.markers, 1)
        self.position[side] += len(sent)
        self.send(side, sent)


class Sctp:
    """An SCTP association from its INIT on, with one DDP stream session in stream 0."""

    STREAMS = 8
    TAGS = (0x11111111, 0x22222222)

    def __init__(self):
        self.packets = []
        self.tsn = [1, 1]
        self.ssn = [0, 0]
        for side, kind in ((ACTIVE, INIT), (PASSIVE, INIT_ACK)):
            value = number(self.TAGS[side], 4) + number(1 << 20, 4) + 2 * number(self.STREAMS, 2) + number(self.tsn[side], 4)
            if kind == INIT_ACK:
                value += number(COOKIE_PARAMETER, 2) + number(8, 2) + b"1234"
            # RFC 5043, section 5.1: the indication of DDP is 1.
            value += number(ADAPTATION_PARAMETER, 2) + number(8, 2) + number(1, 4)
            tag = 0 if kind == INIT else self.TAGS[ACTIVE]
            self._packet(side, tag, bytes([kind, 0]) + number(4 + len(value), 2) + value)

    def _packet(self, side, tag, chunk):
        header = number(PORTS[side], 2) + number(PORTS[1 - side], 2) + number(tag, 4)
        chunk += bytes(-len(chunk) % 4)
        self.packets.append(_ip(side, 132, header + crc_field(header + bytes(4) + chunk) + chunk))

    def _chunk(self, side, fields):
        payload = sctp.encode({**fields, "ssn": self.ssn[side]})
        value = number(self.tsn[side], 4) + number(0, 2) + number(0, 2) + number(fields["ppid"], 4) + payload
        chunk = bytes([DATA, UNORDERED | WHOLE]) + number(4 + len(value), 2) + value
        self._packet(side, self.TAGS[1 - side], chunk)
        self.tsn[side] += 1
        self.ssn[side] += 1

    def control(self, side, function, private=b"", **limits):
        self._chunk(side, {"ppid": sctp.CONTROL, "function": function, "private": private, **limits})

    def segment(self, side, fields):
        self._chunk(side, {"ppid": sctp.SEGMENT, "segment": segment.encode(fields)})


READ = {"opcode": segment.READ_REQUEST, "last": 1, "msn": 1, "mo": 0, "sinkstag": 0xA59D8500, "sinkto": 0x1000, "size": 1500, "srcstag": 0x77,
        "srcto": 0x123456789ABCDEF0}
# One of each kind, and a message of two segments.
EXAMPLES = (
    (ACTIVE, {"opcode": segment.SEND, "last": 1, "msn": 1, "mo": 0, "payload": b"an untagged message"}),
    (PASSIVE, {"opcode": segment.SEND, "last": 0, "msn": 1, "mo": 0, "payload": b"x" * 300}),
    (PASSIVE, {"opcode": segment.SEND, "last": 1, "msn": 1, "mo": 300, "payload": b"y" * 301}),
    (ACTIVE, {"opcode": segment.SEND_INVALIDATE, "last": 1, "msn": 2, "mo": 0, "invalidate": 0x89ABCDEF, "payload": b"z" * 502}),
    (ACTIVE, {"opcode": segment.SEND_SE, "last": 1, "msn": 3, "mo": 0, "payload": b"solicited"}),
    (ACTIVE, {"opcode": segment.SEND_SE_INVALIDATE, "last": 1, "msn": 4, "mo": 0, "invalidate": 0xFEDCBA98, "payload": b""}),
    (ACTIVE, {"opcode": segment.WRITE, "last": 1, "stag": 0x00C0FFEE, "to": 0xFFFFFFFF00000000, "payload": b"w" * 1203}),
    (ACTIVE, READ),
    (PASSIVE, {"opcode": segment.READ_RESPONSE, "last": 0, "stag": 0xA59D8500, "to": 0x1000, "payload": b"r" * 1428}),
    (PASSIVE, {"opcode": segment.READ_RESPONSE, "last": 1, "stag": 0xA59D8500, "to": 0x1594, "payload": b"r" * 72}),
    (ACTIVE, {"opcode": segment.IMMEDIATE, "last": 1, "msn": 5, "mo": 0, "payload": bytes(range(1, 9))}),
    (ACTIVE, {"opcode": segment.IMMEDIATE_SE, "last": 1, "msn": 6, "mo": 0, "payload": bytes(range(8, 0, -1))}),
    (ACTIVE, {"opcode": segment.ATOMIC_REQUEST, "last": 1, "msn": 2, "mo": 0, "operation": segment.FETCH_ADD, "identifier": 0x11223344,
              "stag": 0x77, "to": 0x123456789ABCDEF0, "data": 0x1122334455667788, "mask": 0x8000000000000000}),
    (ACTIVE, {"opcode": segment.ATOMIC_REQUEST, "last": 1, "msn": 3, "mo": 0, "operation": segment.CMP_SWAP, "identifier": 0x11223345,
              "stag": 0x77, "to": 0x123456789ABCDEF8, "data": 1 << 60, "mask": 2 << 56, "compare": 3 << 52, "comparemask": 5 << 48}),
    (PASSIVE, {"opcode": segment.ATOMIC_RESPONSE, "last": 1, "msn": 1, "mo": 0, "identifier": 0x11223344, "original": 0x8877665544332211}),
    (PASSIVE, {"opcode": segment.TERMINATE, "last": 1, "msn": 1, "mo": 0, "layer": 0, "type": 1, "code": 4, "m": 1, "d": 1, "r": 1,
               "length": 46, "header": segment.encode(READ)[:18], "read": segment.encode(READ)[18:]}),
    (ACTIVE, {"opcode": segment.TERMINATE, "last": 1, "msn": 1, "mo": 0, "layer": 1, "type": 2, "code": 5, "m": 1, "d": 1, "r": 0,
              "length": 46, "header": segment.encode(READ)[:18]}),
)


def example(kind):
    stream = Sctp() if kind == "sctp" else Mpa(1 if kind == "markers" else 0)
    if kind == "sctp":
        stream.control(ACTIVE, 5, b"hello", a=0, b=0, ird=4, c=0, d=0, ord=2)
        stream.control(PASSIVE, 6, b"welcome", a=0, b=0, ird=2, c=0, d=0, ord=4)
    for side, fields in EXAMPLES:
        stream.segment(side, fields)
    if kind == "sctp":
        stream.control(PASSIVE, sctp.TERMINATE)
        stream.control(ACTIVE, sctp.TERMINATE)
    return stream.packets


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("tcp", "markers", "sctp"):
        sys.exit(__doc__)
    write_pcap(sys.argv[2], example(sys.argv[1]))
