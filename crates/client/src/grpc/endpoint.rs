//! Where a member listens for clients, as people write it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use http::Uri;
use http::uri::Authority;

use super::ClientError;

/// The port that is meant when none is written.
const PORT_DEFAULT: u16 = 2379;
/// The most addresses of a list.
const ENDPOINTS_MAX: usize = 1000;
/// How much of a list that is refused is repeated.
const WRITTEN_MAX: usize = 200;

/// The address of one member: `127.0.0.1:2379`, `https://node-1:2379`, `[::1]:2379`, `node-1`, `unix:///run/tenure.sock`.
///
/// `https://` is spoken by TLS, `http://` in the clear; without a scheme it is TLS where the client has settings for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// As it was written, which is how it is shown.
    written: String,
    uri: Uri,
    place: Place,
    /// None where the scheme does not say.
    secure: Option<bool>,
}

/// Where to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// To the host and port of the URI.
    Tcp,
    /// To this socket.
    Unix(PathBuf),
}

impl Endpoint {
    /// Reads a list separated by commas. It must not be empty.
    ///
    /// # Errors
    /// [`ClientError::Endpoint`] names the first part that is not an address.
    pub fn list(list: &str) -> Result<Vec<Endpoint>, ClientError> {
        let refuse = |rule| ClientError::Endpoint {
            written: list.chars().take(WRITTEN_MAX).collect(),
            rule,
        };
        if list.split(',').count() > ENDPOINTS_MAX {
            return Err(refuse("at most 1000 addresses make a list"));
        }
        let endpoints: Vec<Endpoint> = list
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        if endpoints.is_empty() {
            return Err(refuse("at least one address is needed"));
        }
        Ok(endpoints)
    }

    /// The address as a URI with scheme and port. A unix socket has the host `localhost`.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Whether it is spoken to by TLS, for a client that has settings for it or none.
    pub fn is_secure(&self, settings: bool) -> bool {
        self.secure.unwrap_or(settings)
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }
}

impl FromStr for Endpoint {
    type Err = ClientError;

    fn from_str(written: &str) -> Result<Self, ClientError> {
        let refused = |rule| ClientError::Endpoint { written: written.to_owned(), rule };
        let (secure, rest) = match written.split_once("://") {
            None => (None, written),
            Some(("http", rest)) => (Some(false), rest),
            Some(("https", rest)) => (Some(true), rest),
            Some((scheme @ ("unix" | "unixs"), path)) => {
                if path.is_empty() {
                    return Err(refused("a unix socket is unix://PATH"));
                }
                return Ok(Endpoint {
                    written: written.to_owned(),
                    uri: Uri::from_static("http://localhost"),
                    place: Place::Unix(path.into()),
                    secure: Some(scheme == "unixs"),
                });
            }
            Some(_) => return Err(refused("the scheme must be http, https, unix or unixs")),
        };
        const RULE: &str = "an address is host:port or http(s)://host:port";
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let authority: Authority = rest.parse().map_err(|_| refused(RULE))?;
        let port = match authority.port_u16() {
            Some(port) => port,
            // `host:` and `host:99999` are authorities too, only without a port that could be used.
            None if authority.as_str() != authority.host() => {
                return Err(refused("the port must be a number up to 65535"));
            }
            None => PORT_DEFAULT,
        };
        let scheme = if secure == Some(true) { "https" } else { "http" };
        let uri = format!("{scheme}://{}:{port}", authority.host());
        let uri = uri.parse().map_err(|_| refused(RULE))?;
        Ok(Endpoint { written: written.to_owned(), uri, place: Place::Tcp, secure })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(written: &str) -> String {
        written.parse::<Endpoint>().unwrap().uri().to_string()
    }

    #[test]
    fn endpoint_is_read_as_people_write_it() {
        assert_eq!(uri("127.0.0.1:2379"), "http://127.0.0.1:2379/");
        assert_eq!(uri("http://node-1:99/"), "http://node-1:99/");
        assert_eq!(uri("[::1]:2379"), "http://[::1]:2379/");
        assert_eq!(uri("node-1"), "http://node-1:2379/");
        assert_eq!(uri("https://node-1"), "https://node-1:2379/");
    }

    #[test]
    fn endpoint_scheme_decides_about_tls_and_settings_where_there_is_none() {
        let secure = |written: &str| {
            let endpoint: Endpoint = written.parse().unwrap();
            (endpoint.is_secure(false), endpoint.is_secure(true))
        };
        assert_eq!(secure("a:1"), (false, true));
        assert_eq!(secure("http://a:1"), (false, false));
        assert_eq!(secure("https://a:1"), (true, true));
        assert_eq!(secure("unix:///run/a"), (false, false));
        assert_eq!(secure("unixs:///run/a"), (true, true));
        let socket: Endpoint = "unix:///run/a".parse().unwrap();
        assert_eq!(socket.place(), &Place::Unix("/run/a".into()));
    }

    #[test]
    fn endpoint_list_keeps_its_order_and_its_spelling() {
        let list = Endpoint::list("a:1, http://b:2,").unwrap();
        assert_eq!(list.iter().map(Endpoint::to_string).collect::<Vec<_>>(), ["a:1", "http://b:2"]);
    }

    #[test]
    fn endpoint_that_is_no_address_is_named() {
        for (list, rule) in [
            ("", "at least one address"),
            ("a:1,b:x", "the port must be a number"),
            ("a:99999", "the port must be a number"),
            ("ftp://a:1", "the scheme must be http"),
            ("unix://", "a unix socket is unix://PATH"),
            ("a b", "an address is host:port"),
            ("a:1/path", "an address is host:port"),
        ] {
            let error = Endpoint::list(list).unwrap_err().to_string();
            assert!(error.contains(rule), "{list:?}: {error}");
        }
    }
}
