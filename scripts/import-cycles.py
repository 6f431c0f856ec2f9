#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Fails if files of one Rust crate depend on each other in a circle, and prints each such circle.

    scripts/import-cycles.py                    all crates of the tree
    scripts/import-cycles.py rust/rdma/lib.rs   the crates with these root files

A file depends on another file if it names an item that the other one defines: in a `use`, in a path anywhere in its code, or
as a method of an inherent impl that is in another file than its type. A re-export counts for the file that defines the
item, so `pub use` and `mod` alone are no dependency. Code for tests only (`#[cfg(test)]`) is left out.

Not seen: what a macro names, and methods of a value whose type the file does not name, if they are in the type's own file.
import-cycles-test.py has an example of each rule.
"""

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
CRATES = ["rust/*/lib.rs", "rust/main.rs", "rust/*/main.rs", "selftests/*/src/main.rs", "selftests/*/tests/all.rs", "selftests/*/bench/lib.rs",
          "selftests/*/fuzz_targets/*.rs"]
TOKEN = re.compile(r"""(?sx) //[^\n]* | /\*.*?\*/ | \s+
    | [bc]?r(?P<hashes>\#*)".*?"(?P=hashes) | [bc]?"(?:\\.|[^"\\])*" | b?'(?:\\.[^']*|[^\\'])' | '\w+
    | (?P<token>(?:r\#)?\w+|::|->|=>|.)""")
ITEMS = {"struct", "enum", "union", "trait", "type", "const", "static", "fn", "macro_rules"}
WORD = re.compile(r"(?!\d)\w+$")


class Module:
    """A module: the names that it has, and the tokens of its items."""

    def __init__(self, file, folder, parent):
        self.file, self.folder, self.parent = file, folder, parent
        self.root = parent.root if parent else self
        self.items, self.children, self.uses, self.globs, self.impls, self.code = set(), {}, {}, [], [], []

    def tree(self):
        return [self, *(module for child in self.children.values() for module in child.tree())]


def tokens_of(file):
    return [match["token"] for match in TOKEN.finditer(file.read_text()) if match["token"]]


def end_of(tokens, at, ends):
    """The index behind the first of these tokens that is not inside brackets which are opened behind `at`."""
    depth = 0
    for index in range(at, len(tokens)):
        depth += (tokens[index] in "([{") - (tokens[index] in ")]}")
        if depth == 0 and tokens[index] in ends:
            return index + 1
    return len(tokens)


def add_uses(module, tokens, at, public, path=()):
    """Notes what the `use` tree at `at` imports. Returns the index of the `,`, `;` or `}` behind it."""
    name = None
    while tokens[at] not in ",;}":
        if tokens[at] == "{":
            while tokens[at] != "}":
                at = add_uses(module, tokens, at + 1, public, path)
            return at + 1
        if tokens[at] == "as":
            at, name = at + 1, tokens[at + 1]
        elif tokens[at] == "self" and path:
            name = path[-1]
        elif tokens[at] == "*":
            module.globs.append(path)
        elif tokens[at] != "::":
            path, name = (*path, tokens[at]), tokens[at]
        at += 1
    if name and tokens[at - 1] != "*":
        module.uses[name] = (path, public)
    return at


def add_child(module, name, inline):
    file, folder = module.file, module.folder / name
    if inline is None:
        named = re.search(rf'#\[path = "([^"]+)"\](?:\s|//.*|#\[.*|pub(?:\(.*\))?)*mod {name};', file.read_text())
        places = [file.parent / named[1]] if named else [folder.with_suffix(".rs"), folder / "mod.rs"]
        file = next(place.resolve() for place in places if place.exists())
        folder = file.parent if named or file.name == "mod.rs" else folder
    child = module.children[name] = Module(file, folder, module)
    parse(child, tokens_of(file) if inline is None else inline)


def parse(module, tokens):
    """Finds the names in a module, and the modules below it."""
    at, tests_only, public = 0, False, False
    while at < len(tokens):
        start, word = at, tokens[at]
        if word == "#":
            at = end_of(tokens, at, "]")
            tests_only |= bool(re.match(r"#\[cfg\((all\()?test\b", "".join(tokens[start:at])))
            continue
        if word == "pub":
            public, at = True, end_of(tokens, at, ")") if tokens[at + 1] == "(" else at + 1
            continue
        if word in ("unsafe", "async", "extern", "const") and tokens[at + 1] in ("fn", "unsafe", "extern", "impl", "trait"):
            at += 1
            continue
        at = end_of(tokens, at, ";" if word in ("const", "static", "type", "use") else ";}")
        item = tokens[start:at]
        if tests_only:
            pass
        elif word == "mod":
            add_child(module, item[1], item[3:-1] if item[2] == "{" else None)
        elif word == "use":
            add_uses(module, item, 1, public)
        else:
            module.code += item
            if word in ITEMS:
                module.items.add(next(token for token in item[1:] if token not in ("mut", "!")))
            elif word == "impl":
                module.impls.append(item)
        tests_only = public = False
    for index, word in enumerate(module.code):
        if word == "use" and module.code[index + 1] != "<":  # Inside a function.
            add_uses(module, module.code, index + 1, False)


def look_up(module, name, inner, seen):
    """What `name` is in `module`: a Module (which an `inner` path goes on from), the file that defines an item, or None."""
    if (module, name) in seen:
        return None
    seen = (*seen, (module, name))
    found = [module.file if name in module.items else None, module.children.get(name)]
    if name in module.uses:
        found.append(resolve(module, module.uses[name][0], seen))
    for place in (resolve(module, path, seen) for path in module.globs):
        found.append(look_up(place, name, inner, seen) if isinstance(place, Module) else None)
    return min(filter(None, found), key=lambda one: isinstance(one, Module) != inner, default=None)


def resolve(module, path, seen=()):
    """As `look_up`, for a path that `module` names."""
    at = module
    for index, name in enumerate(path):
        if index == 0 and name in ("crate", "self"):
            at = module.root if name == "crate" else module
        elif name == "super":
            at = at.parent
        else:
            place, at = at, look_up(at, name, index + 1 < len(path), seen)
            if at is None and index and name not in place.uses and not place.globs:
                return place.file  # A macro there made it.
        if not isinstance(at, Module):
            return at
    return at


def paths(code):
    """Each path that is named in code, and whether it is a method that is called on a value."""
    at = 0
    while at < len(code):
        path, method = [code[at]], code[at - 1] == "." and code[at - 2] != "."
        field = code[at + 1:at + 2] == [":"]
        while code[at + 1:at + 2] == ["::"] and WORD.match(code[at + 2]):
            path, at = [*path, code[at + 2]], at + 2
        at += 1
        if WORD.match(path[0]) and (method or not field):
            yield path, method


def methods_elsewhere(modules):
    """The file of each method of an inherent impl that is not in its type's file, if no other function has its name."""
    files, found = defaultdict(set), {}
    for module in modules:
        for word, name in zip(module.code, module.code[1:]):
            if word == "fn":
                files[name].add(module.file)
        for item in module.impls:
            head = "".join(f" {token} " if token in ("for", "where") else token for token in item[1:item.index("{")])
            head = re.sub(r"^<([^<>]|<([^<>]|<[^<>]*>)*>)*>", "", head)
            owner = None if " for " in head else resolve(module, re.match(r"[\w:]*", head)[0].split("::"))
            if isinstance(owner, Path) and owner != module.file:
                found |= {name: module.file for word, name in zip(item, item[1:]) if word == "fn"}
    return {name: file for name, file in found.items() if files[name] == {file}}


def dependencies(modules):
    """Which names each file takes from which other file."""
    needs = defaultdict(lambda: defaultdict(set))
    methods = methods_elsewhere(modules)
    for module in modules:
        found = [(resolve(module, path), name) for name, (path, public) in module.uses.items() if not public]
        for path, method in paths(module.code):
            if method or len(path) > 1:
                found.append((methods.get(path[-1]), path[-1]))
            if not method:
                places = ((resolve(module, path[:end]), path[end - 1]) for end in range(1, len(path) + 1))
                found.append(next(((file, name) for file, name in places if not isinstance(file, Module)), (None, None)))
        for file, name in found:
            if isinstance(file, Path) and file != module.file:
                needs[module.file][file].add(name)
    return needs


def circles(needs):
    """The largest groups of files of which each depends on each other, maybe by way of others."""
    reach = {}
    for start in needs:
        found, todo = set(), [start]
        while todo:
            more = set(needs.get(todo.pop(), ())) - found
            found |= more
            todo += more
        reach[start] = found
    return {tuple(sorted(other for other in reach[file] if file in reach.get(other, ()))) for file in reach} - {()}


def check(crate, uncounted):
    """Prints the circles of a crate. Returns how many there are."""
    root = Module(crate.resolve(), crate.resolve().parent, None)
    parse(root, tokens_of(crate))
    needs = {file: {other: names - uncounted for other, names in others.items() if names - uncounted}
             for file, others in dependencies(root.tree()).items()}
    found = sorted(circles(needs))
    for circle in found:
        shown = {file: str(file).removeprefix(f"{root.folder}/").removeprefix(f"{TOP}/") for file in circle}
        print(f"{str(crate).removeprefix(str(TOP) + '/')}: a circle of {len(circle)} files")
        for file in circle:
            for other in sorted(set(needs[file]) & set(circle)):
                print(f"    {shown[file]} -> {shown[other]}: {', '.join(sorted(needs[file][other]))}")
    return len(found)


def main():
    parser = argparse.ArgumentParser(description="circles of dependencies between the files of a crate")
    parser.add_argument("--except", dest="uncounted", action="append", default=[], metavar="NAME",
                        help="an item that may be named anywhere")
    parser.add_argument("root", nargs="*", type=Path, help="the root file of a crate")
    options = parser.parse_args()
    crates = options.root or [crate for pattern in CRATES for crate in sorted(TOP.glob(pattern))]
    count = sum(check(crate, set(options.uncounted)) for crate in crates)
    print(f"{len(crates)} crates, {count} circles")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
