use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

use super::{
    issue::{Authority, Issued, Wanted, self_signed},
    *,
};

const DAY: Duration = Duration::from_secs(86400);

fn wanted(name: &str, hosts: &[&str]) -> Wanted {
    Wanted {
        common_name: name.to_owned(),
        organization: String::new(),
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        for_servers: true,
        for_clients: true,
        valid: DAY,
    }
}

/// A directory with an authority and pairs.
struct Files {
    dir: TempDir,
    authority: Authority,
}

impl Files {
    fn new() -> Files {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new(&dir.path().display().to_string(), DAY).unwrap();
        let files = Files { dir, authority };
        write_public(&files.path("ca.crt"), &files.authority.pem().cert).unwrap();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, pair: &Issued) -> PairFiles {
        let files = PairFiles {
            cert: self.path(&format!("{name}.crt")),
            key: self.path(&format!("{name}.key")),
        };
        write_private(&files.key, &pair.key).unwrap();
        write_public(&files.cert, &pair.cert).unwrap();
        files
    }

    fn pair(&self, name: &str, hosts: &[&str]) -> PairFiles {
        self.write(name, &self.authority.issue(&wanted(name, hosts)).unwrap())
    }

    fn server(&self, pair: PairFiles) -> ServerOptions {
        ServerOptions {
            pair,
            clients: Clients::Asked { authorities: Some(self.path("ca.crt")) },
            revoked: None,
            allowed: Allowed::Any,
            protocol: Protocol::default(),
            alpn: vec![],
        }
    }

    fn client(&self, pair: Option<PairFiles>) -> ClientOptions {
        ClientOptions { verify: Verify::By(self.path("ca.crt")), pair, ..ClientOptions::default() }
    }
}

/// The names that the server sees, or why one of the two refused the other.
async fn meet(server: &ServerTls, client: ClientOptions, host: &str) -> Result<Names, String> {
    let (here, there) = tokio::io::duplex(1 << 16);
    let acceptor = TlsAcceptor::from(server.config());
    let client = ClientTls::new(client).map_err(|error| error.to_string())?;
    let (accepted, connected) =
        tokio::join!(acceptor.accept(here), client.connect(host, there, &[]));
    let accepted = accepted.map_err(|error| reason(&error));
    connected.map_err(|error| format!("{error}; {:?}", accepted.as_ref().err()))?;
    let accepted = accepted?;
    let chain = accepted.get_ref().1.peer_certificates().unwrap_or_default();
    Ok(chain.first().map(|leaf| Certificate::read(leaf).unwrap().names).unwrap_or_default())
}

#[tokio::test]
async fn handshake_tells_the_server_the_names_of_the_client() {
    let files = Files::new();
    let server = ServerTls::new(files.server(files.pair("a", &["127.0.0.1", "::1"]))).unwrap();
    let client = files.pair("ann", &["ann.example", "10.0.0.1"]);
    for host in ["127.0.0.1", "[::1]"] {
        let seen = meet(&server, files.client(Some(client.clone())), host).await.unwrap();
        assert_eq!(
            (&seen.common_name[..], &seen.dns[..]),
            ("ann", &["ann.example".to_owned()][..])
        );
        assert_eq!(seen.ips, ["10.0.0.1".parse::<std::net::IpAddr>().unwrap()]);
    }
    let elsewhere = meet(&server, files.client(Some(client)), "127.0.0.2").await.unwrap_err();
    assert!(elsewhere.contains("not valid for name"), "{elsewhere}");
}

