// SPDX-License-Identifier: GPL-2.0

//! This crate and `selftests/iwpeer`, a codec that does not share code with it, read each other's
//! octets.
//!
//! Decoded octets are written as fields again, so one comparison of fields serves all formats.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

mod decode;
mod encode;
mod vector;

use vector::Vector;

fn iwpeer(arguments: &[&str]) -> (bool, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../selftests/iwpeer");
    let output = Command::new("python3")
        .arg("-B")
        .arg(folder)
        .args(arguments)
        .output()
        .expect("python3 runs");
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8(said).expect("text"),
    )
}

// Shows P4.1-1, P4.1-2, P4.1-3, P4.1-4, P4.1-5, P4.1-6, P4.1-7, P4.1-8, P4.2-1, P4.4-1, P4.4-5,
// P4.8-1, P4.8-2, P4.8-4, P4.8-5, P4.8-6, P4.8-7, S5.2-1, S5.2.3-1, S5.2.3-2, S5.2.3-3, D-1, M-1,
// M-2, M-4, M-8, X4.1-1, X4.1-2, X4.1-3, X4.1-4, X5.1-4, X5.2-4, X5.2-8, X5.2.2-4, X6.3-1, X6.3-5,
// X8.2-1.
#[test]
fn vectors_of_iwpeer_decode_to_their_fields() {
    let (success, lines) = iwpeer(&["vectors"]);
    assert!(success, "{lines}");
    let mut kinds = BTreeMap::new();
    let mut differences = Vec::new();
    for vector in lines.lines().map(Vector::read) {
        *kinds.entry(vector.kind.clone()).or_insert(0) += 1;
        let (found, again) = decode::vector(&vector);
        if found != vector.expected() {
            let line: String = vector.line().chars().take(400).collect();
            differences.push(format!("{line}\n  decodes to {found:?}"));
        } else if !vector.fields.contains_key("receive")
            && again.is_some_and(|again| again != vector.octets)
        {
            differences.push(format!("{} is encoded otherwise", vector.name));
        }
    }
    assert!(
        differences.is_empty(),
        "{} differ:\n{}",
        differences.len(),
        differences.join("\n")
    );
    // A set that lost one of the formats would pass silently.
    for kind in ["startup", "fpdu", "segment", "sctp"] {
        assert!(
            kinds.get(kind).is_some_and(|count| *count > 40),
            "{kinds:?}"
        );
    }
}

// Shows P4.1-1, P4.1-2, P4.1-3, P4.1-4, P4.1-5, P4.1-6, P4.1-7, P4.1-8, P4.2-1, P4.4-1, P4.4-5,
// P4.8-1, P4.8-2, P4.8-4, P4.8-5, P4.8-6, P4.8-7, S5.2-1, S5.2.3-1, S5.2.3-2, S5.2.3-3, D-1, M-1,
// M-2, M-4, M-8, X4.1-1, X4.1-2, X4.1-3, X5.1-4, X5.2-8, X6.3-1.
#[test]
fn iwpeer_decodes_what_this_crate_encodes() {
    let vectors = encode::vectors();
    let lines: Vec<_> = vectors.iter().map(Vector::line).collect();
    let path = std::env::temp_dir().join(format!("rdmap-vectors-{}", std::process::id()));
    std::fs::write(&path, lines.join("\n")).expect("the file is written");
    let (success, said) = iwpeer(&["check", path.to_str().expect("a path of text")]);
    let _ = std::fs::remove_file(&path);
    assert!(success, "{said}");
    let counted = format!("{} vectors, 0 differ", vectors.len());
    assert!(said.contains(&counted), "{said}");
}
