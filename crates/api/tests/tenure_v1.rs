//! The wire of `tenure.v1`, held against a file: services, messages, numbers and types of fields, values of enums.
//!
//! A client of an older release sends and reads these numbers. A line of the file may be added; one that is there may not change
//! once a release has been made.
#![cfg(feature = "wire")]
#![allow(clippy::unwrap_used)]

use std::fmt::Write;

use prost_reflect::DescriptorPool;
use tenure_api::wire::DESCRIPTORS;

const PACKAGE: &str = "tenure.v1";

#[test]
fn tenure_v1_is_what_the_golden_file_says() {
    let golden = include_str!("golden/tenure_v1.txt");
    let described = described();
    let missing: Vec<&str> = golden.lines().filter(|line| !described.contains(line)).collect();
    assert!(missing.is_empty(), "clients of older releases need these lines: {missing:#?}");
    assert_eq!(golden, described, "the wire has grown: write this into tests/golden/tenure_v1.txt");
}

/// A line for each thing that is on the wire, in order of names and numbers.
fn described() -> String {
    let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
    let mut out = String::new();
    let mut services: Vec<_> = pool.services().filter(|s| s.package_name() == PACKAGE).collect();
    services.sort_by_key(|service| service.name().to_owned());
    for service in services {
        for method in service.methods() {
            let stream = |streams| if streams { "stream " } else { "" };
            let (takes, gives) = (method.input(), method.output());
            let (service, method_name) = (service.name(), method.name());
            let (asks, answers) =
                (stream(method.is_client_streaming()), stream(method.is_server_streaming()));
            writeln!(
                out,
                "rpc {service}.{method_name}({asks}{}) returns ({answers}{})",
                takes.name(),
                gives.name()
            )
            .unwrap();
        }
    }
    let messages = pool.all_messages();
    let mut messages: Vec<_> =
        messages.filter(|m| m.package_name() == PACKAGE && !m.is_map_entry()).collect();
    messages.sort_by_key(|message| message.name().to_owned());
    for message in messages {
        writeln!(out, "message {}", message.name()).unwrap();
        for field in message.fields() {
            let oneof = field
                .containing_oneof()
                .filter(|_| !field.field_descriptor_proto().proto3_optional());
            let oneof =
                oneof.map(|oneof| format!(" in oneof {}", oneof.name())).unwrap_or_default();
            let kind = format!("{:?} {:?}", field.cardinality(), field.kind());
            writeln!(
                out,
                "field {} {} {} {kind}{oneof}",
                message.name(),
                field.number(),
                field.name()
            )
            .unwrap();
        }
    }
    let mut enums: Vec<_> = pool.all_enums().filter(|e| e.package_name() == PACKAGE).collect();
    enums.sort_by_key(|kind| kind.name().to_owned());
    for kind in enums {
        for value in kind.values() {
            writeln!(out, "enum {} {} {}", kind.name(), value.number(), value.name()).unwrap();
        }
    }
    out
}
