// SPDX-License-Identifier: GPL-2.0

//! Compiles the C side: the commands of uverbs and rdma_ucm, whose layouts are those of the
//! kernel's headers.

fn main() {
    println!("cargo::rerun-if-changed=src/commands.c");
    cc::Build::new()
        .file("src/commands.c")
        .warnings_into_errors(true)
        .compile("commands");
}
