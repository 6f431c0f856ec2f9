# SPDX-License-Identifier: GPL-2.0

"""MPA: the start-up frames (RFC 5044, section 7.1; RFC 6581, section 9) and FPDUs with markers and CRC (RFC 5044, section 4)."""

from wire import Reader
from wire import WireError
from wire import crc_field
from wire import number

KEYS = {"request": b"MPA ID Req Frame", "reply": b"MPA ID Rep Frame"}
MARKERS, CRC, REJECT, ENHANCED = 0x80, 0x40, 0x20, 0x10
PRIVATE_MAX = 512
MARKER_DISTANCE = 512


def pack_limits(fields):
    """The two words of RFC 6581: flags A and B beside the IRD, C and D beside the ORD. DDP over SCTP has them, too."""
    return (number(fields["a"] << 15 | fields["b"] << 14 | fields["ird"], 2)
            + number(fields["c"] << 15 | fields["d"] << 14 | fields["ord"], 2))


def unpack_limits(reader):
    inbound, outbound = reader.number(2), reader.number(2)
    return {"a": inbound >> 15, "b": inbound >> 14 & 1, "ird": inbound & 0x3FFF,
            "c": outbound >> 15, "d": outbound >> 14 & 1, "ord": outbound & 0x3FFF}


def encode_startup(fields):
    flags = (MARKERS * fields["markers"] | CRC * fields["crc"] | REJECT * fields["reject"] | ENHANCED * fields["enhanced"])
    private = (pack_limits(fields) if fields["enhanced"] else b"") + fields["private"]
    return KEYS[fields["frame"]] + bytes([flags, fields["revision"]]) + number(len(private), 2) + private


def decode_startup(octets, frame):
    """Decodes a frame of the side that is expected to speak. Octets behind it belong to the first FPDU: `length` tells where it ends."""
    reader = Reader(octets)
    if reader.take(16) != KEYS[frame]:
        raise WireError("key")
    flags, revision, length = reader.number(1), reader.number(1), reader.number(2)
    if revision not in (1, 2):
        raise WireError("revision", revision)
    if length > PRIVATE_MAX:
        raise WireError("private", length)
    fields = {"frame": frame, "revision": revision, "markers": flags >> 7, "crc": flags >> 6 & 1,
              # RFC 5044, section 7.1: in a Request the bit means nothing, and is not looked at.
              "reject": flags >> 5 & 1 if frame == "reply" else 0,
              # RFC 6581 gives the bit a meaning in revision 2 only. In revision 1 it is reserved, and not looked at.
              "enhanced": flags >> 4 & 1 if revision == 2 else 0}
    private = reader.take(length)
    if fields["enhanced"]:
        if length < 4:
            raise WireError("private", "no room for IRD and ORD")
        fields.update(unpack_limits(Reader(private[:4])))
        private = private[4:]
    fields["private"] = private
    return fields


def _to_marker(position):
    """How many octets of the stream come before the next marker."""
    return -position % MARKER_DISTANCE


def encode_fpdu(ulpdu, position, markers, crc):
    """An FPDU that starts `position` octets after full operation began, markers included.

    A marker between two FPDUs belongs to the later one, whose CRC covers it. It points at the FPDU's start by zero.
    """
    body = number(len(ulpdu), 2) + ulpdu
    body += bytes(-len(body) % 4)
    if not markers:
        return body + (crc_field(body) if crc else bytes(4))
    sent = bytearray()
    # The FPDU begins with its length field, so a marker in front of that is not part of the distance that later ones state.
    start = 4 if _to_marker(position) == 0 else 0

    def put(octets):
        for offset in range(0, len(octets), 4):
            if _to_marker(position + len(sent)) == 0:
                sent.extend(number(max(len(sent) - start, 0), 4))
            sent.extend(octets[offset:offset + 4])

    put(body)
    # The place of the CRC may be that of a marker, which the CRC then covers.
    if _to_marker(position + len(sent)) == 0:
        sent.extend(number(max(len(sent) - start, 0), 4))
    return bytes(sent) + (crc_field(sent) if crc else bytes(4))


def decode_fpdu(octets, position, markers, crc):
    """The ULPDU and the number of octets that the FPDU took from the stream."""
    reader = Reader(octets)
    found = []

    def word():
        """The next four octets that are no marker."""
        here = len(octets) - len(reader.rest)
        if markers and _to_marker(position + here) == 0:
            found.append((here, reader.number(4)))
        return reader.take(4)

    body = word()
    length = int.from_bytes(body[:2], "big")
    padded = 2 + length + -(2 + length) % 4
    while len(body) < padded:
        body += word()
    last = word()
    taken = len(octets) - len(reader.rest)
    if crc and crc_field(octets[:taken - 4]) != last:
        raise WireError("crc")
    start = 4 if found and found[0][0] == 0 else 0
    for here, marker in found:
        # Half of the marker is reserved, and so are the two lowest bits of the pointer: a receiver ignores both.
        if marker & 0xFFFC != max(here - start, 0):
            raise WireError("marker", f"{marker:#x} at {here}")
    return body[2:2 + length], taken
