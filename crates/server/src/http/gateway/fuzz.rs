//! JSON as any client may send it.

use proptest::{collection::vec, prelude::*, sample::Index};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use tenure_api::wire::DESCRIPTORS;
use tenure_damage::{damaged, damaged_text, frugally, hold};

use super::{bindings::BINDINGS, headers, objects::Cutter, read, write};

/// Objects with every kind of field; most methods know some of them.
const SOUND: [&str; 7] = [
    r#"{"key":"Zm9v","range_end":"Zm9w","limit":"5","sort_order":"DESCEND","revision":1e3,"serializable":true}"#,
    r#"{"key":"Zm9v","value":"YmFy","lease":"7587","prev_kv":true,"ignore_value":false,"later":{"x":[1,null]}}"#,
    r#"{"compare":[{"target":"MOD","result":2,"key":"Zm9v","mod_revision":"0"}],"success":[{"request_put":
        {"key":"Zm9v","value":"AA=="}}],"failure":[{"request_txn":{"success":[{"requestRange":{"key":"Zg"}}]}}]}"#,
    r#"{"create_request":{"key":"Zm9v","filters":["NOPUT",1,0],"start_revision":"9","watch_id":-1}}"#,
    r#"{"ID":"7","TTL":60,"keys":true,"peerURLs":["http://a:1","b\u00e9\ud83d\ude00"],"isLearner":true}"#,
    r#"{"name":"Zm9v","lease":1,"leader":{"name":"Zg==","key":"Zg==","rev":"1","lease":"2"},"value":"AA"}"#,
    r#"{"action":"ACTIVATE","memberID":"18446744073709551615","alarm":"NOSPACE","physical":null,
        "perm":{"permType":"WRITE","key":"","range_end":""},"options":{"no_password":true}}"#,
];

fn json() -> impl Strategy<Value = String> {
    prop::sample::select(&SOUND[..]).prop_map(str::to_owned)
}

fn inputs() -> Vec<MessageDescriptor> {
    let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
    let input = |name: &str| {
        let (service, method) = name.rsplit_once('.')?;
        let service = pool.get_service_by_name(service)?;
        service.methods().find(|known| known.name() == method).map(|method| method.input())
    };
    BINDINGS.iter().map(|(_, name)| input(name).unwrap()).collect()
}

/// Read, written and read again it is the same. As protobuf, that is, which is how it goes on.
fn judge(kind: &MessageDescriptor, json: &[u8]) -> Result<bool, TestCaseError> {
    let Ok(message) = frugally(json.len(), || read::message(kind, json)) else { return Ok(false) };
    let written = write::object(&message);
    prop_assert!(written.is_ok(), "{:?}", written.err());
    let again = read::message(kind, &written.unwrap());
    prop_assert!(again.is_ok(), "{:?}", again.err());
    let (again, message) = (again.unwrap().encode_to_vec(), message.encode_to_vec());
    prop_assert_eq!(&again, &message);
    // What is nested deeper than protobuf is read is refused by the service, as from any client.
    if let Ok(protobuf) = DynamicMessage::decode(kind.clone(), &message[..]) {
        prop_assert_eq!(protobuf.encode_to_vec(), message);
    }
    Ok(true)
}

#[test]
fn every_method_reads_what_is_sound() {
    let kinds = inputs();
    for json in SOUND {
        let read = kinds.iter().filter(|kind| judge(kind, json.as_bytes()).unwrap()).count();
        assert!(read > 0, "nobody reads {json}");
    }
}

#[test]
fn requests_that_are_wrong() {
    let kinds = inputs();
    hold(1000, (any::<Index>(), damaged_text(json())), |(kind, json)| {
        judge(kind.get(&kinds), json.as_bytes()).map(drop)
    });
}

#[test]
fn requests_that_are_no_text() {
    let kinds = inputs();
    let json = damaged(json().prop_map(String::into_bytes));
    hold(500, (any::<Index>(), json), |(kind, json)| judge(kind.get(&kinds), &json).map(drop));
}

/// However deep, in what is known and in what is not.
#[test]
fn requests_in_requests_in_requests() {
    let kinds = inputs();
    let txn = kinds.iter().find(|kind| kind.name() == "TxnRequest").unwrap();
    for (open, close) in [
        (r#"{"success":[{"request_txn":"#, "}]}"),
        (r#"{"nobody knows":["#, "]}"),
        ("[", "]"),
        ("{\"success\":[{},", "]}"),
    ] {
        for depth in [1, 30, 50, 100, 127, 128, 129, 1000, 50_000] {
            let json = [open.repeat(depth), "{}".to_owned(), close.repeat(depth)].concat();
            judge(txn, json.as_bytes()).unwrap();
            judge(txn, open.repeat(depth).as_bytes()).unwrap();
        }
    }
}

#[test]
fn streams_of_objects() {
    let stream = vec(json(), 1..4).prop_map(|objects| objects.join("\n").into_bytes());
    hold(500, (damaged(stream), 1..200usize, 1..2000usize), |(bytes, piece, max)| {
        frugally(bytes.len(), || {
            let mut cutter = Cutter::new(max);
            for piece in bytes.chunks(piece) {
                cutter.add(piece);
                loop {
                    match cutter.cut() {
                        Ok(Some(object)) => prop_assert!(object.len() <= max),
                        Ok(None) => break,
                        Err(_) => return Ok(()),
                    }
                }
            }
            Ok(())
        })
    });
}

#[test]
fn timeouts() {
    let text = prop_oneof![Just("500m"), Just("99999999H"), Just("1n"), Just("7S")];
    hold(500, damaged_text(text.prop_map(str::to_owned)), |text| {
        let _ = headers::parse(&text);
        Ok(())
    });
}
