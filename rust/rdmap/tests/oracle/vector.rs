// SPDX-License-Identifier: GPL-2.0

//! A vector: octets, and the fields that they encode.
//!
//! As a line it is `kind name field=value ... | octets`; the README of `iwpeer` describes it.

use std::collections::BTreeMap;
use std::fmt::Write;

pub(crate) type Fields = BTreeMap<String, String>;

/// The result of decoding octets: fields, or the class of the error.
pub(crate) type Found = Result<Fields, String>;

pub(crate) struct Vector {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) fields: Fields,
    pub(crate) octets: Vec<u8>,
}

impl Vector {
    pub(crate) fn read(line: &str) -> Self {
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

    pub(crate) fn text(&self, field: &str) -> &str {
        let value = self.fields.get(field);
        value.unwrap_or_else(|| panic!("{} has no {field}", self.name))
    }

    pub(crate) fn number(&self, field: &str) -> u64 {
        self.text(field).parse().expect("a number")
    }

    pub(crate) fn flag(&self, field: &str) -> bool {
        self.number(field) != 0
    }

    pub(crate) fn expected(&self) -> Found {
        match self.fields.get("error") {
            Some(error) => Err(error.clone()),
            None => {
                let mut fields = self.fields.clone();
                fields.retain(|key, _| key != "receive");
                Ok(fields)
            }
        }
    }

    pub(crate) fn line(&self) -> String {
        let mut line = format!("{} {}", self.kind, self.name);
        for (key, value) in &self.fields {
            let _ = write!(line, " {key}={value}");
        }
        line + " | " + &hex(&self.octets)
    }
}

pub(crate) fn hex(octets: &[u8]) -> String {
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
pub(crate) fn tell(fields: &mut Fields, key: &str, value: impl ToString) {
    fields.insert(key.to_owned(), value.to_string());
}
