// SPDX-License-Identifier: GPL-2.0

//! Compiles the C side: the commands of uverbs and rdma_ucm, whose layouts are those of the
//! kernel's headers.

fn main() {
    let files = ["src/commands.c", "src/rdma_cm.c"];
    for file in files {
        println!("cargo::rerun-if-changed={file}");
    }
    cc::Build::new()
        .files(files)
        .warnings_into_errors(true)
        .compile("commands");
}
