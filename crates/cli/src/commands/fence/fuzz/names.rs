//! Paths and addresses, damaged at random.

use http::{HeaderMap, Uri};
use proptest::prelude::*;
use tenure_damage::{damaged_text, frugally, hold};

use super::super::{resource::ResourceNaming, upstream::Upstream};

#[test]
fn damaged_path_names_no_more_than_its_first_segments() {
    hold(
        1500,
        (damaged_text(Just("/shop/or%64ers/7%2f?a=b".to_owned())), 1..4usize),
        |(path, segments)| {
            let Ok(uri) = path.parse::<Uri>() else { return Ok(()) };
            let naming = ResourceNaming::Path(segments);
            let named = frugally(path.len(), || naming.name(&uri, &HeaderMap::new()));
            let Ok(resource) = named else { return Ok(()) };
            let parts: Vec<&str> = resource.split('/').filter(|part| !part.is_empty()).collect();
            prop_assert!(parts.len() <= segments);
            prop_assert!(!parts.contains(&"..") && !parts.contains(&"."));
            Ok(())
        },
    );
}

#[test]
fn damaged_upstream_address_is_refused_or_usable() {
    hold(1000, damaged_text(Just("http://[::1]:81/base/é".to_owned())), |text| {
        let Ok(upstream) = frugally(text.len(), || text.parse::<Upstream>()) else { return Ok(()) };
        prop_assert!(!upstream.address().0.is_empty());
        let _ = upstream.target(&Uri::from_static("/a?b"));
        Ok(())
    });
}
