//! From JSON to a message.
//!
//! What etcd takes is taken: names as in `proto/` or in camel case, numbers as numbers or as strings,
//! choices by name or number, `null` for what is not given, unknown fields. Base64 may also
//! be the one for URLs, and without padding. Anything else is refused with the name of the field and
//! the position in the text, and without repeating the value, which may be large.
//!
//! The reader of `prost-reflect` would do, but for one thing: it can ignore unknown fields only
//! together with unknown choices, and `"target":"VERZION"` must not silently mean `VERSION`.

use std::{borrow::Cow, fmt};

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, Value};
use serde::de::{
    DeserializeSeed, Deserializer, Error, Expected, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use tonic::Status;

/// Reads one message. Nothing at all is an empty message, as in etcd.
///
/// How deep objects may lie in each other is limited by `serde_json`.
pub(super) fn message(kind: &MessageDescriptor, json: &[u8]) -> Result<DynamicMessage, Status> {
    if json.iter().all(u8::is_ascii_whitespace) {
        return Ok(DynamicMessage::new(kind.clone()));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let read = Given(OfMessage(kind)).deserialize(&mut deserializer);
    read.and_then(|message| deserializer.end().map(|()| message))
        .map(|message| message.unwrap_or_else(|| DynamicMessage::new(kind.clone())))
        .map_err(|cause| {
            let what = if cause.is_data() { "invalid request" } else { "not JSON" };
            Status::invalid_argument(format!("{what}: {cause}"))
        })
}

/// What may be `null`.
struct Given<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Given<S> {
    type Value = Option<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_option(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Given<S> {
    type Value = Option<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or null")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        self.0.deserialize(from).map(Some)
    }
}

struct OfMessage<'a>(&'a MessageDescriptor);

impl<'de> DeserializeSeed<'de> for OfMessage<'_> {
    type Value = DynamicMessage;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<DynamicMessage, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OfMessage<'_> {
    type Value = DynamicMessage;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DynamicMessage, A::Error> {
        let mut message = DynamicMessage::new(self.0.clone());
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            let known = self.0.get_field_by_name(&name);
            let Some(field) = known.or_else(|| self.0.get_field_by_json_name(&name)) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if let Some(value) = map.next_value_seed(Given(OfField(&field)))? {
                alone_in_its_choice(&message, &field)?;
                message.set_field(&field, value);
            }
        }
        Ok(message)
    }
}

/// Of fields that exclude each other only one may be given.
fn alone_in_its_choice<E: Error>(
    message: &DynamicMessage,
    field: &FieldDescriptor,
) -> Result<(), E> {
    let Some(choice) = field.containing_oneof() else { return Ok(()) };
    match choice.fields().find(|other| other != field && message.has_field(other)) {
        None => Ok(()),
        Some(other) => {
            Err(E::custom(format!("both {} and {} are given", other.name(), field.name())))
        }
    }
}

struct OfField<'a>(&'a FieldDescriptor);

impl<'de> DeserializeSeed<'de> for OfField<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        let kind = self.0.kind();
        let read = if self.0.is_list() {
            from.deserialize_seq(Elements(&kind)).map(Value::List)
        } else {
            OfKind(&kind).deserialize(from)
        };
        // The messages around it need not be named: the position is.
        let named = |cause| D::Error::custom(format_args!("{}: {cause}", self.0.name()));
        if matches!(kind, Kind::Message(_)) { read } else { read.map_err(named) }
    }
}

struct Elements<'a>(&'a Kind);

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = Vec<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Value>, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element_seed(OfKind(self.0))? {
            elements.push(element);
        }
        Ok(elements)
    }
}

struct OfKind<'a>(&'a Kind);

impl<'de> DeserializeSeed<'de> for OfKind<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        match self.0 {
            Kind::Message(kind) => OfMessage(kind).deserialize(from).map(Value::Message),
            _ => from.deserialize_any(self),
        }
    }
}

impl Visitor<'_> for OfKind<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Bool => f.write_str("true or false"),
            Kind::String => f.write_str("a string"),
            Kind::Bytes => f.write_str("a string in base64"),
            Kind::Int32 | Kind::Int64 => f.write_str("a whole number"),
            Kind::Uint32 | Kind::Uint64 => f.write_str("a whole number that is not negative"),
            Kind::Enum(choice) => {
                let names: Vec<_> = choice.values().map(|value| value.name().to_owned()).collect();
                write!(f, "one of {}", names.join(", "))
            }
            other => write!(f, "{other:?}, which tenure does not use"),
        }
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        match self.0 {
            Kind::Bool => Ok(Value::Bool(value)),
            _ => Err(self.wrong()),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.whole(value.into()).ok_or_else(|| self.wrong())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.whole(value.into()).ok_or_else(|| self.wrong())
    }

    /// `1.0` and `1e3` are whole numbers too.
    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let whole = (value.fract() == 0.0).then_some(value as i128);
        whole.and_then(|whole| self.whole(whole)).ok_or_else(|| self.wrong())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        let read = match self.0 {
            Kind::String => Some(Value::String(text.to_owned())),
            Kind::Bytes => from_base64(text).map(|bytes| Value::Bytes(bytes.into())),
            Kind::Enum(choice) => {
                choice.get_value_by_name(text).map(|value| Value::EnumNumber(value.number()))
            }
            _ => text.parse().ok().and_then(|number| self.whole(number)),
        };
        read.ok_or_else(|| self.wrong())
    }
}

