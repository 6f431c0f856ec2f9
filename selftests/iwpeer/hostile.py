#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""`hostile.py ADDRESS [PORT]`: does to a listener of iWARP over TCP what no honest peer does, and says how each attempt ended.

`hostile.py --close ADDRESS PORT COMMAND...` has the server answer a call, runs the command, which stops that server, and says how the
stream ended: `in order` or `reset`.

Whatever listens there need only take connections: an NFS server does. Each case names the outcome that it expects:
`terminate L/T/CC` if a Terminate with that layer, type and code arrives before the end of the stream; `closed` if the stream ends
without one; `open` if it does not end. The number of cases is printed, as 1..N, then a line for each, `ok` or `not ok`, with what came
instead.
"""

import pathlib
import socket
import struct
import subprocess
import sys
import time

import mpa
import segment
from association import CALL, Association
from cases import Cases
from undecided import Undecided
from wire import WireError

TIMEOUT = 15  # Seconds that the other end has for anything.
OPEN_SECONDS = 2
UNDECIDED_PORT = 20060
FOREIGN = 0x12345678  # No region has this STag, but by a chance of one in millions.


class Stream:
    """A connection to the listener, as a peer that knows the protocol would have it."""

    def __init__(self, address, private=b"", revision=1, markers=0, crc=1):
        self.socket = socket.create_connection(address, timeout=TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.private, self.revision, self.markers, self.crc = private, revision, markers, crc
        self.received = b""
        self.sent = {queue: 0 for queue in (0, 1, 2, 3)}

    def request(self, **changes):
        fields = {"frame": "request", "revision": self.revision, "markers": self.markers, "crc": self.crc, "reject": 0, "enhanced": 0,
                  "private": self.private}
        return mpa.encode_startup({**fields, **changes})

    def start(self):
        """Start-up to the end; the stream is open when it returns."""
        self.put(self.request())
        while True:
            try:
                reply = mpa.decode_startup(self.received, "reply")
                break
            except WireError:
                if not self.more():
                    raise ConnectionError("no Reply") from None
        if reply["reject"]:
            raise ConnectionError("rejected")
        self.received = self.received[20 + len(reply["private"]):]
        return self

    def put(self, octets):
        self.socket.sendall(octets)

    def put_last(self, octets):
        """Sends these, and the end of this half of the stream, in one packet."""
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        self.put(octets)
        self.socket.shutdown(socket.SHUT_WR)

    def more(self):
        """Receives what there is. Whether there was any."""
        try:
            octets = self.socket.recv(65536)
        except (ConnectionError, TimeoutError):
            octets = b""
        self.received += octets
        return bool(octets)

    def fpdu(self, ulpdu):
        self.put(mpa.encode_fpdu(ulpdu, 0, 0, 1))

    def untagged(self, opcode, **fields):
        """Sends a segment on the queue of its opcode, with the next MSN if none is given."""
        queue = segment.QUEUES[opcode]
        self.sent[queue] += 1
        self.fpdu(segment.encode({"opcode": opcode, "last": 1, "msn": self.sent[queue], "mo": 0, "payload": b"", "invalidate": 0,
                                  **fields}))

    def tagged(self, opcode, **fields):
        self.fpdu(segment.encode({"opcode": opcode, "last": 1, "stag": FOREIGN, "to": 0, "payload": b"x" * 8, **fields}))

    def read(self, **fields):
        self.untagged(segment.READ_REQUEST, **{"sinkstag": 1, "sinkto": 0, "size": 16, "srcstag": FOREIGN, "srcto": 0, **fields})

    def segments(self):
        """The segments that arrived whole."""
        rest, found = self.received, []
        while rest:
            try:
                ulpdu, taken = mpa.decode_fpdu(rest, len(self.received) - len(rest), self.markers, 1)
                found.append(segment.decode(ulpdu))
            except WireError:
                break
            rest = rest[taken:]
        return found

    def call(self):
        """Calls, and waits for the answer. Whether it came."""
        answers = len(self.segments()) + 1
        self.untagged(segment.SEND, payload=CALL)
        while len(self.segments()) < answers:
            if not self.more():
                return False
        return True

    def outcome(self, seconds=TIMEOUT):
        """How it ended, once it did."""
        end = time.monotonic() + seconds
        ended = False
        while not ended and time.monotonic() < end:
            self.socket.settimeout(max(end - time.monotonic(), 0.01))
            try:
                octets = self.socket.recv(65536)
                self.received += octets
                ended = not octets
            except TimeoutError:
                break
            except ConnectionError:
                ended = True
        self.socket.close()
        for found in self.segments():
            if found["opcode"] == segment.TERMINATE:
                return f"terminate {found['layer']}/{found['type']}/{found['code']:02x}"
        return "closed" if ended else "open"


# Of linux/tcp.h, which Python does not know.
TCP_REPAIR, TCP_REPAIR_QUEUE, TCP_QUEUE_SEQ = 19, 20, 21
RECEIVE_QUEUE, SEND_QUEUE, OFF_WITHOUT_PROBE = 1, 2, -1


def sent_again(old, again, octets):
    """A socket in place of `old` that sends `octets` in one segment, of which `old` has sent the first `again` before.

    It is told that it has sent them, and that nobody acknowledged them; so it sends them again when its timer runs out. What was
    negotiated is not carried over, so there must have been no scaling of windows, no timestamps and no SACK.
    """
    old.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    numbers = {}
    for queue in RECEIVE_QUEUE, SEND_QUEUE:
        old.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, queue)
        numbers[queue] = struct.unpack("I", old.getsockopt(socket.IPPROTO_TCP, TCP_QUEUE_SEQ, 4))[0]
    numbers[SEND_QUEUE] = (numbers[SEND_QUEUE] - again) % 2**32
    here, there = old.getsockname(), old.getpeername()
    old.close()
    new = socket.socket(old.family, socket.SOCK_STREAM)
    new.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    new.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    new.bind(here)
    for queue, number in numbers.items():
        new.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, queue)
        new.setsockopt(socket.IPPROTO_TCP, TCP_QUEUE_SEQ, struct.pack("I", number))
    new.connect(there)
    new.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, SEND_QUEUE)
    new.sendall(octets)
    new.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, OFF_WITHOUT_PROBE)
    new.settimeout(TIMEOUT)
    return new


CASES = Cases()
case = CASES.case


# Start-up (RFC 5044, section 7).

# Shows M-10.
@case("a peer that says nothing is not waited for", "closed")
def _(address):
    return Stream(address).outcome()


# A consumer has memory for as many requests as it says, and rdma_cm loses those beyond them.
@case("who asks when as many connections are undecided as may be waits for one that is decided", "3 asked, then 4, closed")
def _(address):
    # A listener of this machine, whose consumer takes so many.
    address, most = (Association.towards(address), UNDECIDED_PORT), 3
    with Undecided(address, most) as consumer:
        streams = [Stream(address) for _ in range(most + 1)]
        for stream in streams:
            stream.put(stream.request())
        consumer.asked_until(most, TIMEOUT)
        # It is not asked once more.
        time.sleep(OPEN_SECONDS)
        before = consumer.asked()
        if before == 0:
            return "nobody asked"
        consumer.rejects()
        return f"{before} asked, then {consumer.asked_until(before + 1, TIMEOUT)}, {streams[0].outcome()}"


# Shows M-10.
@case("a Request that dribbles is not waited for", "closed")
def _(address):
    stream = Stream(address)
    begin = time.monotonic()
    try:
        for octet in stream.request():
            stream.put(bytes([octet]))
            time.sleep(0.7)
            if time.monotonic() - begin > TIMEOUT:
                return "open"
    except ConnectionError:
        return "closed"
    return stream.outcome(1)


@case("a Request with another key is refused", "closed")
def _(address):
    stream = Stream(address)
    stream.put(b"MPA ID Rep Frame" + stream.request()[16:])
    return stream.outcome()


@case("a Request of an unknown revision is refused", "closed")
def _(address):
    stream = Stream(address)
    stream.put(stream.request(revision=7))
    return stream.outcome()


@case("a Request that announces more than 512 octets of private data is refused", "closed")
def _(address):
    stream = Stream(address)
    stream.put(stream.request()[:18] + struct.pack(">H", 513) + bytes(513))
    return stream.outcome()


@case("512 octets of private data, more than the kernel's CM takes, are refused", "closed")
def _(address):
    stream = Stream(address, private=bytes(512))
    try:
        stream.start()
    except ConnectionError:
        return "closed"
    return stream.outcome(OPEN_SECONDS)


@case("a peer that ends within its Request is forgotten", "closed")
def _(address):
    stream = Stream(address)
    stream.put(stream.request()[:11])
    stream.socket.shutdown(socket.SHUT_WR)
    return stream.outcome()


# FPDUs (RFC 5044, sections 4 and 8).

# Shows P6.2-3, P7-3, M-3, M-7.
@case("an FPDU with a wrong CRC", "terminate 2/0/02")
def _(address):
    stream = Stream(address).start()
    octets = bytearray(mpa.encode_fpdu(segment.encode({"opcode": segment.SEND, "last": 1, "msn": 1, "mo": 0, "payload": b"abcd"}), 0, 0, 1))
    octets[20] ^= 1
    stream.put(octets)
    return stream.outcome()


# Shows M-3.
@case("a peer that wants no CRC gets one all the same, and its own are checked", "terminate 2/0/02")
def _(address):
    stream = Stream(address, crc=0).start()
    if not stream.call():
        return "no answer with a CRC"
    octets = bytearray(mpa.encode_fpdu(segment.encode({"opcode": segment.SEND, "last": 1, "msn": 2, "mo": 0, "payload": b"abcd"}), 0, 0, 0))
    stream.put(octets)
    return stream.outcome()


# Shows M-6.
@case("an FPDU as long as its length can say, in many segments of TCP, is examined as a whole", "terminate 1/1/00")
def _(address):
    stream = Stream(address).start()
    stream.tagged(segment.WRITE, payload=bytes(0xFFFF - 14))
    return stream.outcome()


@case("an FPDU without octets", "terminate 0/2/ff")
def _(address):
    stream = Stream(address).start()
    try:
        for _ in range(100):
            stream.fpdu(b"")
    except ConnectionError:
        pass
    return stream.outcome()


# Shows P6.2-1.
@case("an FPDU of which the greater part never comes", "terminate 2/0/01")
def _(address):
    stream = Stream(address).start()
    # An NFS server waits for the first message as long as the device does for the rest of an FPDU.
    if not stream.call():
        return "no answer"
    stream.put(struct.pack(">H", 0xFFFF) + bytes(100))
    return stream.outcome(90)


# Shows P6.2-1, M-7.
@case("an FPDU with a wrong CRC, and the end of the stream in the same packet", "terminate 2/0/02")
def _(address):
    stream = Stream(address).start()
    octets = bytearray(mpa.encode_fpdu(segment.encode({"opcode": segment.SEND, "last": 1, "msn": 1, "mo": 0, "payload": b"abcd"}), 0, 0, 1))
    octets[20] ^= 1
    stream.put_last(octets)
    return stream.outcome()


@case("a fault, part of an FPDU, and the end of the stream in the same packet", "terminate 1/1/00")
def _(address):
    stream = Stream(address).start()
    write = segment.encode({"opcode": segment.WRITE, "last": 1, "stag": FOREIGN, "to": 0, "payload": b"x" * 8})
    stream.put_last(mpa.encode_fpdu(write, 0, 0, 1) + struct.pack(">H", 1000) + bytes(100))
    return stream.outcome()


# Shows P6.2-1.
@case("a stream that ends within an FPDU", "terminate 2/0/01")
def _(address):
    stream = Stream(address).start()
    stream.put(struct.pack(">H", 1000) + bytes(100))
    stream.socket.shutdown(socket.SHUT_WR)
    return stream.outcome()


# Shows M-4.
@case("a peer that asks for markers finds them where they belong", "16 answers")
def _(address):
    stream = Stream(address, markers=1).start()
    while len(stream.segments()) < 16 and stream.call():
        pass
    return f"{len(stream.segments())} answers"


@case("an urgent octet is an octet like others", "terminate 0/2/05")
def _(address):
    stream = Stream(address).start()
    whole = mpa.encode_fpdu(b"\x41\x83" + bytes(16), 0, 0, 1)
    for part in whole[:5], whole[5:11], whole[11:]:
        stream.socket.send(part, socket.MSG_OOB)
    return stream.outcome()


@case("octets that arrive twice, within a longer segment, are there once", "terminate 0/2/05")
def _(address):
    settings = [pathlib.Path("/proc/sys/net/ipv4/tcp_" + name) for name in ("timestamps", "sack", "window_scaling")]
    before = [setting.read_text() for setting in settings]
    try:
        for setting in settings:
            setting.write_text("0")
        stream = Stream(address).start()
    finally:
        for setting, value in zip(settings, before):
            setting.write_text(value)
    whole = mpa.encode_fpdu(b"\x41\x83" + bytes(range(200)), 0, 0, 1)
    stream.put(whole[:100])
    time.sleep(0.5)
    stream.socket = sent_again(stream.socket, 40, whole[60:])
    return stream.outcome()


# DDP (RFC 5041, section 7).

@case("an untagged segment of another DDP version", "terminate 1/2/06")
def _(address):
    stream = Stream(address).start()
    stream.fpdu(b"\x42\x43" + bytes(16))
    return stream.outcome()


@case("a tagged segment of another DDP version", "terminate 1/1/04")
def _(address):
    stream = Stream(address).start()
    stream.fpdu(b"\xc3\x40" + bytes(12))
    return stream.outcome()


@case("a queue that there is not", "terminate 1/2/01")
def _(address):
    stream = Stream(address).start()
    stream.fpdu(b"\x41\x43" + struct.pack(">IIII", 0, 7, 1, 0))
    return stream.outcome()


@case("a message number out of turn", "terminate 1/2/03 or terminate 1/2/02")
def _(address):
    stream = Stream(address).start()
    stream.untagged(segment.SEND, msn=0x8000, payload=b"abcd")
    return stream.outcome()


@case("a message offset that leaves a gap", "terminate 1/2/04")
def _(address):
    stream = Stream(address).start()
    stream.untagged(segment.SEND, mo=100, payload=b"abcd")
    return stream.outcome()


@case("a message longer than any Receive", "terminate 1/2/05")
def _(address):
    stream = Stream(address).start()
    try:
        for at in range(0, 128 * 1024, 1024):
            stream.untagged(segment.SEND, last=0, msn=1, mo=at, payload=bytes(1024))
    except ConnectionError:
        pass
    return stream.outcome()


# Shows P8.1.1-4.
@case("a Write to memory that there is not", "terminate 1/1/00")
def _(address):
    stream = Stream(address).start()
    stream.tagged(segment.WRITE)
    return stream.outcome()


@case("a Write of no octets to memory that there is not", "open")
def _(address):
    stream = Stream(address).start()
    stream.tagged(segment.WRITE, payload=b"")
    return stream.outcome(OPEN_SECONDS)


# Shows P8.1.1-8.
@case("Writes to many STags find none", "terminate 1/1/00")
def _(address):
    stream = Stream(address).start()
    try:
        for number in range(4096):
            stream.tagged(segment.WRITE, stag=number << 20)
    except ConnectionError:
        pass
    return stream.outcome()


# RDMAP (RFC 5040, section 7).

@case("a segment of another RDMAP version", "terminate 0/2/05")
def _(address):
    stream = Stream(address).start()
    stream.fpdu(b"\x41\x83" + bytes(16))
    return stream.outcome()


@case("an opcode that there is not", "terminate 0/2/06")
def _(address):
    stream = Stream(address).start()
    stream.fpdu(b"\x41\x4c" + struct.pack(">IIII", 0, 0, 1, 0))
    return stream.outcome()


# An NFS server has its clients read nothing: it agrees on no Reads.

@case("a Read although none was agreed on", "terminate 1/2/02")
def _(address):
    stream = Stream(address).start()
    stream.read()
    return stream.outcome()


@case("a Read of no octets is one, too", "terminate 1/2/02")
def _(address):
    stream = Stream(address).start()
    stream.read(size=0)
    return stream.outcome()


@case("many Reads by one who does not receive", "terminate 1/2/02 or closed")
def _(address):
    stream = Stream(address)
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stream.start()
    try:
        stream.put(b"".join(mpa.encode_fpdu(segment.encode(
            {"opcode": segment.READ_REQUEST, "last": 1, "msn": number, "mo": 0, "sinkstag": 1, "sinkto": 0, "size": 0, "srcstag": 1,
             "srcto": 0}), 0, 0, 1) for number in range(1, 5_000)))
    except (ConnectionError, TimeoutError):
        pass
    return stream.outcome(30)


@case("an Atomic Request although nothing was agreed on", "terminate 1/2/02")
def _(address):
    stream = Stream(address).start()
    stream.untagged(segment.ATOMIC_REQUEST, operation=segment.FETCH_ADD, identifier=1, stag=FOREIGN, to=0, data=0, mask=0)
    return stream.outcome()


# An NFS server expects none, and drops what has no octets.
@case("Immediate Data for who expects a message", "answered, open")
def _(address):
    stream = Stream(address).start()
    stream.untagged(segment.IMMEDIATE, payload=bytes(8))
    answered = "answered" if stream.call() else "no answer"
    return f"{answered}, {stream.outcome(OPEN_SECONDS)}"


@case("a Read Response that nobody asked for", "terminate 0/2/06")
def _(address):
    stream = Stream(address).start()
    stream.tagged(segment.READ_RESPONSE)
    return stream.outcome()


@case("a Send that is to invalidate what is not there", "terminate 0/2/09 or terminate 0/1/09")
def _(address):
    stream = Stream(address).start()
    stream.untagged(segment.SEND_INVALIDATE, invalidate=FOREIGN, payload=b"abcd")
    return stream.outcome()


@case("a Terminate is not answered by another", "closed")
def _(address):
    stream = Stream(address).start()
    stream.untagged(segment.TERMINATE, layer=0, type=0, code=0, m=0, d=0, r=0)
    return stream.outcome()


@case("many Terminates are not answered either", "closed")
def _(address):
    stream = Stream(address).start()
    try:
        for _ in range(1000):
            stream.untagged(segment.TERMINATE, layer=0, type=2, code=6, m=0, d=0, r=0)
    except ConnectionError:
        pass
    return stream.outcome()


@case("a stream that is reset", "closed")
def _(address):
    stream = Stream(address).start()
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return stream.outcome(0.1) and "closed"


def close(address, command):
    """How a stream ends that nobody broke, when the command has the server close it."""
    stream = Stream(address).start()
    if not stream.call():
        return "no answer"
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    try:
        # A server that has been idle for a second or two writes no octets, to give back what its last reply had.
        while stream.socket.recv(65536):
            pass
        return "in order"
    except ConnectionError:
        return "reset"


def main(arguments):
    if len(arguments) > 3 and arguments[0] == "--close":
        found = close((arguments[1], int(arguments[2])), arguments[3:])
        print(found)
        return 0 if found == "in order" else 1
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    address = (arguments[0], int(arguments[1]) if len(arguments) == 2 else 20049)
    return CASES.run(lambda: address)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
