//! Where a member listens for clients, as people write it.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::Authority;

use super::ClientError;

/// The port that is meant when none is written.
const PORT_DEFAULT: u16 = 2379;

/// The address of one member: `127.0.0.1:2379`, `http://node-1:2379`, `[::1]:2379`, `node-1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// As it was written, which is how it is shown.
    written: String,
    uri: Uri,
}

impl Endpoint {
    /// Reads a list separated by commas. It must not be empty.
    ///
    /// # Errors
    /// [`ClientError::Endpoint`] names the first part that is not an address.
    pub fn list(list: &str) -> Result<Vec<Endpoint>, ClientError> {
        let endpoints: Vec<Endpoint> = list
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        if endpoints.is_empty() {
            return Err(ClientError::Endpoint {
                written: list.to_owned(),
                rule: "at least one address is needed",
            });
        }
        Ok(endpoints)
    }

    /// The address as a URI with scheme and port.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }
}

impl FromStr for Endpoint {
    type Err = ClientError;

    fn from_str(written: &str) -> Result<Self, ClientError> {
        let refused = |rule| ClientError::Endpoint { written: written.to_owned(), rule };
        let rest = match written.split_once("://") {
            None => written,
            Some(("http", rest)) => rest,
            Some(("https", _)) => return Err(refused("TLS arrives in a later version")),
            Some(_) => return Err(refused("the scheme must be http")),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let authority: Authority =
            rest.parse().map_err(|_| refused("an address is host:port or http://host:port"))?;
        let port = match authority.port_u16() {
            Some(port) => port,
            // `host:` and `host:99999` are authorities too, only without a port that could be used.
            None if authority.as_str() != authority.host() => {
                return Err(refused("the port must be a number up to 65535"));
            }
            None => PORT_DEFAULT,
        };
        let uri = format!("http://{}:{port}", authority.host())
            .parse()
            .map_err(|_| refused("an address is host:port or http://host:port"))?;
        Ok(Endpoint { written: written.to_owned(), uri })
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
            ("https://a:1", "TLS arrives in a later version"),
            ("a b", "an address is host:port"),
            ("a:1/path", "an address is host:port"),
        ] {
            let error = Endpoint::list(list).unwrap_err().to_string();
            assert!(error.contains(rule), "{list:?}: {error}");
        }
    }
}
