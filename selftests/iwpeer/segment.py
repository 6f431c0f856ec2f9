# SPDX-License-Identifier: GPL-2.0

"""DDP segments with what RDMAP puts into them (RFC 5041, section 4; RFC 5040, section 4; RFC 7306, sections 4 to 6).

An error class is the Terminate that the receiver owes: layer, type and code, as 1/2/01.
"""

from wire import Reader
from wire import WireError
from wire import number

(WRITE, READ_REQUEST, READ_RESPONSE, SEND, SEND_INVALIDATE, SEND_SE, SEND_SE_INVALIDATE, TERMINATE,
 IMMEDIATE, IMMEDIATE_SE, ATOMIC_REQUEST, ATOMIC_RESPONSE) = range(12)
TAGGED = (WRITE, READ_RESPONSE)
QUEUES = {READ_REQUEST: 1, SEND: 0, SEND_INVALIDATE: 0, SEND_SE: 0, SEND_SE_INVALIDATE: 0, TERMINATE: 2,
          IMMEDIATE: 0, IMMEDIATE_SE: 0, ATOMIC_REQUEST: 1, ATOMIC_RESPONSE: 3}
IMMEDIATES = (IMMEDIATE, IMMEDIATE_SE)
INVALIDATES = (SEND_INVALIDATE, SEND_SE_INVALIDATE)
READ = (("sinkstag", 4), ("sinkto", 8), ("size", 4), ("srcstag", 4), ("srcto", 8))
READ_LENGTH = 28
TAGGED_LENGTH, UNTAGGED_LENGTH = 14, 18
IMMEDIATE_LENGTH = 8
# What follows the word with the operation code, of which the upper 28 bits are reserved.
ATOMIC = (("identifier", 4), ("stag", 4), ("to", 8), ("data", 8), ("mask", 8), ("compare", 8), ("comparemask", 8))
ATOMIC_LENGTH = 52
FETCH_ADD, CMP_SWAP = 0, 2
ORIGINAL = (("identifier", 4), ("original", 8))
ORIGINAL_LENGTH = 12
ALL_ONES = 0xFFFFFFFFFFFFFFFF


def pack_read(fields):
    return b"".join(number(fields[name], size) for name, size in READ)


def unpack_read(reader):
    return {name: reader.number(size) for name, size in READ}


def pack_atomic(fields):
    # RFC 7306, section 5.2.1: what a FetchAdd does not compare is sent as nothing, of which every bit counts.
    fields = {"compare": 0, "comparemask": ALL_ONES, **fields}
    return number(fields["operation"], 4) + b"".join(number(fields[name], size) for name, size in ATOMIC)


def unpack_atomic(octets):
    reader = fixed(octets, ATOMIC_LENGTH, "length of an Atomic Request")
    operation = reader.number(4) & 15
    fields = {"operation": operation, **{name: reader.number(size) for name, size in ATOMIC}}
    if operation not in (FETCH_ADD, CMP_SWAP):
        raise WireError("0/2/06", "operation code")
    if operation == FETCH_ADD:
        del fields["compare"], fields["comparemask"]
    return fields


def fixed(octets, length, what):
    """A reader of octets that have to be as many."""
    if len(octets) != length:
        raise WireError("1/2/05" if len(octets) > length else "0/2/ff", what)
    return Reader(octets)


def fetch_add(original, data, mask):
    """RFC 7306, section 5.1.1, bit by bit: a set bit of the mask lets nothing be carried out of it."""
    value = carry = 0
    for place in range(64):
        total = (original >> place & 1) + (data >> place & 1) + carry
        value |= (total & 1) << place
        carry = 0 if mask >> place & 1 else total >> 1
    return value


def cmp_swap(original, data, mask, compare, comparemask):
    """RFC 7306, section 5.1.2."""
    if (original ^ compare) & comparemask:
        return original
    return original & ~mask & ALL_ONES | data & mask


def pack_terminate(fields):
    control = (fields["layer"] << 28 | fields["type"] << 24 | fields["code"] << 16
               | fields["m"] << 15 | fields["d"] << 14 | fields["r"] << 13)
    sent = number(control, 4)
    if fields["d"]:
        sent += number(fields.get("length", 0), 2) + fields["header"]
    return sent + fields.get("read", b"")


