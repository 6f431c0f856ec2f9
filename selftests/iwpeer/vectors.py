# SPDX-License-Identifier: GPL-2.0

"""The vectors that this codec makes: edges, faults, and random ones from a fixed seed, so that each run writes the same."""

import random

import lines
import segment
from wire import crc_field
from wire import number

SEED = 5040
RANDOM_EACH = 40
BITS = (0, 1)


class Maker:
    """Collects lines. Names are unique."""

    def __init__(self):
        self.lines = []
        self.random = random.Random(SEED)

    def add(self, kind, name, octets=None, **fields):
        """A vector whose octets this codec encodes from the fields, or which are given: then a receiver takes them, but none sends them."""
        if octets is None:
            octets = lines.encode(kind, fields)
        else:
            fields[lines.RECEIVE] = 1
        self.lines.append(lines.write(kind, f"{len(self.lines)}-{name}", fields, octets))
        return octets

    def refuse(self, kind, name, octets, error, **context):
        self.lines.append(lines.write(kind, f"{len(self.lines)}-{name}", {**context, "error": error}, octets))

    def bits(self, size):
        """A number of that many bits; the ends of the range are as likely as all between."""
        return self.random.choice((0, 1, (1 << size) - 1, self.random.getrandbits(size), self.random.getrandbits(size)))

    def octets(self, limit):
        return self.random.randbytes(self.random.choice((0, 1, 2, 3, 4, self.random.randrange(limit + 1))))

    def limits(self):
        return {"a": self.bits(1), "b": self.bits(1), "ird": self.bits(14), "c": self.bits(1), "d": self.bits(1), "ord": self.bits(14)}


NO_LIMITS = {"a": 0, "b": 0, "ird": 0, "c": 0, "d": 0, "ord": 0}


def startup(make):
    for frame in ("request", "reply"):
        for flags in range(8):
            for revision in (1, 2):
                plain = {"frame": frame, "revision": revision, "markers": flags >> 2, "crc": flags >> 1 & 1,
                         "reject": flags & 1 if frame == "reply" else 0}
                make.add("startup", "plain", **plain, enhanced=0, private=make.octets(512))
            make.add("startup", "enhanced", **{**plain, "enhanced": 1, **make.limits(), "private": make.octets(508)})
        plain = {"frame": frame, "revision": 1, "markers": 0, "crc": 1, "reject": 0, "enhanced": 0}
        octets = make.add("startup", "most-private-data", **plain, private=bytes(range(256)) * 2)
        make.refuse("startup", "cut", octets[:-1], "short", frame=frame)
        make.refuse("startup", "too-much-private-data", octets[:18] + number(513, 2) + octets[20:] + b"x", "private", frame=frame)
        octets = make.add("startup", "no-private-data", **plain, private=b"")
        for length in (0, 15, 16, 19):
            make.refuse("startup", "cut", octets[:length], "short", frame=frame)
        make.refuse("startup", "revision-0", octets[:17] + b"\0" + octets[18:], "revision", frame=frame)
        make.refuse("startup", "revision-3", octets[:17] + b"\3" + octets[18:], "revision", frame=frame)
        make.refuse("startup", "key", octets[:15] + b"E" + octets[16:], "key", frame=frame)
        make.refuse("startup", "other-side", octets, "key", frame="reply" if frame == "request" else "request")
        # Reserved bits, in revision 1 also that of RFC 6581, do not change what a frame means.
        make.add("startup", "reserved-bits", octets[:16] + b"\x5f" + octets[17:], **plain, private=b"")
        if frame == "request":
            make.add("startup", "reject-in-a-request", octets[:16] + b"\x60" + octets[17:], **plain, private=b"")
        enhanced = {**plain, "revision": 2, "enhanced": 1, **NO_LIMITS}
        make.add("startup", "limits-only", **enhanced, private=b"")
        make.add("startup", "limits-unknown", **{**enhanced, "a": 1, "b": 1, "ird": 0x3FFF, "c": 1, "d": 1, "ord": 0x3FFF}, private=b"")
        octets = make.add("startup", "limits", **{**enhanced, "ird": 4, "ord": 2}, private=b"HELLO")
        make.refuse("startup", "no-room-for-limits", octets[:18] + number(3, 2) + octets[20:23], "private", frame=frame)


