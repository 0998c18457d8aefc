//! Versions of keys, and events.

use std::sync::Arc;

use crate::wire::mvccpb::{self, event::EventType};
use crate::{Event, EventKind, KeyValue, LeaseId, Revision};

impl From<&KeyValue> for mvccpb::KeyValue {
    fn from(kv: &KeyValue) -> Self {
        mvccpb::KeyValue {
            key: kv.key.clone(),
            create_revision: kv.create_revision.0,
            mod_revision: kv.mod_revision.0,
            version: kv.version,
            value: kv.value.clone(),
            lease: LeaseId::to_wire(kv.lease),
        }
    }
}

impl From<mvccpb::KeyValue> for KeyValue {
    fn from(kv: mvccpb::KeyValue) -> Self {
        KeyValue {
            key: kv.key,
            value: kv.value,
            create_revision: Revision(kv.create_revision),
            mod_revision: Revision(kv.mod_revision),
            version: kv.version,
            lease: LeaseId::from_wire(kv.lease),
        }
    }
}

impl From<&Event> for mvccpb::Event {
    fn from(event: &Event) -> Self {
        let kind = match event.kind {
            EventKind::Put => EventType::Put,
            EventKind::Delete => EventType::Delete,
        };
        mvccpb::Event {
            r#type: kind.into(),
            kv: Some((&*event.kv).into()),
            prev_kv: event.prev.as_deref().map(Into::into),
        }
    }
}

impl From<mvccpb::Event> for Event {
    fn from(event: mvccpb::Event) -> Self {
        let kind = match event.r#type() {
            EventType::Put => EventKind::Put,
            EventType::Delete => EventKind::Delete,
        };
        Event {
            kind,
            kv: Arc::new(event.kv.unwrap_or_default().into()),
            prev: event.prev_kv.map(|kv| Arc::new(kv.into())),
        }
    }
}
