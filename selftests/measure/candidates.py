# SPDX-License-Identifier: GPL-2.0
"""The candidates of the benchmarks: both modules over each software device, and NFS over TCP, which a user would have without them."""

# Name: the type of the device, and more for the kernel's command line. Each device is as its own documentation leaves it, but for the CRC.
DEVICES = {
    "rxe": ("rxe", ""),
    "iwarp-tcp": ("iwarp-tcp", ""),
    "iwarp-tcp without CRC": ("iwarp-tcp", "iwarp.crc=0"),
    "iwarp-sctp": ("iwarp-sctp", ""),
    "siw": ("siw", ""),
}
TCP = "NFS/TCP"
KINDS = list(dict.fromkeys(kind for kind, _ in DEVICES.values()))


def candidates(more=()):
    """Returns module, device, command line, and options of the guest's script of each. `more` are names with module, device and
    options, of candidates behind those over the same device."""
    found = {}
    for device, (kind, append) in DEVICES.items():
        for name, module in (("ours", "rust"), ("in-tree", "c")):
            found[f"{name} {device}"] = module, kind, append, ()
        found |= {name: (module, kind, append, options) for name, module, there, options in more if there == device}
    return found | {TCP: ("c", "rxe", "", ("--tcp",))}


def chosen(found, kinds):
    """Returns the names of those over a device of these types, or of all; NFS over TCP is always among them."""
    return [name for name, (_, kind, _, _) in found.items() if not kinds or name == TCP or kind in kinds]