#[tokio::test]
async fn handshake_fails_without_a_certificate_that_counts() {
    let files = Files::new();
    let server = ServerTls::new(files.server(files.pair("a", &["h"]))).unwrap();
    let refused = meet(&server, files.client(None), "h").await.unwrap_err();
    assert!(refused.contains("no certificates"), "{refused}");
    let other = Files::new();
    let foreign = files.write("foreign", &other.authority.issue(&wanted("ann", &[])).unwrap());
    let refused = meet(&server, files.client(Some(foreign)), "h").await.unwrap_err();
    assert!(refused.contains("UnknownIssuer"), "{refused}");
    let servers_only = Wanted { for_clients: false, ..wanted("ann", &[]) };
    let servers_only = files.write("server", &files.authority.issue(&servers_only).unwrap());
    let refused = meet(&server, files.client(Some(servers_only)), "h").await.unwrap_err();
    assert!(refused.contains("extended key usage"), "{refused}");
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let cert = params.signed_by(&key, files.authority.issuer()).unwrap();
    let (cert, key) = (pem::block("CERTIFICATE", cert.der()), key.serialized_der().to_vec());
    let expired = files.write("expired", &Issued { cert, key: pem::block("PRIVATE KEY", &key) });
    let refused = meet(&server, files.client(Some(expired)), "h").await.unwrap_err();
    assert!(refused.contains("expired"), "{refused}");
}

#[tokio::test]
async fn allowed_names_must_match_the_certificate() {
    let files = Files::new();
    let pair = files.pair("a", &["h"]);
    let client = files.pair("ann", &["ann.example", "10.0.0.1"]);
    let of = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    for (allowed, lets_in) in [
        (Allowed::CommonNames(of(&["bob", "ann"])), true),
        (Allowed::CommonNames(of(&["an", "ann.example"])), false),
        (Allowed::Hosts(of(&["ann.example"])), true),
        (Allowed::Hosts(of(&["10.0.0.1"])), true),
        (Allowed::Hosts(of(&["ann", "x.ann.example", "10.0.0.2"])), false),
    ] {
        let options = ServerOptions { allowed: allowed.clone(), ..files.server(pair.clone()) };
        let server = ServerTls::new(options).unwrap();
        let met = meet(&server, files.client(Some(client.clone())), "h").await;
        assert_eq!(met.is_ok(), lets_in, "{allowed:?}: {met:?}");
        if let Err(refused) = met {
            assert!(refused.contains("client certificate authentication failed"), "{refused}");
        }
    }
}

#[tokio::test]
async fn files_are_read_again_when_they_changed_and_fit() {
    let files = Files::new();
    let pair = files.pair("a", &["before"]);
    let server = ServerTls::new(files.server(pair.clone())).unwrap();
    let ann = files.pair("ann", &[]);
    let meets = async |host: &str| meet(&server, files.client(Some(ann.clone())), host).await;
    meets("before").await.unwrap();
    // The new certificate alone does not fit the old key.
    let next = files.authority.issue(&wanted("a", &["after"])).unwrap();
    write_public(&pair.cert, &next.cert).unwrap();
    meets("before").await.unwrap();
    write_private(&pair.key, &next.key).unwrap();
    meets("after").await.unwrap();
    assert!(meets("before").await.is_err());
    // The authority of the clients is another one now.
    let other = Files::new();
    write_public(&files.path("ca.crt"), &other.authority.pem().cert).unwrap();
    let refused = meets("after").await.unwrap_err();
    assert!(refused.contains("UnknownIssuer"), "{refused}");
}

