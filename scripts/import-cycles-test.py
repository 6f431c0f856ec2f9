#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Tests of import-cycles.py: small crates, with the circles that it must find in them."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).with_name("import-cycles.py")


def found(files, *options):
    """The dependencies that the script prints for a crate of these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            file = Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        run = subprocess.run([sys.executable, SCRIPT, *options, Path(folder, "lib.rs")], text=True, check=False,
                             stdout=subprocess.PIPE)
    lines = [line.strip() for line in run.stdout.splitlines() if "->" in line]
    assert run.returncode == (1 if lines else 0), run
    return lines


class Circles(unittest.TestCase):
    """Crates that must fail."""

    def test_use(self):
        lines = found({
            "lib.rs": "mod a;\nmod b;",
            "a.rs": "use crate::{\n    b::{\n        self,\n        B, //\n    }, //\n};\npub struct A(B);",
            "b.rs": "use super::a::A as Other;\npub struct B(Other);",
        })
        self.assertEqual(lines, ["a.rs -> b.rs: B", "b.rs -> a.rs: Other"])

    def test_path_in_a_body(self):
        lines = found({
            "lib.rs": "mod a;\nmod b;",
            "a.rs": "pub fn one(at: &'static str) -> char { crate::b::two(); '\"' }",
            "b.rs": "pub fn two() { let _ = super::a::one(\"}\"); }",
        })
        self.assertEqual(lines, ["a.rs -> b.rs: two", "b.rs -> a.rs: one"])

    def test_glob(self):
        lines = found({
            "lib.rs": "mod a;\nfn main() { a::one() }\npub struct Root;",
            "a.rs": "use super::*;\npub fn one() { let _ = Root; }",
        })
        self.assertEqual(lines, ["a.rs -> lib.rs: Root", "lib.rs -> a.rs: one"])

    def test_by_way_of_a_third_file(self):
        lines = found({
            "lib.rs": "mod a;\nmod b;\nmod c;\nmod d;",
            "a.rs": "use crate::b::B;\npub struct A(B);",
            "b.rs": "use crate::c::C;\npub struct B(C);",
            "c.rs": "pub fn c() { use crate::a::A; }\npub struct C;",
            "d.rs": "use crate::c::C;",
        })
        self.assertEqual(lines, ["a.rs -> b.rs: B", "b.rs -> c.rs: C", "c.rs -> a.rs: A"])

    def test_re_export_counts_for_the_file_that_defines(self):
        lines = found({
            "lib.rs": "mod a;\nmod b;\npub use a::A;\npub use b::*;",
            "a.rs": "use crate::B;\npub struct A(B);",
            "b.rs": "pub fn b(_: crate::A) {}\npub struct B;",
        })
        self.assertEqual(lines, ["a.rs -> b.rs: B", "b.rs -> a.rs: A"])

    def test_parent_and_child(self):
        lines = found({
            "lib.rs": "mod a;",
            "a.rs": "mod b;\npub use b::B;\nfn user(_: &B) {}\npub const LIMIT: u32 = { 1 };",
            "a/b.rs": "pub struct B([u8; super::LIMIT]);",
        })
        self.assertEqual(lines, ["a/b.rs -> a.rs: LIMIT", "a.rs -> a/b.rs: B"])

    def test_method_in_another_file_than_its_type(self):
        lines = found({
            "lib.rs": "mod queue;\nmod post;",
            "queue.rs": "pub struct Queue<T>(T);\nfn all(queue: &Queue<u8>) { queue.post_all() }",
            "post.rs": "use crate::queue::Queue;\nimpl<T: Into<Vec<u8>>> Queue<T> {\n    pub fn post_all(&self) {}\n}",
        })
        self.assertEqual(lines, ["post.rs -> queue.rs: Queue", "queue.rs -> post.rs: post_all"])

    def test_item_made_by_a_macro(self):
        lines = found({
            "lib.rs": "mod table;\nmod a;",
            "table.rs": "macro_rules! table { ($($name:ident),*) => { pub const ALL: u32 = 1; } }\npub(crate) use table;\n"
                        "fn all() { crate::a::ALL; }",
            "a.rs": "use super::table::table;\ntable![one, two];",
        })
        self.assertEqual(lines, ["a.rs -> table.rs: table", "table.rs -> a.rs: ALL"])


class NoCircles(unittest.TestCase):
    """Crates that must pass."""

    def test_tree_with_re_exports(self):
        self.assertEqual(found({
            "lib.rs": "mod a;\nmod b;\npub use a::{\n    A,\n    Inner, //\n};\npub use b::B;",
            "a.rs": "mod inner;\npub use inner::Inner;\npub struct A;",
            "a/inner.rs": "use super::A;\npub struct Inner(A);",
            "b.rs": "use crate::{A, Inner};\npub struct B(A, Inner);",
        }), [])

    def test_names_that_only_look_alike(self):
        self.assertEqual(found({
            "lib.rs": "mod a;\nmod b;",
            "a.rs": "use crate::b::go;\npub struct A { pub go: u8 }\npub fn one() {}",
            "b.rs": "// crate::a::one\n/* crate::a::one */\npub fn go(a: &mut Thing) -> u8 { a.one(); \"crate::a::one\"; a.go }",
        }), [])

    def test_test_modules(self):
        self.assertEqual(found({
            "lib.rs": "mod a;\nmod b;",
            "a.rs": "pub struct A;\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}",
            "b.rs": "use crate::a::A;\npub struct B(A);\n#[cfg(test)]\nmod tests {\n    use super::*;\n    fn b(_: B) {}\n}",
        }), [])

    def test_excepted_name(self):
        files = {
            "lib.rs": "mod a;\nmod b;",
            "a.rs": "pub trait Handler { fn on(_: crate::b::B<Self>); }",
            "b.rs": "use crate::a::Handler;\npub struct B<H: Handler>(H);",
        }
        self.assertEqual(len(found(files)), 2)
        self.assertEqual(found(files, "--except", "Handler"), [])


if __name__ == "__main__":
    unittest.main()
