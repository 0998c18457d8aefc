//! Certificates for members and clients, by an authority of the test's own.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;
use tenure::{
    grpc::Options,
    tls::{
        ClientOptions, PairFiles, Verify,
        issue::{Authority, Wanted},
        write_private, write_public,
    },
};

const DAY: Duration = Duration::from_secs(86400);

/// An authority and what it has signed, in files.
#[derive(Debug)]
pub struct Certs {
    home: TempDir,
}

impl Certs {
    /// A new authority.
    pub fn new() -> Arc<Certs> {
        let home = TempDir::with_prefix("tenure-e2e-certs-").expect("a temporary directory");
        let certs = Certs { home };
        let authority = Authority::new("the test's authority", DAY).expect("random numbers");
        write_public(&certs.path("ca.crt"), &authority.pem().cert).expect("a file");
        write_private(&certs.path("ca.key"), &authority.pem().key).expect("a file");
        Arc::new(certs)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Where all of it is.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The authority's certificate.
    pub fn ca(&self) -> PathBuf {
        self.path("ca.crt")
    }

    /// The pair with this common name, which is made anew for these hosts and all of loopback that tests listen on.
    pub fn issue(&self, name: &str, hosts: &[String]) -> PairFiles {
        let authority = Authority::load(&self.ca(), &self.path("ca.key")).expect("it is there");
        let wanted = Wanted {
            common_name: name.to_owned(),
            hosts: [&["127.0.0.1".to_owned(), "localhost".to_owned()], hosts].concat(),
            for_servers: true,
            for_clients: true,
            valid: DAY,
            ..Wanted::default()
        };
        let issued = authority.issue(&wanted).expect("names");
        let pair = PairFiles {
            cert: self.path(&format!("{name}.crt")),
            key: self.path(&format!("{name}.key")),
        };
        write_private(&pair.key, &issued.key).expect("a file");
        write_public(&pair.cert, &issued.cert).expect("a file");
        pair
    }

    /// The pair with this common name, which is made if it is not there.
    pub fn pair(&self, name: &str, hosts: &[String]) -> PairFiles {
        let (cert, key) = (self.path(&format!("{name}.crt")), self.path(&format!("{name}.key")));
        if cert.exists() { PairFiles { cert, key } } else { self.issue(name, hosts) }
    }

    /// Flags of a client with a certificate: those of etcdctl, and ours.
    pub fn client_flags(&self) -> Vec<String> {
        let PairFiles { cert, key } = self.pair("client", &[]);
        flags(&[("cacert", &self.ca()), ("cert", &cert), ("key", &key)])
    }

    /// Flags of a server that demands certificates of its clients.
    pub fn server_flags(&self, name: &str, hosts: &[String]) -> Vec<String> {
        let PairFiles { cert, key } = self.pair(name, hosts);
        let ca = self.ca();
        let mut all = flags(&[("cert-file", &cert), ("key-file", &key), ("trusted-ca-file", &ca)]);
        all.push("--client-cert-auth".to_owned());
        all
    }

    /// Flags of a member that speaks TLS with others, and demands certificates of them.
    pub fn peer_flags(&self, name: &str, hosts: &[String]) -> Vec<String> {
        let PairFiles { cert, key } = self.pair(name, hosts);
        let files = [
            ("peer-cert-file", &*cert),
            ("peer-key-file", &key),
            ("peer-trusted-ca-file", &self.ca()),
        ];
        let mut all = flags(&files);
        all.push("--peer-client-cert-auth".to_owned());
        all
    }

    /// Options of a client with a certificate.
    pub fn options(&self) -> Options {
        let tls = ClientOptions {
            verify: Verify::By(self.ca()),
            pair: Some(self.pair("client", &[])),
            ..ClientOptions::default()
        };
        Options::default().with_tls(tls).expect("the files fit")
    }
}

fn flags(named: &[(&str, &Path)]) -> Vec<String> {
    named
        .iter()
        .flat_map(|(name, path)| [format!("--{name}"), path.display().to_string()])
        .collect()
}
