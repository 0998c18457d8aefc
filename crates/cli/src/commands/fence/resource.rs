//! Which resource a request is about.
//!
//! With two names for one resource there would be two sequences of tokens, and an old holder could be
//! admitted under the name that the new one did not use. So a path that an upstream might read in another
//! way (dot segments, empty segments, encoded slashes) is refused.

use http::{HeaderMap, HeaderName, Uri};
use tenure::fence::http::TurnedAway;

/// Which resources there are. A name that is none of them is refused before it takes a place in the gate.
#[derive(Clone, Debug, Default)]
pub(super) struct Resources {
    pub(super) names: Vec<String>,
    pub(super) prefixes: Vec<String>,
}

impl Resources {
    fn admit(&self, name: &str) -> bool {
        let is_any = self.names.is_empty() && self.prefixes.is_empty();
        is_any
            || self.names.iter().any(|known| known == name)
            || self.prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()))
    }
}

/// How the resource of a request is found.
#[derive(Clone, Debug)]
pub(super) struct ResourceRule {
    pub(super) naming: ResourceNaming,
    pub(super) known: Resources,
}

impl ResourceRule {
    /// The name of the resource that a request is about.
    pub(super) fn name(&self, uri: &Uri, headers: &HeaderMap) -> Result<String, TurnedAway> {
        let name = self.naming.name(uri, headers)?;
        match self.known.admit(&name) {
            true => Ok(name),
            false => Err(no_resource("there is no such resource here".to_owned())),
        }
    }
}

/// What names the resource of a request.
#[derive(Clone, Debug)]
pub(super) enum ResourceNaming {
    /// Nothing: the upstream is one resource.
    Single,
    /// A header.
    Header(HeaderName),
    /// The first so many segments of the path.
    Path(usize),
}

impl ResourceNaming {
    pub(super) fn name(&self, uri: &Uri, headers: &HeaderMap) -> Result<String, TurnedAway> {
        match self {
            ResourceNaming::Single => Ok(String::new()),
            ResourceNaming::Header(name) => by_header(name, headers),
            ResourceNaming::Path(segments) => by_path(uri.path(), *segments),
        }
    }
}

fn by_header(name: &HeaderName, headers: &HeaderMap) -> Result<String, TurnedAway> {
    let mut values = headers.get_all(name).iter();
    match (values.next().map(|value| value.to_str()), values.next()) {
        (Some(Ok(resource)), None) if !resource.is_empty() => Ok(resource.to_owned()),
        _ => Err(no_resource(format!("the header {name} must name the resource, once"))),
    }
}

fn by_path(path: &str, segments: usize) -> Result<String, TurnedAway> {
    let mut names = Vec::with_capacity(segments);
    let inner = path.strip_prefix('/').unwrap_or(path);
    // A trailing slash is common for folders, and names nothing.
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    if inner.is_empty() {
        return Ok(String::new());
    }
    for segment in inner.split('/') {
        let name = decoded(segment)?;
        // Some upstreams ignore what follows a semicolon or a zero byte.
        let ambiguous = |c: char| matches!(c, '/' | '\\' | ';') || c.is_control();
        if name.is_empty() || name == "." || name == ".." || name.contains(ambiguous) {
            return Err(no_resource(format!(
                "the path {path:?} can be read in two ways: leave out empty and dot segments, and \
                 slashes, semicolons and control characters inside a segment"
            )));
        }
        if names.len() < segments {
            names.push(name);
        }
    }
    Ok(names.join("/"))
}

/// One segment, percent-decoded.
fn decoded(segment: &str) -> Result<String, TurnedAway> {
    if !segment.contains('%') {
        return Ok(segment.to_owned());
    }
    let refused = || no_resource(format!("{segment:?} is not a well-formed part of a path"));
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>().ok_or_else(refused)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (Some(high), Some(low)) = (digit(digits[0]), digit(digits[1])) else {
            return Err(refused());
        };
        bytes.push((high * 16 + low) as u8);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| refused())
}

fn no_resource(why: String) -> TurnedAway {
    TurnedAway::NoResource(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str, segments: usize) -> Option<String> {
        by_path(path, segments).ok()
    }

    #[test]
    fn path_names_the_resource_by_its_first_segments() {
        assert_eq!(named("/shards/7/rows/1", 2).as_deref(), Some("shards/7"));
        assert_eq!(named("/shards/7/", 2).as_deref(), Some("shards/7"));
        assert_eq!(named("/shards", 2).as_deref(), Some("shards"));
        assert_eq!(named("/", 2).as_deref(), Some(""));
        assert_eq!(named("*", 1).as_deref(), Some("*"));
    }

    #[test]
    fn resource_that_is_not_on_the_list_is_refused() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let rule = |names: &[&str], prefixes: &[&str]| ResourceRule {
            naming: ResourceNaming::Path(2),
            known: Resources { names: texts(names), prefixes: texts(prefixes) },
        };
        let admits = |rule: &ResourceRule, path: &'static str| {
            rule.name(&Uri::from_static(path), &HeaderMap::new()).is_ok()
        };
        let listed = rule(&["orders/1"], &["shards/"]);
        assert!(admits(&listed, "/orders/1/rows/7") && admits(&listed, "/shards/9"));
        assert!(
            !admits(&listed, "/orders/2") && !admits(&listed, "/other") && !admits(&listed, "/")
        );
        assert!(admits(&rule(&[], &[]), "/other"), "without a list, any");
    }

    #[test]
    fn path_with_two_readings_is_refused() {
        assert_eq!(named("/%61/b", 1), named("/a/b", 1));
        assert_eq!(named("/m%C3%BC", 1).as_deref(), Some("mü"));
        for ambiguous in [
            "//a/b",
            "/a//b",
            "/./a",
            "/a/../b",
            "/a/b/../../c",
            "/%2e%2e/b",
            "/a/%2E",
            "/a%2fb",
            "/a/b/%2f",
            "/a%5Cb",
            "/a\\b",
            "/%",
            "/%4",
            "/%zz",
            "/%ff",
            "/a//",
            "/a;v=1/b",
            "/a%3bv=1/b",
            "/a/b;c",
            "/a%00/b",
            "/a%0A",
            "/a%7F",
            "/a%C2%85",
        ] {
            assert_eq!(named(ambiguous, 1), None, "{ambiguous}");
        }
    }

    #[test]
    fn header_must_name_the_resource_once() {
        let name = HeaderName::from_static("x-shard");
        let mut headers = HeaderMap::new();
        assert!(by_header(&name, &headers).is_err());
        headers.append(&name, "7".parse().unwrap());
        assert_eq!(by_header(&name, &headers).unwrap(), "7");
        headers.append(&name, "8".parse().unwrap());
        assert!(by_header(&name, &headers).is_err());
    }
}
