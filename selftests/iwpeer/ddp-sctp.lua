-- SPDX-License-Identifier: GPL-2.0
--
-- DDP over SCTP (RFC 5043) for tshark, which knows the payload protocol identifiers by name only:
--
--     tshark -X lua_script:ddp-sctp.lua -r FILE
--
-- It decodes the DDP stream sequence number and session control, and leaves segments to tshark's own dissector of DDP and RDMAP.

local SEGMENT, CONTROL = 16, 17

local functions = {
	[1] = "Initiate", [2] = "Accept", [3] = "Reject", [4] = "Terminate",
	[5] = "Enhanced Initiate", [6] = "Enhanced Accept", [7] = "Enhanced Reject",
}

local ddp = Proto("ddp_sctp", "Direct Data Placement over SCTP")
local ssn = ProtoField.uint16("ddp_sctp.ssn", "DDP stream sequence number")
local code = ProtoField.uint16("ddp_sctp.function", "Function", base.DEC, functions)
local inbound = ProtoField.uint16("ddp_sctp.ird", "IRD", base.DEC, nil, 0x3fff)
local outbound = ProtoField.uint16("ddp_sctp.ord", "ORD", base.DEC, nil, 0x3fff)
local private = ProtoField.bytes("ddp_sctp.private_data", "Private data")
ddp.fields = { ssn, code, inbound, outbound, private }

-- A protocol has one dissector, and the two identifiers need one each.
local control = Proto("ddp_sctp_control", "DDP stream session control")
local segments = Dissector.get("iwarp_ddp_rdmap")

function ddp.dissector(octets, packet, tree)
	tree:add(ddp, octets(0, 2)):add(ssn, octets(0, 2))
	segments:call(octets(2):tvb(), packet, tree)
	return octets:len()
end

function control.dissector(octets, packet, tree)
	local found, at = octets(2, 2):uint(), 4
	local item = tree:add(ddp, octets())
	item:add(ssn, octets(0, 2))
	item:add(code, octets(2, 2))
	if found == 5 or found == 6 then
		item:add(inbound, octets(4, 2))
		item:add(outbound, octets(6, 2))
		at = 8
	end
	if octets:len() > at then
		item:add(private, octets(at))
	end
	packet.cols.info:append(" DDP " .. (functions[found] or "unknown function"))
	return octets:len()
end

local identifiers = DissectorTable.get("sctp.ppi")
identifiers:add(SEGMENT, ddp)
identifiers:add(CONTROL, control)
