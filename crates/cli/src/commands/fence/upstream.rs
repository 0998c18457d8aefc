//! The address of the upstream.

use std::str::FromStr;

use http::uri::{PathAndQuery, Scheme};
use http::{HeaderValue, Uri};

/// The service behind the proxy.
#[derive(Clone, Debug)]
pub(super) struct Upstream {
    secure: bool,
    host: String,
    port: u16,
    /// As in the header `Host`.
    pub(super) authority: HeaderValue,
    /// A path that is put before the path of each request: empty, or without a slash at its end.
    base: String,
}

impl Upstream {
    /// Whether it is spoken to by TLS.
    pub(super) fn is_secure(&self) -> bool {
        self.secure
    }

    /// Host and port.
    pub(super) fn address(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    /// The target of a request for the upstream: path and query, behind the base path.
    pub(super) fn target(&self, asked: &Uri) -> Option<Uri> {
        let path = asked.path_and_query().map_or("/", PathAndQuery::as_str);
        if self.base.is_empty() || path == "*" {
            return path.parse().ok();
        }
        format!("{}{path}", self.base).parse().ok()
    }

    /// Whether a target needs no rewriting.
    pub(super) fn takes_unchanged(&self, asked: &Uri) -> bool {
        self.base.is_empty() && asked.authority().is_none()
    }
}

impl std::fmt::Display for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority.to_str().unwrap_or_default(), self.base)
    }
}

impl FromStr for Upstream {
    type Err = String;

    fn from_str(text: &str) -> Result<Upstream, String> {
        const FORM: &str = "write it as http(s)://HOST:PORT or http(s)://HOST:PORT/PATH";
        let uri: Uri = text.parse().map_err(|error| format!("{error}; {FORM}"))?;
        let secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(FORM.to_owned()),
        };
        let authority = uri.authority().ok_or(FORM)?;
        // An authority has brackets around an IPv6 address; connecting takes it without.
        let host = authority.host().trim_matches(['[', ']']);
        if authority.as_str().contains('@') || uri.query().is_some() || host.is_empty() {
            return Err(FORM.to_owned());
        }
        Ok(Upstream {
            secure,
            host: host.to_owned(),
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            authority: HeaderValue::from_str(authority.as_str()).map_err(|_| FORM)?,
            base: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_path_is_put_before_every_path() {
        let target = |upstream: &str, asked: &str| {
            let upstream: Upstream = upstream.parse().unwrap();
            upstream.target(&asked.parse().unwrap()).unwrap().to_string()
        };
        assert_eq!(target("http://h:1", "/a?b=c"), "/a?b=c");
        assert_eq!(target("http://h:1/", "/a"), "/a");
        assert_eq!(target("http://h:1/base/", "/a?b"), "/base/a?b");
        assert_eq!(target("http://h:1/base", "http://other:2/a"), "/base/a");
        assert_eq!(target("http://h:1/base", "*"), "*");
    }

    #[test]
    fn address_needs_a_scheme_and_a_host() {
        let upstream: Upstream = "http://[::1]:81".parse().unwrap();
        assert_eq!(upstream.address(), ("::1", 81));
        assert_eq!(upstream.authority, "[::1]:81");
        let upstream: Upstream = "http://h".parse().unwrap();
        assert_eq!(upstream.address(), ("h", 80));
        let upstream: Upstream = "https://h/base".parse().unwrap();
        assert_eq!((upstream.address(), upstream.is_secure()), (("h", 443), true));
        assert_eq!(upstream.to_string(), "https://h/base");
        for bad in ["h:1", "http://a@h:1", "http://h:1/?q", "http://[]:1", "ftp://h", "/x", ""] {
            assert!(bad.parse::<Upstream>().is_err(), "{bad:?}");
        }
    }
}