impl OfKind<'_> {
    fn wrong<E: Error>(&self) -> E {
        let expected: &dyn Expected = self;
        E::custom(format_args!("expected {expected}"))
    }

    fn whole(&self, number: i128) -> Option<Value> {
        match self.0 {
            Kind::Int32 => number.try_into().ok().map(Value::I32),
            Kind::Int64 => number.try_into().ok().map(Value::I64),
            Kind::Uint32 => number.try_into().ok().map(Value::U32),
            Kind::Uint64 => number.try_into().ok().map(Value::U64),
            Kind::Enum(_) => number.try_into().ok().map(Value::EnumNumber),
            _ => None,
        }
    }
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
    const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);
    STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text)).ok()
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use prost_reflect::DescriptorPool;
    use tenure_api::wire::{DESCRIPTORS, etcdserverpb as pb};

    use super::*;

    fn read<T: Message + Default>(name: &str, json: &str) -> Result<T, String> {
        let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
        let kind = pool.get_message_by_name(&format!("etcdserverpb.{name}")).unwrap();
        let message = message(&kind, json.as_bytes()).map_err(|status| {
            assert_eq!(status.code(), tonic::Code::InvalidArgument);
            status.message().to_owned()
        })?;
        Ok(T::decode(&message.encode_to_vec()[..]).unwrap())
    }

    fn range(json: &str) -> Result<pb::RangeRequest, String> {
        read("RangeRequest", json)
    }

    #[test]
    fn names_numbers_and_choices_come_in_two_forms() {
        let wanted = pb::RangeRequest {
            key: "foo".into(),
            range_end: "fop".into(),
            limit: 5,
            sort_order: 2,
            serializable: true,
            ..Default::default()
        };
        for json in [
            r#"{"key":"Zm9v","range_end":"Zm9w","limit":5,"sort_order":"DESCEND","serializable":true}"#,
            r#"{"key":"Zm9v","rangeEnd":"Zm9w","limit":"5","sortOrder":2,"serializable":true}"#,
            r#" {"key":"Zm9v","rangeEnd":"Zm9w","limit":5.0,"sortOrder":2,"serializable":true,
                "later":{"x":[1]},"revision":null} "#,
        ] {
            assert_eq!(range(json).as_ref(), Ok(&wanted), "{json}");
        }
    }

    #[test]
    fn nothing_is_an_empty_message() {
        for json in ["", " \n", "{}", "null"] {
            assert_eq!(range(json), Ok(pb::RangeRequest::default()), "{json:?}");
        }
    }

    #[test]
    fn base64_comes_in_two_alphabets_with_or_without_padding() {
        for (json, key) in [("+/8=", &b"\xfb\xff"[..]), ("-_8=", b"\xfb\xff"), ("Zg", b"f")] {
            assert_eq!(range(&format!(r#"{{"key":"{json}"}}"#)).unwrap().key, key);
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (json, error) in [
            ("nonsense", "not JSON: expected ident at line 1 column 2"),
            (
                "[]",
                "invalid request: invalid type: sequence, expected an object at line 1 column 0",
            ),
            (r#"{"key":"#, "invalid request: key: EOF while parsing a value at line 1 column 7"),
            ("{} {}", "not JSON: trailing characters at line 1 column 4"),
            (
                r#"{"key":7}"#,
                "invalid request: key: expected a string in base64 at line 1 column 8",
            ),
            (
                r#"{"key":"!!"}"#,
                "invalid request: key: expected a string in base64 at line 1 column 11",
            ),
            (
                r#"{"limit":"x"}"#,
                "invalid request: limit: expected a whole number at line 1 column 12",
            ),
            (
                r#"{"limit":99999999999999999999}"#,
                "invalid request: limit: expected a whole number at line 1 column 29",
            ),
            (
                r#"{"sort_order":"UPWARDS"}"#,
                "invalid request: sort_order: expected one of NONE, ASCEND, DESCEND at line 1 column 23",
            ),
            (
                r#"{"serializable":"true"}"#,
                "invalid request: serializable: expected true or false at line 1 column 22",
            ),
        ] {
            assert_eq!(range(json).unwrap_err(), error, "{json}");
        }
        let both = r#"{"create_request":{},"cancel_request":{}}"#;
        assert_eq!(
            read::<pb::WatchRequest>("WatchRequest", both).unwrap_err(),
            "invalid request: both create_request and cancel_request are given at line 1 column 41"
        );
    }

    #[test]
    fn what_lies_too_deep_is_refused() {
        let nested = |depth| {
            let open = r#"{"success":[{"request_txn":"#.repeat(depth);
            format!("{open}{{}}{}", "}]}".repeat(depth))
        };
        assert!(read::<pb::TxnRequest>("TxnRequest", &nested(40)).is_ok());
        for json in [nested(50), nested(100_000), "[".repeat(1_000_000), r#"{"a":"#.repeat(100_000)]
        {
            let error = read::<pb::TxnRequest>("TxnRequest", &json).unwrap_err();
            assert!(error.len() < 200, "{error}");
        }
    }
}
