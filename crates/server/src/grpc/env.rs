//! Chance and pauses for the tasks that serve a stream: the machine's, or a simulator's.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use sha2::{Digest, Sha256};
use tenure_replica::election::SecretDigest;

use super::lease::random;

type Numbers = Arc<dyn Fn() -> u64 + Send + Sync>;
type Secrets = Arc<dyn Fn() -> SessionSecret + Send + Sync>;
type Pauses = Arc<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>;

/// What proves that a client speaks for a session. Told to its client, once, and kept nowhere else.
pub(super) type SessionSecret = [u8; 32];

/// What is logged of a secret.
pub(super) fn digest_of(secret: &[u8]) -> SecretDigest {
    SecretDigest(Sha256::digest(secret).into())
}

/// Where chance and pauses come from.
#[derive(Clone)]
pub struct Env {
    numbers: Numbers,
    secrets: Secrets,
    pauses: Pauses,
}

impl Env {
    /// From these.
    pub fn new(
        numbers: impl Fn() -> u64 + Send + Sync + 'static,
        pauses: impl Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Env {
        let numbers: Numbers = Arc::new(numbers);
        let drawn = Arc::clone(&numbers);
        let secret = move || {
            let mut secret = SessionSecret::default();
            secret.chunks_mut(8).for_each(|part| part.copy_from_slice(&drawn().to_le_bytes()));
            secret
        };
        Env { numbers, secrets: Arc::new(secret), pauses: Arc::new(pauses) }
    }

    /// A number that is not drawn a second time.
    pub(super) fn number(&self) -> u64 {
        (self.numbers)()
    }

    /// A secret that cannot be guessed.
    pub(super) fn secret(&self) -> SessionSecret {
        (self.secrets)()
    }

    pub(super) fn pause(&self, time: Duration) -> BoxFuture<'static, ()> {
        (self.pauses)(time)
    }
}

/// The machine's.
impl Default for Env {
    fn default() -> Env {
        let env = Env::new(random, |time| Box::pin(async move { tokio::time::sleep(time).await }));
        let secret = || tenure_tls::secret::nonce().expect("the system has random numbers");
        Env { secrets: Arc::new(secret), ..env }
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Means")
    }
}
