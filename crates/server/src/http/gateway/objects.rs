//! Cutting a body into objects as it arrives.
//!
//! The client's half of a stream is one JSON object after the other, with or without space between.
//! The cutter looks at every byte once, however small the pieces are in which a body comes, and
//! holds no more than one unfinished object within its limit. It only finds where objects end;
//! whether they are JSON is seen when they are read.

use axum::body::{Body, BodyDataStream, Bytes};
use bytes::{Buf, BytesMut};
use futures_util::StreamExt;
use tenure_api::Failure;
use tokio::time::Instant;
use tonic::Status;

use super::body::drain;
use crate::{
    admission::{ARRIVAL_MAX, Held, too_late},
    grpc::refuse,
};

/// The objects of a body.
pub(super) struct Objects {
    pieces: BodyDataStream,
    cutter: Cutter,
    held: Held,
    /// When the object that is not whole must be.
    late: Option<Instant>,
}

impl Objects {
    pub(super) fn new(body: Body, object_bytes_max: usize, held: Held) -> Objects {
        let (pieces, cutter) = (body.into_data_stream(), Cutter::new(object_bytes_max));
        Objects { pieces, cutter, held, late: None }
    }

    /// The next object, or nothing at the end of the body. After an error there is no next one.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, Status>> {
        loop {
            match self.cutter.cut() {
                Ok(Some(object)) => {
                    let _ = self.held.set(self.cutter.held.len());
                    self.late = None;
                    return Some(Ok(object));
                }
                Ok(None) => {}
                Err(status) => {
                    if self.cutter.is_overfull() {
                        drain(&mut self.pieces).await;
                    }
                    return Some(Err(status));
                }
            }
            // Between two objects a client may be silent.
            let late = match self.cutter.between_objects() {
                true => None,
                false => Some(*self.late.get_or_insert_with(|| Instant::now() + ARRIVAL_MAX)),
            };
            let piece = match late {
                None => self.pieces.next().await,
                Some(late) => match tokio::time::timeout_at(late, self.pieces.next()).await {
                    Ok(piece) => piece,
                    Err(_) => return Some(Err(self.spoilt(too_late()))),
                },
            };
            match piece {
                Some(Ok(piece)) => {
                    self.cutter.add(&piece);
                    if let Err(failure) = self.held.set(self.cutter.held.len()) {
                        let refused = self.spoilt(refuse(failure));
                        drain(&mut self.pieces).await;
                        return Some(Err(refused));
                    }
                }
                // A client that broke off is gone: there is no client to tell.
                Some(Err(_)) => return None,
                None if self.cutter.between_objects() => return None,
                None => {
                    let endless = Status::invalid_argument("the JSON object has no end");
                    return Some(Err(self.spoilt(endless)));
                }
            }
        }
    }

    /// Nothing is held or cut any more.
    fn spoilt(&mut self, why: Status) -> Status {
        self.cutter = Cutter::new(0);
        let _ = self.held.set(0);
        why
    }
}

/// Finds the ends of objects in bytes that come in pieces.
pub(super) struct Cutter {
    held: BytesMut,
    /// How much of what is held was looked at.
    seen: usize,
    /// Brackets and braces that are open.
    depth: usize,
    place: Place,
    object_bytes_max: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Plain,
    Text,
    /// Behind a backslash in a text.
    Escaped,
}

impl Cutter {
    pub(super) fn new(object_bytes_max: usize) -> Cutter {
        Cutter { held: BytesMut::new(), seen: 0, depth: 0, place: Place::Plain, object_bytes_max }
    }

    pub(super) fn add(&mut self, piece: &[u8]) {
        self.held.extend_from_slice(piece);
    }

    fn is_overfull(&self) -> bool {
        self.seen > self.object_bytes_max
    }

    fn between_objects(&self) -> bool {
        self.held.is_empty()
    }

    /// Cuts off the first object if it is whole.
    pub(super) fn cut(&mut self) -> Result<Option<Bytes>, Status> {
        if self.depth == 0 {
            let space = self.held.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            self.held.advance(space);
            if self.held.first().is_some_and(|first| *first != b'{') {
                return Err(Status::invalid_argument("expected a JSON object"));
            }
        }
        while let Some(byte) = self.held.get(self.seen) {
            self.seen += 1;
            self.step(*byte);
            if self.seen > self.object_bytes_max {
                return Err(refuse(Failure::RequestTooLarge));
            }
            if self.depth == 0 {
                let object = self.held.split_to(self.seen).freeze();
                self.seen = 0;
                return Ok(Some(object));
            }
        }
        Ok(None)
    }

    fn step(&mut self, byte: u8) {
        self.place = match (self.place, byte) {
            (Place::Text, b'\\') => Place::Escaped,
            (Place::Text, b'"') => Place::Plain,
            (Place::Text | Place::Escaped, _) => Place::Text,
            (Place::Plain, b'"') => Place::Text,
            (Place::Plain, b'{' | b'[') => {
                self.depth += 1;
                Place::Plain
            }
            (Place::Plain, b'}' | b']') => {
                self.depth = self.depth.saturating_sub(1);
                Place::Plain
            }
            (Place::Plain, _) => Place::Plain,
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut_all(cutter: &mut Cutter) -> Vec<String> {
        let mut found = Vec::new();
        while let Some(object) = cutter.cut().unwrap() {
            found.push(String::from_utf8(object.to_vec()).unwrap());
        }
        found
    }

    #[test]
    fn brackets_in_texts_do_not_count() {
        let mut cutter = Cutter::new(100);
        cutter.add(br#" {"a":"}\"}"}  {"b":[{}]}{} {"c""#);
        assert_eq!(cut_all(&mut cutter), [r#"{"a":"}\"}"}"#, r#"{"b":[{}]}"#, "{}"]);
        assert!(!cutter.between_objects());
        cutter.add(b":1}\n");
        assert_eq!(cut_all(&mut cutter), [r#"{"c":1}"#]);
        assert!(cutter.between_objects());
    }

    #[test]
    fn what_is_no_object_is_refused_at_once() {
        for wrong in ["nonsense", "[", "7", "\"a\"", "}"] {
            let mut cutter = Cutter::new(100);
            cutter.add(wrong.as_bytes());
            assert_eq!(cutter.cut().unwrap_err().code(), tonic::Code::InvalidArgument, "{wrong}");
        }
    }

    #[test]
    fn an_object_beyond_the_limit_is_refused_before_it_ends() {
        let mut cutter = Cutter::new(4);
        cutter.add(b"{  }{");
        assert_eq!(cut_all(&mut cutter), ["{  }"]);
        cutter.add(b"    ");
        let refused = cutter.cut().unwrap_err();
        assert_eq!(refused.message(), "etcdserver: request is too large");
    }

    proptest! {
        #[test]
        fn it_matters_not_how_the_pieces_fall(
            texts in prop::collection::vec(".{0,12}", 0..6),
            sizes in prop::collection::vec(1usize..9, 1..20),
        ) {
            let objects: Vec<String> = texts
                .iter()
                .map(|text| serde_json::json!({ text: [{ "in": text }] }).to_string())
                .collect();
            let whole = objects.join(" ");
            let mut rest = whole.as_bytes();
            let mut cutter = Cutter::new(1000);
            let mut found = Vec::new();
            for size in sizes.iter().cycle() {
                let (piece, after) = rest.split_at(rest.len().min(*size));
                cutter.add(piece);
                found.extend(cut_all(&mut cutter));
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(found, objects);
        }
    }
}
