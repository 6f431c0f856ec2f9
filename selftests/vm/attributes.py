#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""ACLs, extended attributes and directories of given sizes, whose contents follow from the size.

attributes.py set-acls|acls|set-xattrs|xattrs DIRECTORY SIZE...: `set-` makes a file for each size; the other ones print what is there,
a line for each size, which is the same on each machine that sees the same.
attributes.py fill|names DIRECTORY COUNT: makes so many files with names of 96 octets; looks whether each is listed once.
attributes.py stir DIRECTORY SECONDS: adds and removes other files.
attributes.py many-xattrs FILE COUNT: makes a file with so many attributes, which list-xattrs prints in short.
"""

import ctypes
import errno
import hashlib
import os
import struct
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
ACL = "system.posix_acl_access"


def get(path, name):
    """Returns an attribute, read into a buffer that is large enough: os.getxattr() first tries one that is not."""
    buffer = ctypes.create_string_buffer(65536)
    length = LIBC.getxattr(path.encode(), name.encode(), buffer, len(buffer))
    if length < 0:
        raise OSError(ctypes.get_errno(), "getxattr")
    return buffer.raw[:length]


def acl(entries):
    """Returns an ACL of that many users beside the owner, the group, the mask and others, as system calls have it."""
    users = b"".join(struct.pack("<HHI", 2, user % 8, 1000 + user) for user in range(entries))
    rest = [struct.pack("<HHI", tag, 4, 0xFFFFFFFF) for tag in (4, 0x10, 0x20)]
    return struct.pack("<IHHI", 2, 1, 6, 0xFFFFFFFF) + users + b"".join(rest)


def value(size):
    return hashlib.shake_128(b"%d" % size).digest(size)


def outcome(function, *arguments):
    """Returns what the function does, in a word: its result, or the name of the error."""
    try:
        result = function(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return f"{len(result)} {hashlib.md5(result).hexdigest()}" if result is not None else "done"


def each(what, directory, sizes):
    for size in map(int, sizes):
        path = f"{directory}/{what.removeprefix('set-').rstrip('s')}-{size}"
        if what.startswith("set-"):
            open(path, "w").close()
        match what:
            case "set-acls":
                result = outcome(os.setxattr, path, ACL, acl(size))
            case "acls":
                result = outcome(get, path, ACL)
            case "set-xattrs":
                result = outcome(os.setxattr, path, "user.value", value(size))
            case "xattrs":
                result = outcome(get, path, "user.value")
        print(size, result)


def name(number):
    return f"{number:096}"


def names(directory, count):
    """Looks whether each name is listed once, whatever else is."""
    seen = [entry for entry in os.listdir(directory) if not entry.startswith("other")]
    assert sorted(seen) == [name(number) for number in range(count)], f"{len(seen)} names, {len(set(seen))} of them different"


def stir(directory, seconds):
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        open(f"{directory}/other-{number}", "w").close()
        if number >= 100:
            os.unlink(f"{directory}/other-{number - 100}")
        number += 1
    for left in range(max(0, number - 100), number):
        os.unlink(f"{directory}/other-{left}")


def main(what, directory, *sizes):
    match what:
        case "fill":
            os.makedirs(directory)
            for number in range(int(sizes[0])):
                open(f"{directory}/{name(number)}", "w").close()
        case "names":
            names(directory, int(sizes[0]))
        case "stir":
            stir(directory, float(sizes[0]))
        case "list-xattrs":
            print(outcome(lambda: "".join(sorted(name for name in os.listxattr(directory) if name.startswith("user."))).encode()))
        case "many-xattrs":
            open(directory, "w").close()
            for number in range(int(sizes[0])):
                os.setxattr(directory, f"user.{number:060}", b"1")
        case _:
            each(what, directory, sizes)


main(*sys.argv[1:])
