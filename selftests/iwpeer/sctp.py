# SPDX-License-Identifier: GPL-2.0

"""The user data of SCTP DATA chunks that carry DDP (RFC 5043, section 5.2; RFC 6581, section 6)."""

from mpa import pack_limits
from mpa import unpack_limits
from wire import Reader
from wire import WireError
from wire import number

SEGMENT, CONTROL = 16, 17
FUNCTIONS = range(1, 8)
TERMINATE = 4
# Their private data begin with IRD and ORD.
ENHANCED = (5, 6)
PRIVATE_MAX = 512


def encode(fields):
    sent = number(fields["ssn"], 2)
    if fields["ppid"] == SEGMENT:
        return sent + fields["segment"]
    sent += number(fields["function"], 2)
    if fields["function"] in ENHANCED:
        sent += pack_limits(fields)
    return sent + fields.get("private", b"")


def decode(octets, ppid):
    reader = Reader(octets)
    fields = {"ppid": ppid, "ssn": reader.number(2)}
    if ppid == SEGMENT:
        return {**fields, "segment": reader.rest}
    if ppid != CONTROL:
        raise WireError("ppid", ppid)
    function = reader.number(2)
    if function not in FUNCTIONS:
        raise WireError("function", function)
    fields["function"] = function
    # RFC 5043, section 5.2.3: a Terminate has no private data. What a peer puts there is not looked at.
    if function == TERMINATE:
        return fields
    if len(reader.rest) > PRIVATE_MAX:
        raise WireError("private", len(reader.rest))
    if function in ENHANCED:
        fields.update(unpack_limits(reader))
    return {**fields, "private": reader.rest}