#[tokio::test]
async fn revoked_certificates_are_refused_as_soon_as_they_are_listed() {
    use rcgen::{CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber};
    let files = Files::new();
    let list = |serials: &[&str]| {
        let now = rcgen::date_time_ymd(2020, 1, 1);
        let revoked = |serial: &&str| RevokedCertParams {
            serial_number: SerialNumber::from_slice(&bytes(serial)),
            revocation_time: now,
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: now,
            next_update: rcgen::date_time_ymd(2020, 2, 1),
            crl_number: SerialNumber::from_slice(&[1]),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(files.authority.issuer()).unwrap().der().to_vec()
    };
    let (ann, bob) = (files.pair("ann", &[]), files.pair("bob", &[]));
    let serial = |pair: &PairFiles| Certificate::load(&pair.cert).unwrap().serial;
    let crl = files.path("crl.der");
    std::fs::write(&crl, list(&[&serial(&bob)])).unwrap();
    let pair = files.pair("a", &["h"]);
    let options = ServerOptions { revoked: Some(crl.clone()), ..files.server(pair) };
    let server = ServerTls::new(options).unwrap();
    let meets = async |pair: &PairFiles| meet(&server, files.client(Some(pair.clone())), "h").await;
    meets(&ann).await.unwrap();
    let refused = meets(&bob).await.unwrap_err();
    let why = format!("certificate serial {} revoked", serial(&bob));
    assert!(refused.contains(&why), "{refused}");
    let both = list(&[&serial(&ann), &serial(&bob)]);
    write_public(&crl, &pem::block("X509 CRL", &both)).unwrap();
    assert!(meets(&ann).await.is_err());
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits: Vec<char> = hexadecimal.chars().collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn files_that_do_not_fit_are_named() {
    let files = Files::new();
    let (a, b) = (files.pair("a", &["h"]), files.pair("b", &["h"]));
    let mixed = PairFiles { cert: a.cert.clone(), key: b.key.clone() };
    let refusal = |pair: PairFiles| ServerTls::new(files.server(pair)).unwrap_err().to_string();
    let said = refusal(mixed);
    assert!(said.starts_with("tls: private key does not match public key: "), "{said}");
    let swapped = PairFiles { cert: a.key.clone(), key: a.cert.clone() };
    assert!(refusal(swapped).contains("a.key: there is no certificate"), "{}", a.cert.display());
    let missing = PairFiles { cert: files.path("none"), key: a.key.clone() };
    assert!(refusal(missing).contains("none: No such file"));
}

#[test]
fn keys_can_be_read_by_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let files = Files::new();
    let pair = files.pair("a", &[]);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&pair.key), 0o600);
}

#[tokio::test]
async fn self_signed_certificate_can_be_its_own_authority() {
    let files = Files::new();
    let alone = self_signed(&Wanted { for_clients: false, ..wanted("", &["localhost"]) }).unwrap();
    let pair = files.write("alone", &alone);
    let options = ServerOptions { clients: Clients::NotAsked, ..files.server(pair.clone()) };
    let server = ServerTls::new(options).unwrap();
    let knows = ClientOptions { verify: Verify::By(pair.cert), ..ClientOptions::default() };
    meet(&server, knows, "localhost").await.unwrap();
    let trusts_all = ClientOptions { verify: Verify::Nothing, ..ClientOptions::default() };
    meet(&server, trusts_all, "elsewhere").await.unwrap();
    assert!(meet(&server, files.client(None), "localhost").await.is_err());
}

#[test]
fn certificate_says_until_when_it_counts_and_who_signed_it() {
    let files = Files::new();
    let other = Files::new();
    let pair = files.pair("a", &["*.a.example", "10.0.0.1"]);
    let found = Certificate::load(&pair.cert).unwrap();
    let load = |files: &Files| Certificate::load(&files.path("ca.crt")).unwrap();
    assert!(load(&files).is_authority && load(&files).has_signed(&found));
    assert!(!load(&other).has_signed(&found));
    let left = found.left(SystemTime::now()).unwrap();
    assert!(left <= DAY && left > DAY - Duration::from_secs(60), "{left:?}");
    assert!(found.fits_host("x.a.example") && found.fits_host("10.0.0.1"));
    assert!(!found.fits_host("a.example") && !found.fits_host("10.0.0.2"));
    for host in ["x.a.example", "X.A.EXAMPLE", "10.0.0.1", "a.example", "x.y.a.example", "10.0.0.2"]
    {
        assert_eq!(found.names.cover(host), found.fits_host(host), "{host}");
    }
    // Renewed for the same key, by an authority that was read from its files.
    let key = files.path("ca.key");
    write_private(&key, &files.authority.pem().key).unwrap();
    let authority = Authority::load(&files.path("ca.crt"), &key).unwrap();
    let again = authority.issue_again(&wanted("a", &["h"]), &pair.key).unwrap();
    write_public(&pair.cert, &again.cert).unwrap();
    assert!(ServerTls::new(files.server(pair.clone())).is_ok());
    assert!(load(&files).has_signed(&Certificate::load(&pair.cert).unwrap()));
}
