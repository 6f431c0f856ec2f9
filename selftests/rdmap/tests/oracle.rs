// SPDX-License-Identifier: GPL-2.0

//! This crate and `selftests/iwpeer`, a codec that does not share code with it, read each other's octets.
//!
//! A vector is a line, `kind name field=value ... | octets`; the README of `iwpeer` describes it. What this crate
//! decodes is written as fields again, so one comparison of fields serves all formats.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

mod decode;
mod encode;

type Fields = BTreeMap<String, String>;

/// What a codec makes of octets: fields, or the class of the error.
type Found = Result<Fields, String>;

struct Vector {
    kind: String,
    name: String,
    fields: Fields,
    octets: Vec<u8>,
}

impl Vector {
    fn read(line: &str) -> Self {
        let (head, octets) = line.split_once(" | ").expect("a line has octets");
        let mut words = head.split(' ');
        let mut word = || {
            words
                .next()
                .expect("a line has a kind and a name")
                .to_owned()
        };
        let (kind, name) = (word(), word());
        let fields = words.filter(|word| !word.is_empty()).map(|word| {
            let (key, value) = word.split_once('=').expect("a field has a value");
            (key.to_owned(), value.to_owned())
        });
        Self {
            kind,
            name,
            fields: fields.collect(),
            octets: octets_of(octets),
        }
    }

    fn text(&self, field: &str) -> &str {
        let value = self.fields.get(field);
        value.unwrap_or_else(|| panic!("{} has no {field}", self.name))
    }

    fn number(&self, field: &str) -> u64 {
        self.text(field).parse().expect("a number")
    }

    fn flag(&self, field: &str) -> bool {
        self.number(field) != 0
    }

    fn expected(&self) -> Found {
        match self.fields.get("error") {
            Some(error) => Err(error.clone()),
            None => {
                let mut fields = self.fields.clone();
                fields.retain(|key, _| key != "receive");
                Ok(fields)
            }
        }
    }

    fn line(&self) -> String {
        let mut line = format!("{} {}", self.kind, self.name);
        for (key, value) in &self.fields {
            let _ = write!(line, " {key}={value}");
        }
        line + " | " + &hex(&self.octets)
    }
}

fn hex(octets: &[u8]) -> String {
    match octets {
        [] => "-".to_owned(),
        _ => octets.iter().fold(String::new(), |mut text, octet| {
            let _ = write!(text, "{octet:02x}");
            text
        }),
    }
}

fn octets_of(hex: &str) -> Vec<u8> {
    let digits = hex.trim().trim_start_matches('-').as_bytes();
    let octet = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
    digits.chunks(2).map(|pair| octet(pair).unwrap()).collect()
}

/// Sets a field.
fn tell(fields: &mut Fields, key: &str, value: impl ToString) {
    fields.insert(key.to_owned(), value.to_string());
}

fn iwpeer(arguments: &[&str]) -> (bool, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../iwpeer");
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
    // A set that lost one of the formats would pass without a word.
    for kind in ["startup", "fpdu", "segment", "sctp"] {
        assert!(
            kinds.get(kind).is_some_and(|count| *count > 40),
            "{kinds:?}"
        );
    }
}

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
