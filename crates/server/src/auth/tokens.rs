//! Simple tokens: random letters, a dot, and the log index of the login.
//!
//! The member that checked the password draws the letters and logs their checksum; every member that applies the entry
//! remembers it, so the token is good at all of them. Only the client ever has the letters. A member forgets its tokens when
//! it stops or takes over a snapshot; a token that was not used for its time to live is forgotten, too.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};
use tenure_replica::{LogIndex, auth::AuthEvent};

const LETTERS: &[u8; 52] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Letters of a token.
const LENGTH: usize = 16;

type Checksum = [u8; 32];

/// The tokens that a member knows, and what it knows of users without asking the core loop.
#[derive(Clone, Debug)]
pub(crate) struct SimpleTokens(Arc<Shared>);

struct Shared {
    ttl: Duration,
    tokens: Mutex<HashMap<(LogIndex, Checksum), Token>>,
    is_enabled: AtomicBool,
    revision: AtomicU64,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SimpleTokens")
    }
}

struct Token {
    user: Arc<str>,
    since: u64,
    used: Instant,
}

/// What is known of a token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The user's, and the revision of its password.
    Known(Arc<str>, u64),
    /// It belongs to an entry of the log.
    At(LogIndex),
    /// It is no token.
    Malformed,
}

impl SimpleTokens {
    pub(crate) fn new(ttl: Duration, (is_enabled, revision): (bool, u64)) -> SimpleTokens {
        SimpleTokens(Arc::new(Shared {
            ttl,
            tokens: Mutex::default(),
            is_enabled: AtomicBool::new(is_enabled),
            revision: AtomicU64::new(revision),
        }))
    }

    /// Takes in what was applied. Must come before the answers to what brought it about.
    pub(crate) fn follow(
        &self,
        events: Vec<AuthEvent>,
        (is_enabled, revision): (bool, u64),
        now: Instant,
    ) {
        self.0.is_enabled.store(is_enabled, Relaxed);
        self.0.revision.store(revision, Relaxed);
        let mut tokens = self.tokens();
        for event in events {
            match event {
                AuthEvent::LoggedIn { user, token, index, since } => {
                    if let Ok(checksum) = Checksum::try_from(token.expose()) {
                        tokens.insert((index, checksum), Token { user, since, used: now });
                    }
                }
                AuthEvent::TokensEnded(user) => tokens.retain(|_, token| token.user != user),
                AuthEvent::AllTokensEnded => tokens.clear(),
                AuthEvent::Changed => {}
            }
        }
    }

    /// Whether requests are judged, as of the last entry that this member has applied.
    pub(crate) fn is_enabled(&self) -> bool {
        self.0.is_enabled.load(Relaxed)
    }

    /// How many changes of users and roles this member has applied.
    pub(crate) fn revision(&self) -> u64 {
        self.0.revision.load(Relaxed)
    }

    /// The user that a token stands for. That is a use of it.
    pub(crate) fn look_up(&self, token: &str, now: Instant) -> Lookup {
        let parts = token.split_once('.').filter(|(letters, _)| letters.len() == LENGTH);
        let Some((letters, index)) = parts else { return Lookup::Malformed };
        let Ok(index) = index.parse() else { return Lookup::Malformed };
        let mut tokens = self.tokens();
        match tokens.get_mut(&(index, checksum(letters))) {
            Some(token) if now.saturating_duration_since(token.used) <= self.0.ttl => {
                token.used = now;
                Lookup::Known(token.user.clone(), token.since)
            }
            _ => Lookup::At(index),
        }
    }

    /// Forgets what was not used for too long.
    pub(crate) fn sweep(&self, now: Instant) {
        let ttl = self.0.ttl;
        self.tokens().retain(|_, token| now.saturating_duration_since(token.used) <= ttl);
    }

    fn tokens(&self) -> MutexGuard<'_, HashMap<(LogIndex, Checksum), Token>> {
        self.0.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Draws the letters of a token.
pub(crate) fn draw() -> Option<String> {
    let random = SystemRandom::new();
    let mut letters = String::with_capacity(LENGTH);
    let mut bytes = [0; 2 * LENGTH];
    while letters.len() < LENGTH {
        random.fill(&mut bytes).ok()?;
        // Bytes above the largest multiple of 52 would make some letters likelier.
        let even =
            bytes.iter().filter(|byte| **byte < 208).map(|byte| LETTERS[*byte as usize % 52]);
        letters.extend(even.take(LENGTH - letters.len()).map(char::from));
    }
    Some(letters)
}

pub(crate) fn checksum(letters: &str) -> Checksum {
    Sha256::digest(letters).into()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const TTL: Duration = Duration::from_secs(300);
    const ON: (bool, u64) = (true, 5);

    fn logged_in(user: &str, letters: &str, index: LogIndex) -> AuthEvent {
        let token = Bytes::copy_from_slice(&checksum(letters)).into();
        AuthEvent::LoggedIn { user: user.into(), token, index, since: 3 }
    }

    #[test]
    fn token_lives_as_long_as_it_is_used() {
        let tokens = SimpleTokens::new(TTL, ON);
        let now = Instant::now();
        let letters = draw().unwrap();
        tokens.follow(vec![logged_in("ada", &letters, 73)], ON, now);
        let token = format!("{letters}.73");
        for half in 1..5 {
            let known = Lookup::Known("ada".into(), 3);
            assert_eq!(tokens.look_up(&token, now + half * TTL / 2), known);
        }
        let late = now + 2 * TTL + TTL + Duration::from_secs(1);
        assert_eq!(tokens.look_up(&token, late), Lookup::At(73));
        tokens.sweep(late);
        assert!(tokens.tokens().is_empty());
    }

    #[test]
    fn token_with_another_index_or_letters_is_unknown() {
        let tokens = SimpleTokens::new(TTL, ON);
        let now = Instant::now();
        let (one, other) = (draw().unwrap(), draw().unwrap());
        assert_ne!(one, other);
        tokens.follow(vec![logged_in("ada", &one, 73), logged_in("bob", &other, 73)], ON, now);
        assert_eq!(tokens.look_up(&format!("{one}.74"), now), Lookup::At(74));
        assert_eq!(tokens.look_up(&format!("{other}.73"), now), Lookup::Known("bob".into(), 3));
        for malformed in ["", "abc", "abc.73", &one, &format!("{one}.x"), &format!("{one}.")] {
            assert_eq!(tokens.look_up(malformed, now), Lookup::Malformed, "{malformed}");
        }
    }

    #[test]
    fn token_ends_with_its_user() {
        let tokens = SimpleTokens::new(TTL, ON);
        let now = Instant::now();
        let (one, other) = (draw().unwrap(), draw().unwrap());
        tokens.follow(vec![logged_in("ada", &one, 73), logged_in("bob", &other, 74)], ON, now);
        tokens.follow(vec![AuthEvent::TokensEnded("ada".into())], ON, now);
        assert_eq!(tokens.look_up(&format!("{one}.73"), now), Lookup::At(73));
        assert_eq!(tokens.look_up(&format!("{other}.74"), now), Lookup::Known("bob".into(), 3));
        tokens.follow(vec![AuthEvent::AllTokensEnded], (false, 6), now);
        assert_eq!(tokens.look_up(&format!("{other}.74"), now), Lookup::At(74));
        assert_eq!((tokens.is_enabled(), tokens.revision()), (false, 6));
    }
}
