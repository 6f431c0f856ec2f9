// SPDX-License-Identifier: GPL-2.0

//! Compiles the C side: verbs and the connection manager are inline functions and unions.

fn main() {
    println!("cargo::rerun-if-changed=src/verbs.c");
    cc::Build::new()
        .file("src/verbs.c")
        .warnings_into_errors(true)
        .compile("verbs_shim");
    println!("cargo::rustc-link-lib=rdmacm");
    println!("cargo::rustc-link-lib=ibverbs");
}