def fpdu(make):
    segments = [bytes(length) for length in (1, 2, 3, 14, 18, 42, 46, 70)] + [bytes(range(256)) * 4, make.random.randbytes(1442)]
    for ulpdu in segments:
        for crc in BITS:
            make.add("fpdu", "plain", ulpdu=ulpdu, position=0, markers=0, crc=crc)
            for position in (0, 4, 504, 508, 512, 492, 468, 464, 460, 456, 1 << 20):
                make.add("fpdu", "markers", ulpdu=ulpdu, position=position, markers=1, crc=crc)
    for position in range(0, 512, 4):
        make.add("fpdu", "each-place-of-a-marker", ulpdu=bytes(1 + 7 * position % 1030), position=position, markers=1, crc=1)
    for _ in range(RANDOM_EACH):
        make.add("fpdu", "random", ulpdu=make.random.randbytes(make.random.randrange(1, 3000)),
                 position=4 * make.random.randrange(1024), markers=1, crc=1)
    make.add("fpdu", "longest", ulpdu=make.random.randbytes(0xFFFF), position=0, markers=0, crc=1)
    # Longer, and the pointer of the last marker would not fit in 16 bits: RFC 5044, section 3.
    make.add("fpdu", "longest-with-markers", ulpdu=make.random.randbytes(64768), position=0, markers=1, crc=1)

    context = {"position": 492, "markers": 1, "crc": 1}
    octets = make.add("fpdu", "whole", ulpdu=bytes(42), **context)
    for length in (0, 1, 3, 4, 20, 24, len(octets) - 1):
        make.refuse("fpdu", "cut", octets[:length], "short", **context)
    for place in (2, 12, 30, len(octets) - 1):
        spoilt = bytearray(octets)
        spoilt[place] ^= 1
        make.refuse("fpdu", "crc", bytes(spoilt), "crc", **context)
    plain = {"position": 0, "markers": 0, "crc": 1}
    octets = make.add("fpdu", "padded", ulpdu=b"a", **plain)
    # RFC 5044, section 4.2: pad octets are zero when sent and not looked at when received.
    make.add("fpdu", "pad-not-zero", octets[:3] + b"p" + crc_field(octets[:3] + b"p"), ulpdu=b"a", **plain)
    make.add("fpdu", "crc-not-asked-for", octets[:4] + b"1234", ulpdu=b"a", **{**plain, "crc": 0})

    def pointing(place, marker):
        whole = lines.encode("fpdu", {"ulpdu": bytes(42), **context})
        changed = whole[:place] + marker + whole[place + 4:-4]
        return changed + crc_field(changed)

    make.add("fpdu", "marker-reserved-half", pointing(20, b"\xff\xff\0\x14"), ulpdu=bytes(42), **context)
    make.add("fpdu", "marker-reserved-bits", pointing(20, b"\0\0\0\x17"), ulpdu=bytes(42), **context)
    make.refuse("fpdu", "marker", pointing(20, b"\0\0\0\x10"), "marker", **context)
    make.refuse("fpdu", "marker", pointing(20, b"\0\0\0\0"), "marker", **context)
    make.refuse("fpdu", "marker", pointing(20, b"\0\0\x80\x14"), "marker", **context)


def _read(make):
    return {name: make.bits(8 * size) for name, size in segment.READ}


