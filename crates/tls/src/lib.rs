//! TLS, for members, clients and proxies alike.
//!
//! Settings name files. [`ServerTls`] and [`ClientTls`] read them, hand out what rustls needs for one connection, and read them
//! again once they have changed: a certificate is renewed by writing the new one over the old one. [`Certificate`] tells what
//! stands in a certificate, and [`issue`] makes new ones.
//!
//! [`secret`] is for members that have no certificates.
//!
//! Nothing here listens, connects or knows a protocol, except for [`ClientTls::connect`], which begins TLS on a connection.

mod certificate;
mod client;
mod error;
pub mod issue;
mod pem;
mod protocol;
mod revoked;
pub mod secret;
mod server;
mod watched;

pub use certificate::{Certificate, Names};
pub use client::{ClientOptions, ClientTls, Verify};
pub use error::{TlsError, reason};
pub use pem::{PairFiles, write_private, write_public};
pub use protocol::{Protocol, ProtocolError};
pub use rustls;
pub use server::{Allowed, Clients, ServerOptions, ServerTls};
pub use tokio_rustls::{Accept, LazyConfigAcceptor, StartHandshake, TlsAcceptor};

/// TLS over a connection, at either end.
pub type TlsStream<S> = tokio_rustls::TlsStream<S>;

#[cfg(test)]
mod tests;