def unpack_terminate(octets):
    """Decodes leniently, because a Terminate is never answered: what its bits announce and its length does not hold is absent.

    What it has behind that is not looked at, either.
    """
    if len(octets) < 4:
        raise WireError("0/2/ff", "no Terminate control field")
    reader = Reader(octets)
    control = reader.number(4)
    fields = {"layer": control >> 28, "type": control >> 24 & 15, "code": control >> 16 & 0xFF,
              "m": control >> 15 & 1, "d": control >> 14 & 1, "r": control >> 13 & 1}
    try:
        # RFC 5040, section 4.8: D says that the length is there, M that it is valid.
        if fields["m"] or fields["d"]:
            length = reader.number(2)
            if fields["m"]:
                fields["length"] = length
        if fields["d"]:
            tagged = reader.rest[:1] and reader.rest[0] & 0x80
            fields["header"] = reader.take(TAGGED_LENGTH if tagged else UNTAGGED_LENGTH)
            if fields["r"]:
                fields["read"] = reader.take(READ_LENGTH)
    except WireError:
        pass
    return fields


def encode(fields):
    opcode, last = fields["opcode"], fields["last"]
    tagged = opcode in TAGGED
    sent = bytes([(0x80 if tagged else 0) | (0x40 if last else 0) | 1, 0x40 | opcode])
    if tagged:
        return sent + number(fields["stag"], 4) + number(fields["to"], 8) + fields["payload"]
    sent += number(fields["invalidate"] if opcode in INVALIDATES else 0, 4)
    sent += number(QUEUES[opcode], 4) + number(fields["msn"], 4) + number(fields["mo"], 4)
    if opcode == READ_REQUEST:
        return sent + pack_read(fields)
    if opcode == TERMINATE:
        return sent + pack_terminate(fields)
    if opcode == ATOMIC_REQUEST:
        return sent + pack_atomic(fields)
    if opcode == ATOMIC_RESPONSE:
        return sent + b"".join(number(fields[name], size) for name, size in ORIGINAL)
    return sent + fields["payload"]


def decode(octets):
    reader = Reader(octets)
    ddp, rdmap = reader.number(1), reader.number(1)
    tagged = ddp >> 7
    fields = {"opcode": rdmap & 15, "last": ddp >> 6 & 1}
    if tagged:
        stag, offset = reader.number(4), reader.number(8)
    else:
        stag, queue, msn, offset = (reader.number(4) for _ in range(4))
    if ddp & 3 != 1:
        raise WireError("1/1/04" if tagged else "1/2/06", "DDP version")
    if not tagged and queue > 3:
        raise WireError("1/2/01", "queue number")
    if rdmap >> 6 != 1:
        raise WireError("0/2/05", "RDMAP version")
    opcode = fields["opcode"]
    if opcode > ATOMIC_RESPONSE or tagged != (opcode in TAGGED) or not tagged and queue != QUEUES[opcode]:
        raise WireError("0/2/06", "opcode")
    if tagged:
        return {**fields, "stag": stag, "to": offset, "payload": reader.rest}
    fields.update(msn=msn, mo=offset)
    if opcode in INVALIDATES:
        fields["invalidate"] = stag
    if opcode == READ_REQUEST:
        return {**fields, **unpack_read(fixed(reader.rest, READ_LENGTH, "length of a Read Request"))}
    if opcode == TERMINATE:
        return {**fields, **unpack_terminate(reader.rest)}
    if opcode == ATOMIC_REQUEST:
        return {**fields, **unpack_atomic(reader.rest)}
    if opcode == ATOMIC_RESPONSE:
        response = fixed(reader.rest, ORIGINAL_LENGTH, "length of an Atomic Response")
        return {**fields, **{name: response.number(size) for name, size in ORIGINAL}}
    if opcode in IMMEDIATES:
        fixed(reader.rest, IMMEDIATE_LENGTH, "length of Immediate Data")
    return {**fields, "payload": reader.rest}
