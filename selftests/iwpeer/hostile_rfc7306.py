#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""`hostile_rfc7306.py tcp|sctp ADDRESS PORT`: atomic operations and immediate data as no honest peer sends them, and as one does.

What listens is selftests/iwarp/consumer, which says first where its numbers are. Each case names the outcome that it expects, and what is
printed is as hostile.py prints it.
"""

import random
import struct
import sys
import time

import hostile
import mpa
import segment
from association import Association
from cases import Cases
from wire import WireError

TIMEOUT = 15  # Seconds that the other end has for anything.
OPEN_SECONDS = 2
READS = 4  # As many the consumer agrees to.
# Numbers that the consumer does not use, and the page behind its last one.
FREE, NUMBERS = 400, 512
HELLO = ">IIQ"
SEED = 7306


class Tcp(hostile.Stream):
    def __init__(self, address):
        super().__init__(address, revision=2)
        limits = {"enhanced": 1, "a": 0, "b": 0, "ird": READS, "c": 0, "d": 0, "ord": READS}
        self.put(self.request(**limits))
        while True:
            try:
                reply = mpa.decode_startup(self.received, "reply")
                break
            except WireError:
                if not self.more():
                    raise ConnectionError("no Reply") from None
        self.received = self.received[20 + 4 * reply["enhanced"] + len(reply["private"]):]
        self.taken = 0

    def send_segments(self, *octets):
        """Sends segments, all in one call."""
        self.put(b"".join(mpa.encode_fpdu(each, 0, 0, 1) for each in octets))

    def next_segment(self):
        """The next segment."""
        while len(self.segments()) <= self.taken:
            if not self.more():
                raise ConnectionError("it ended")
        self.taken += 1
        return self.segments()[self.taken - 1]


class Sctp(Association):
    def __init__(self, address):
        super().__init__(address)
        self.segments = []
        self.control(5, ird=READS, ord=READS)
        self.listen("accept 6")
        self.heard = []

    def name(self, octets, ancillary):
        name = super().name(octets, ancillary)
        if name in ("segment", "message", "reply"):
            self.segments.append(segment.decode(octets[2:]))
            return None
        return name

    def send_segments(self, *octets):
        for each in octets:
            self.raw(each)

    def next_segment(self):
        end = time.monotonic() + TIMEOUT
        while not self.segments:
            if self.over or self.heard or time.monotonic() > end:
                raise ConnectionError(f"heard {self.heard}, {self.over}")
            self.listen(seconds=0.2)
        return self.segments.pop(0)

    def outcome(self, seconds=TIMEOUT):
        outcome = super().outcome(seconds)
        return outcome.removesuffix(", session terminate, ended")


class Peer:
    """A peer of the consumer."""

    def __init__(self, kind, address):
        self.stream = {"tcp": Tcp, "sctp": Sctp}[kind](address)
        self.msn = {0: 0, 1: 0, 3: 0}
        # Who connects is the first to send.
        self.stream.send_segments(segment.encode({"opcode": segment.WRITE, "last": 1, "stag": 0, "to": 0, "payload": b""}))
        hello = self.stream.next_segment()
        self.key, _, self.address = struct.unpack(HELLO, hello["payload"])

    def untagged(self, opcode, **fields):
        queue = segment.QUEUES[opcode]
        self.msn[queue] += 1
        return segment.encode({"opcode": opcode, "last": 1, "msn": self.msn[queue], "mo": 0, **fields})

    def atomic(self, **fields):
        """An Atomic Request, for the first free number if nothing else is said."""
        return self.untagged(segment.ATOMIC_REQUEST, **{"operation": segment.FETCH_ADD, "identifier": 0xABCD, "stag": self.key,
                                                        "to": self.at(FREE), "data": 1, "mask": 0, **fields})

    def immediate(self, payload=bytes(8), **fields):
        return self.untagged(segment.IMMEDIATE, payload=payload, **fields)

    def at(self, number):
        return self.address + 8 * number

    def send_segments(self, *octets):
        self.stream.send_segments(*octets)
        return self.stream

    def original(self, **fields):
        """What the answer to an Atomic Request has, which must be the right one."""
        identifier = random.getrandbits(32)
        self.send_segments(self.atomic(identifier=identifier, **fields))
        self.msn[3] += 1
        found = self.stream.next_segment()
        due = {"opcode": segment.ATOMIC_RESPONSE, "last": 1, "msn": self.msn[3], "mo": 0, "identifier": identifier}
        if {key: found.get(key) for key in due} != due:
            raise WireError("response", f"{found}, not {due}")
        return found["original"]


CASES = Cases()
case = CASES.case


# As an honest peer does it.

# Shows X5.1-1, X5.1-2, X5.1-4, X5.2-7, X5.2-8, X5.2.2-5.
@case("any numbers, under any masks, come out as the RFC's bits do", "open")
def _(peer):
    source = random.Random(SEED)
    value = peer.original(data=0)
    for _ in range(200):
        data, mask, compare = (source.choice((0, 1, segment.ALL_ONES, source.getrandbits(64))) for _ in range(3))
        if source.randrange(2):
            fields = {"operation": segment.FETCH_ADD, "data": data, "mask": mask}
            after = segment.fetch_add(value, data, mask)
        else:
            # Without this, hardly any comparison succeeds.
            comparemask = source.choice((0, 0xFF, segment.ALL_ONES))
            compare = source.choice((compare, value))
            fields = {"operation": segment.CMP_SWAP, "data": data, "mask": mask, "compare": compare, "comparemask": comparemask}
            after = segment.cmp_swap(value, data, mask, compare, comparemask)
        if peer.original(**fields) != value:
            return f"another value before {fields}"
        value = after
    return peer.stream.outcome(OPEN_SECONDS)


# Shows X5.2-6, X5.2.2-5, X7-3, X7-4.
@case("a Read between two atomic operations has what the first leaves, and the answers come in order", "open")
def _(peer):
    before = peer.original(data=0, to=peer.at(FREE + 1))
    read = peer.atomic(to=peer.at(FREE + 1), data=5, identifier=1)
    peer.msn[1] += 1
    request = segment.encode({"opcode": segment.READ_REQUEST, "last": 1, "msn": peer.msn[1], "mo": 0, "sinkstag": 1, "sinkto": 0, "size": 8,
                              "srcstag": peer.key, "srcto": peer.at(FREE + 1)})
    peer.send_segments(read, request, peer.atomic(to=peer.at(FREE + 1), data=7, identifier=2))
    found = [peer.stream.next_segment() for _ in range(3)]
    codes = [each["opcode"] for each in found]
    if codes != [segment.ATOMIC_RESPONSE, segment.READ_RESPONSE, segment.ATOMIC_RESPONSE]:
        return f"opcodes {codes}"
    between = int.from_bytes(found[1]["payload"], sys.byteorder)
    values = found[0]["original"], between, found[2]["original"]
    if values != (before, before + 5, before + 5):
        return f"values {values} after {before}"
    return peer.stream.outcome(OPEN_SECONDS)


@case("Immediate Data of a Write are taken", "open")
def _(peer):
    write = {"opcode": segment.WRITE, "last": 1, "stag": peer.key, "to": peer.at(FREE + 2)}
    # The slot and the number that it has.
    for number in range(1, 20):
        payload = struct.pack(">II", (FREE + 2 - 4) << 20 | number, 0)
        peer.send_segments(segment.encode({**write, "payload": number.to_bytes(8, sys.byteorder)}), peer.immediate(payload))
    return peer.stream.outcome(OPEN_SECONDS)


# Against the rules.

# Shows X5.1-3, X8.2-2.
@case("a number that is not aligned", "terminate 0/2/07")
def _(peer):
    return peer.send_segments(peer.atomic(to=peer.at(FREE) + 4)).outcome()


@case("a number one octet off, to be compared and swapped", "terminate 0/2/07")
def _(peer):
    fields = {"operation": segment.CMP_SWAP, "compare": 0, "comparemask": 0}
    return peer.send_segments(peer.atomic(to=peer.at(FREE) + 1, **fields)).outcome()


@case("a number of another STag", "terminate 0/1/00")
def _(peer):
    return peer.send_segments(peer.atomic(stag=peer.key ^ 0x41)).outcome()


@case("a number behind the last one", "terminate 0/1/01")
def _(peer):
    return peer.send_segments(peer.atomic(to=peer.at(NUMBERS))).outcome()


@case("a number before the first one", "terminate 0/1/01")
def _(peer):
    return peer.send_segments(peer.atomic(to=peer.address - 8)).outcome()


@case("a number beyond the last offset of all", "terminate 0/1/04")
def _(peer):
    return peer.send_segments(peer.atomic(to=segment.ALL_ONES - 6)).outcome()


# Shows X5.2-4.
@case("operation 1, which was once a swap", "terminate 0/2/06")
def _(peer):
    return peer.send_segments(peer.atomic(operation=1)).outcome()


@case("operation 15", "terminate 0/2/06")
def _(peer):
    return peer.send_segments(peer.atomic(operation=15)).outcome()


# Shows X5.2-2.
@case("more Atomic Requests than were agreed on", "terminate 1/2/02")
def _(peer):
    # Far ahead: nothing that is answered meanwhile makes room for it.
    return peer.send_segments(peer.atomic(msn=1000)).outcome()


@case("an Atomic Request that comes again", "terminate 1/2/03")
def _(peer):
    peer.original()
    return peer.send_segments(peer.atomic(msn=1)).outcome()


# Shows X4.1-4.
@case("an Atomic Request on the queue of Sends", "terminate 0/2/06")
def _(peer):
    octets = peer.atomic()
    return peer.send_segments(octets[:6] + bytes(4) + octets[10:]).outcome()


# Shows X8.2-1.
@case("an Atomic Request that is too short", "terminate 0/2/ff")
def _(peer):
    return peer.send_segments(peer.atomic()[:-1]).outcome()


@case("an Atomic Request that is too long", "terminate 1/2/05")
def _(peer):
    return peer.send_segments(peer.atomic() + b"x").outcome()


# Shows X5.2.2-4.
@case("an Atomic Response to nothing", "terminate 1/2/02")
def _(peer):
    return peer.send_segments(peer.untagged(segment.ATOMIC_RESPONSE, identifier=1, original=2)).outcome()


# Shows X6.3-5.
@case("Immediate Data of no octets", "terminate 0/2/ff")
def _(peer):
    return peer.send_segments(peer.immediate(b"")).outcome()


@case("Immediate Data of seven octets", "terminate 0/2/ff")
def _(peer):
    return peer.send_segments(peer.immediate(bytes(7))).outcome()


@case("Immediate Data of nine octets", "terminate 1/2/05")
def _(peer):
    return peer.send_segments(peer.immediate(bytes(9))).outcome()


@case("Immediate Data of as many octets as a segment takes", "terminate 1/2/05")
def _(peer):
    return peer.send_segments(peer.immediate(bytes(1000))).outcome()


@case("Immediate Data that come again", "terminate 1/2/03")
def _(peer):
    return peer.send_segments(peer.immediate(), peer.immediate(msn=1)).outcome()


@case("Immediate Data in two segments", "terminate 1/2/05")
def _(peer):
    return peer.send_segments(peer.immediate(last=0)).outcome()


@case("Immediate Data in the middle of a Send", "terminate 1/2/03")
def _(peer):
    part = peer.untagged(segment.SEND, last=0, payload=b"")
    return peer.send_segments(part, peer.immediate(msn=1, mo=0), peer.untagged(segment.SEND, msn=1, mo=0, payload=b"")).outcome()


def main(arguments):
    if len(arguments) != 3 or arguments[0] not in ("tcp", "sctp"):
        print(__doc__, file=sys.stderr)
        return 2
    return CASES.run(lambda: Peer(arguments[0], (arguments[1], int(arguments[2]))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
