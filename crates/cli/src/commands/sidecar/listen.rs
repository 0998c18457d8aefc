//! `--listen`: an address, or `:4040` for all addresses of this machine.

use std::io;

use tokio::net::TcpListener;

use crate::exit::usage;

/// Every address, of both families if this machine has both, in the order in which they are tried.
const ALL: [&str; 2] = ["[::]", "0.0.0.0"];

/// Where to listen: one or several ways to say it, of which the first that works is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listen(Vec<String>);

/// Reads it. Names are not looked up here.
pub(super) fn parse(text: &str) -> Result<Listen, String> {
    let no_address =
        || format!("{text:?} is no address: say host:port, or :port for all addresses");
    let (host, port) = text.rsplit_once(':').ok_or_else(no_address)?;
    let port: u16 = port.parse().map_err(|_| no_address())?;
    let bare_v6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    if bare_v6 || host.contains(|c: char| c == '/' || c.is_whitespace()) {
        return Err(no_address());
    }
    let hosts = if host.is_empty() { &ALL[..] } else { &[host][..] };
    Ok(Listen(hosts.iter().map(|host| format!("{host}:{port}")).collect()))
}

impl Listen {
    /// Listens.
    pub(super) async fn open(&self) -> anyhow::Result<TcpListener> {
        let mut last = None;
        for address in &self.0 {
            match tenure_server::listen(address, "listen").await {
                Ok(listener) => return Ok(listener),
                // The port is in use: another address family is no way around it.
                Err(error) if error.cause.kind() == io::ErrorKind::AddrInUse => {
                    return Err(error.into());
                }
                Err(error) => last = Some(error),
            }
        }
        let error = last.expect("there is at least one way to say it");
        Err(match error.cause.raw_os_error() {
            Some(_) => error.into(),
            // The system was never asked: the name leads nowhere. Its text says that already.
            None => usage(error.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_address_is_a_host_and_a_port() {
        for text in ["127.0.0.1:4040", "localhost:0", "[::1]:4040"] {
            assert_eq!(parse(text), Ok(Listen(vec![text.to_owned()])));
        }
        let all = ["[::]:4040", "0.0.0.0:4040"].map(str::to_owned);
        assert_eq!(parse(":4040"), Ok(Listen(all.to_vec())));
    }

    #[test]
    fn listen_address_that_is_none_is_said_once() {
        for text in ["", "4040", "localhost", "a:b", "::1", "a:70000", "http://a:4040", "a b:1"] {
            let said = parse(text).unwrap_err();
            assert!(said.contains("is no address"), "{said}");
        }
    }

    #[test]
    fn listen_address_that_is_damaged_is_refused_or_read() {
        let sound = proptest::strategy::Just("[::1]:4040".to_owned());
        tenure_damage::hold(500, tenure_damage::damaged_text(sound), |text| {
            let _ = parse(&text);
            Ok(())
        });
    }
}