def segments(make):
    for opcode in segment.TAGGED:
        for last in BITS:
            make.add("segment", "tagged", opcode=opcode, last=last, stag=0xA59D8500, to=0x1000, payload=b"payload")
            for _ in range(RANDOM_EACH // 4):
                make.add("segment", "tagged", opcode=opcode, last=last, stag=make.bits(32), to=make.bits(64), payload=make.octets(1428))
    for opcode in (segment.SEND, segment.SEND_INVALIDATE, segment.SEND_SE, segment.SEND_SE_INVALIDATE):
        for last in BITS:
            for _ in range(RANDOM_EACH // 4):
                fields = {"opcode": opcode, "last": last, "msn": make.bits(32), "mo": make.bits(32)}
                if opcode in segment.INVALIDATES:
                    fields["invalidate"] = make.bits(32)
                make.add("segment", "send", **fields, payload=make.octets(1424))
    request = {"opcode": segment.READ_REQUEST, "last": 1, "msn": 1, "mo": 0}
    for _ in range(RANDOM_EACH):
        make.add("segment", "read-request", **{**request, "msn": make.bits(32)}, **_read(make))
    extensions(make)
    terminates(make)
    refused_segments(make)
    refused_extensions(make)


def _atomic(make, operation):
    fields = {name: make.bits(8 * size) for name, size in segment.ATOMIC}
    if operation == segment.FETCH_ADD:
        del fields["compare"], fields["comparemask"]
    return {"operation": operation, **fields}


def extensions(make):
    """The messages of RFC 7306."""
    message = {"last": 1, "mo": 0}
    for opcode in segment.IMMEDIATES:
        for payload in (bytes(8), b"\xff" * 8, bytes(range(1, 9))):
            make.add("segment", "immediate", opcode=opcode, **message, msn=make.bits(32), payload=payload)
    for operation in (segment.FETCH_ADD, segment.CMP_SWAP):
        for _ in range(RANDOM_EACH):
            make.add("segment", "atomic-request", opcode=segment.ATOMIC_REQUEST, **message, msn=make.bits(32), **_atomic(make, operation))
    for _ in range(RANDOM_EACH):
        make.add("segment", "atomic-response", opcode=segment.ATOMIC_RESPONSE, **message, msn=make.bits(32),
                 **{name: make.bits(8 * size) for name, size in segment.ORIGINAL})
    request = {"opcode": segment.ATOMIC_REQUEST, **message, "msn": 1, **_atomic(make, segment.FETCH_ADD)}
    octets = segment.encode(request)
    make.add("segment", "atomic-reserved-bits", octets[:18] + b"\xff\xff\xff\xf0" + octets[22:], **request)
    make.add("segment", "fetch-add-compares-nothing", octets[:54] + make.random.randbytes(16), **request)
    make.add("segment", "atomic-stag-not-read", octets[:2] + b"\x12\x34\x56\x78" + octets[6:], **request)


def refused_extensions(make):
    message = {"last": 1, "msn": 1, "mo": 0}
    each = ({"opcode": segment.IMMEDIATE, **message, "payload": bytes(8)}, {"opcode": segment.IMMEDIATE_SE, **message, "payload": bytes(8)},
            {"opcode": segment.ATOMIC_REQUEST, **message, **_atomic(make, segment.CMP_SWAP)},
            {"opcode": segment.ATOMIC_RESPONSE, **message, "identifier": 1, "original": 2})
    for fields in each:
        octets, opcode = segment.encode(fields), fields["opcode"]
        for length in (18, 19, len(octets) - 1):
            make.refuse("segment", "shorter-than-its-kind", octets[:length], "0/2/ff")
        for more in (1, 8, 1000):
            make.refuse("segment", "longer-than-its-kind", octets + bytes(more), "1/2/05")
        for queue in range(4):
            if queue != segment.QUEUES[opcode]:
                make.refuse("segment", "on-other-queue", octets[:6] + number(queue, 4) + octets[10:], "0/2/06")
        make.refuse("segment", "queue", octets[:6] + number(4, 4) + octets[10:], "1/2/01")
        make.refuse("segment", "tagged", bytes([octets[0] | 0x80]) + octets[1:], "0/2/06")
        make.refuse("segment", "rdmap-version", octets[:1] + bytes([opcode]) + octets[2:], "0/2/05")
    octets = segment.encode(each[2])
    for operation in (1, *range(3, 16)):
        make.refuse("segment", "atomic-operation", octets[:21] + bytes([operation]) + octets[22:], "0/2/06")


def terminates(make):
    message = {"opcode": segment.TERMINATE, "last": 1, "msn": 1, "mo": 0}
    request = {"sinkstag": 1, "sinkto": 2, "size": 3, "srcstag": 4, "srcto": 5}
    untagged = segment.encode({"opcode": segment.READ_REQUEST, "last": 1, "msn": 9, "mo": 0, **request})
    tagged = segment.encode({"opcode": segment.WRITE, "last": 1, "stag": 7, "to": 8, "payload": b""})
    none, ddp, rdma = {"m": 0, "d": 0, "r": 0}, {"m": 1, "d": 1, "r": 0}, {"m": 1, "d": 1, "r": 1}
    codes = {(0, 0): (0xFF,), (0, 1): (0, 1, 2, 3, 4, 9, 0xFF), (0, 2): (5, 6, 7, 8, 9, 0xFF), (1, 0): (0,), (1, 1): range(5),
             (1, 2): range(1, 7), (2, 0): range(1, 8)}
    for (layer, kind), listed in codes.items():
        for code in listed:
            told = {**message, "layer": layer, "type": kind, "code": code}
            make.add("segment", "terminate", **told, **none)
            if layer == 2 or kind == 0:
                continue
            make.add("segment", "terminate-header", **told, **ddp, length=1442, header=untagged[:18])
            if (layer, kind) != (1, 2):
                make.add("segment", "terminate-header", **told, **ddp, length=14, header=tagged)
            if (layer, kind) == (0, 1):
                make.add("segment", "terminate-read", **told, **rdma, length=46, header=untagged[:18], read=untagged[18:])
    # The in-tree siw announces an RDMAP header that it does not send, and others may pad with zeros.
    told = {**message, "layer": 0, "type": 1, "code": 9, **rdma, "length": 30, "header": untagged[:18]}
    make.add("segment", "terminate-read-missing", lines.encode("segment", told), **told)
    told = {**message, "layer": 1, "type": 1, "code": 1, "m": 1, "d": 0, "r": 0}
    make.add("segment", "terminate-length-alone", lines.encode("segment", told) + number(1442, 2), **told, length=1442)
    make.add("segment", "terminate-length-missing", lines.encode("segment", told), **told)
    told = {**message, "layer": 1, "type": 1, "code": 1, "m": 0, "d": 1, "r": 0, "header": tagged}
    make.add("segment", "terminate-length-not-valid", lines.encode("segment", told), **told)
    told = {**message, "layer": 0, "type": 0, "code": 0xFF, **none}
    make.add("segment", "terminate-zeros-behind", lines.encode("segment", told) + bytes(48), **told)
    octets = bytearray(lines.encode("segment", told))
    octets[20:22] = b"\x1f\xff"
    make.add("segment", "terminate-reserved-bits", bytes(octets), **told)
    make.refuse("segment", "terminate-short", bytes(octets[:21]), "0/2/ff")
    make.add("segment", "terminate-longer-than-any", bytes(octets) + bytes(49), **told)


def refused_segments(make):
    """One fault each, because RFCs do not say which of two a receiver reports."""
    tagged = {"opcode": segment.WRITE, "last": 1, "stag": 7, "to": 8, "payload": b"data"}
    send = {"opcode": segment.SEND, "last": 1, "msn": 1, "mo": 0, "payload": b"data"}
    request = {"opcode": segment.READ_REQUEST, "last": 1, "msn": 1, "mo": 0, **dict.fromkeys((name for name, _ in segment.READ), 5)}
    for fields, header in ((tagged, 14), (send, 18)):
        octets = segment.encode(fields)
        for length in (0, 1, 2, 6, 10, 13, header - 1):
            make.refuse("segment", "short", octets[:length], "short")
        for version in (0, 2, 3):
            changed = bytes([octets[0] & 0xFC | version]) + octets[1:]
            make.refuse("segment", "ddp-version", changed, "1/1/04" if fields is tagged else "1/2/06")
            make.refuse("segment", "rdmap-version", octets[:1] + bytes([version << 6 | fields["opcode"]]) + octets[2:], "0/2/05")
        for opcode in range(16):
            right = opcode <= segment.ATOMIC_RESPONSE and (opcode in segment.TAGGED) == (fields is tagged)
            if not right:
                make.refuse("segment", "opcode", octets[:1] + bytes([0x40 | opcode]) + octets[2:], "0/2/06")
        # Reserved bits of both control octets.
        make.add("segment", "reserved-bits", bytes([octets[0] | 0x3C, octets[1] | 0x30]) + octets[2:], **fields)
    octets = segment.encode(send)
    make.add("segment", "invalidate-not-read", octets[:2] + b"\x12\x34\x56\x78" + octets[6:], **send)
    for queue in (4, 0x100, 0xFFFFFFFF):
        make.refuse("segment", "queue", octets[:6] + number(queue, 4) + octets[10:], "1/2/01")
    for queue in (1, 2, 3):
        make.refuse("segment", "send-on-other-queue", octets[:6] + number(queue, 4) + octets[10:], "0/2/06")
    octets = segment.encode(request)
    for queue in (0, 2, 3):
        make.refuse("segment", "read-request-on-other-queue", octets[:6] + number(queue, 4) + octets[10:], "0/2/06")
    make.refuse("segment", "read-request-short", octets[:-1], "0/2/ff")
    make.refuse("segment", "read-request-empty", octets[:18], "0/2/ff")
    make.refuse("segment", "read-request-long", octets + b"x", "1/2/05")


def sctp_chunks(make):
    for _ in range(RANDOM_EACH // 4):
        inner = segment.encode({"opcode": segment.WRITE, "last": 1, "stag": make.bits(32), "to": make.bits(64), "payload": make.octets(1430)})
        make.add("sctp", "segment", ppid=16, ssn=make.bits(16), segment=inner)
    for function in (1, 2, 3, 7):
        for private in (b"", b"x", bytes(512), make.octets(512)):
            make.add("sctp", "control", ppid=17, ssn=make.bits(16), function=function, private=private)
        long = number(0, 2) + number(function, 2) + bytes(513)
        make.refuse("sctp", "too-much-private-data", long, "private", ppid=17)
    for function in (5, 6):
        for private in (b"", b"x", bytes(508), make.octets(508)):
            make.add("sctp", "enhanced", ppid=17, ssn=make.bits(16), function=function, **make.limits(), private=private)
        octets = lines.encode("sctp", {"ppid": 17, "ssn": 0, "function": function, **NO_LIMITS})
        for length in (4, 7):
            make.refuse("sctp", "no-room-for-limits", octets[:length], "short", ppid=17)
        make.refuse("sctp", "too-much-private-data", octets + bytes(509), "private", ppid=17)
    octets = make.add("sctp", "terminate", ppid=17, ssn=5, function=4)
    make.add("sctp", "terminate-private-data", octets + b"ignored", ppid=17, ssn=5, function=4)
    for length in (0, 1, 2, 3):
        make.refuse("sctp", "short", octets[:length], "short", ppid=17)
    for length in (0, 1):
        make.refuse("sctp", "short", octets[:length], "short", ppid=16)
    for function in (0, 8, 0x0100, 0xFFFF):
        make.refuse("sctp", "function", octets[:2] + number(function, 2), "function", ppid=17)
    for ppid in (0, 15, 18, 0x10000000, 0x11000000):
        make.refuse("sctp", "ppid", octets, "ppid", ppid=ppid)


def all_lines():
    make = Maker()
    for part in (startup, fpdu, segments, sctp_chunks):
        part(make)
    return make.lines
