# SPDX-License-Identifier: GPL-2.0

"""The vector format: `kind name field=value ... | octets`. README.md describes it."""

import mpa
import sctp
import segment
from wire import WireError

WORDS = ("frame", "error")
OCTETS = ("private", "ulpdu", "payload", "header", "read", "segment")
# Octets that a receiver takes and no sender makes.
RECEIVE = "receive"
# How many characters of a value a complaint shows.
SHOWN = 200
# What a decoder is told. All other fields are what it finds.
CONTEXT = {"startup": ("frame",), "fpdu": ("position", "markers", "crc"), "segment": (), "sctp": ("ppid",)}


def encode(kind, fields):
    if kind == "startup":
        return mpa.encode_startup(fields)
    if kind == "fpdu":
        return mpa.encode_fpdu(**fields)
    return {"segment": segment, "sctp": sctp}[kind].encode(fields)


def decode(kind, octets, context):
    if kind == "startup":
        return mpa.decode_startup(octets, context["frame"])
    if kind == "fpdu":
        ulpdu, taken = mpa.decode_fpdu(octets, **context)
        if taken != len(octets):
            raise WireError("short", "the line has more than one FPDU")
        return {**context, "ulpdu": ulpdu}
    if kind == "sctp":
        return sctp.decode(octets, context["ppid"])
    return segment.decode(octets)


def _write_value(name, value):
    if name in WORDS:
        return value
    if name in OCTETS:
        return value.hex() or "-"
    return str(value)


def _read_value(name, text):
    if name in WORDS:
        return text
    if name in OCTETS:
        return b"" if text == "-" else bytes.fromhex(text)
    return int(text, 0)


def write(kind, name, fields, octets):
    told = " ".join(f"{key}={_write_value(key, value)}" for key, value in fields.items())
    return f"{kind} {name} {told} | {octets.hex() or '-'}"


def read(line):
    """(kind, name, fields, octets) of a line; ValueError if it is none."""
    head, bar, tail = line.partition(" | ")
    kind, name, *told = head.split()
    if not bar or kind not in CONTEXT:
        raise ValueError(f"not a vector: {line}")
    fields = {}
    for pair in told:
        key, equals, value = pair.partition("=")
        if not equals or key in fields:
            raise ValueError(f"not a field: {pair}")
        fields[key] = _read_value(key, value)
    return kind, name, fields, _read_value("payload", tail.strip())


def _shown(fields, names=None):
    """Those fields, long ones cut."""
    return " ".join(f"{key}={_write_value(key, fields[key])[:SHOWN]}" for key in names or fields if key in fields) or "nothing"


def complaint(line):
    """What is wrong with a vector in the eyes of this codec; None if nothing is."""
    kind, name, fields, octets = read(line)
    error = fields.pop("error", None)
    only_receive = fields.pop(RECEIVE, 0)
    context = {key: fields[key] for key in CONTEXT[kind]}
    try:
        found = decode(kind, octets, context)
    except WireError as refused:
        return None if refused.kind == error else f"{name}: refused as {refused}; expected {error or 'no error'}"
    if error:
        return f"{name}: decoded to {_shown(found)}; expected the error {error}"
    if found != fields:
        parted = sorted(key for key in found.keys() | fields.keys() if found.get(key) != fields.get(key))
        return f"{name}: found {_shown(found, parted)}; expected {_shown(fields, parted)}"
    if not only_receive and encode(kind, fields) != octets:
        return f"{name}: encoded again to {encode(kind, fields).hex()[:SHOWN]}; expected {octets.hex()[:SHOWN]}"
    return None
