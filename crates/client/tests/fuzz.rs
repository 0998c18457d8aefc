//! Addresses and names as people may write them. What is damaged in files stands beside their readers.

use proptest::prelude::*;
use tenure::{ElectionName, grpc::Endpoint};
use tenure_damage::{damaged_text, frugally, hold};

#[test]
fn addresses() {
    let list = "http://node-1:2379/, [::1]:2379,127.0.0.1:1,host,user@h:1";
    hold(2000, damaged_text(Just(list.to_owned())), |list| {
        let Ok(endpoints) = frugally(list.len(), || Endpoint::list(&list)) else { return Ok(()) };
        for endpoint in endpoints {
            // What goes out is an address again, and the same.
            let again: Result<Endpoint, _> = endpoint.uri().to_string().parse();
            prop_assert!(again.is_ok(), "{}: {:?}", endpoint, again.err());
            let again = again.unwrap();
            prop_assert_eq!(again.uri(), endpoint.uri());
        }
        Ok(())
    });
}

#[test]
fn names() {
    hold(1000, damaged_text(Just("backup/nightly/é".to_owned())), |text| {
        let Ok(name) = frugally(text.len(), || text.parse::<ElectionName>()) else { return Ok(()) };
        prop_assert_eq!(name.as_str(), &text);
        Ok(())
    });
}
