//! A gate's file in which anything may be wrong but the checksum; and tokens as they come in headers.

use std::fs;

use http::{HeaderMap, HeaderValue, Method};
use proptest::{collection::vec, prelude::*};
use tempfile::TempDir;
use tenure_damage::{damaged, damaged_text, frugally, hold};

use super::super::{FencingToken, Gate, GateLimits, Pass, file, http::TokenRule};
use super::token;
use crate::fence::book::{Marks, Place};

/// The file of a gate that has seen some tokens, without its checksum.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let mark = || prop::option::of((1..i64::MAX).prop_map(token));
    let place = ("[a-c]{0,3}", prop::option::of(any::<u32>()));
    let line = (place, mark(), mark());
    vec(line, 0..5).prop_map(|lines| {
        let marks = lines.into_iter().map(|((resource, slot), exclusive, shared)| {
            (Place { resource: resource.into(), slot }, Marks { exclusive, shared })
        });
        let mut bytes = file::encode(&marks.collect());
        bytes.truncate(bytes.len() - 4);
        bytes
    })
}

fn sealed(body: &[u8]) -> Vec<u8> {
    [body, &crc32fast::hash(body).to_le_bytes()].concat()
}

#[test]
fn gate_refuses_files_that_are_sealed_and_wrong() {
    hold(2000, damaged(body()), |body| {
        let bytes = sealed(&body);
        let Ok(marks) = frugally(bytes.len(), || file::decode(&bytes)) else { return Ok(()) };
        let again = file::decode(&file::encode(&marks)).ok();
        prop_assert_eq!(again, Some(marks));
        Ok(())
    });
}

/// The same through the public API: what is opened goes on, and remembers.
#[test]
fn gate_that_opens_damaged_goes_on() {
    hold(60, damaged(body()), |body| {
        let home = TempDir::new().unwrap();
        let path = home.path().join("gate");
        let bytes = sealed(&body);
        fs::write(&path, &bytes).unwrap();
        let open = || Gate::open(&path, GateLimits::default());
        let Ok(gate) = frugally(bytes.len(), open) else { return Ok(()) };
        let newest = token(i64::MAX);
        gate.raise_blocking(Pass::to("orders", newest)).unwrap();
        drop(gate);
        prop_assert_eq!(open().unwrap().in_force("orders"), Some(newest));
        Ok(())
    });
}

#[test]
fn token_that_is_damaged_is_refused_or_read() {
    let text = damaged_text((1..=i64::MAX).prop_map(|number| number.to_string()));
    hold(1000, text, |text| {
        let Ok(token) = frugally(text.len(), || text.parse::<FencingToken>()) else {
            return Ok(());
        };
        prop_assert_eq!(token.to_string(), text);
        Ok(())
    });
}

#[test]
fn token_header_that_is_damaged_is_refused_or_read() {
    let value = damaged(Just(b"4711".to_vec()));
    hold(1000, vec(value, 0..3), |values| {
        let mut headers = HeaderMap::new();
        for value in values {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.append("fencing-token", value);
            }
        }
        let given = headers.len();
        let token = TokenRule::default().token(&Method::PUT, &headers);
        prop_assert!(token.is_err() || given == 1);
        Ok(())
    });
}
