//! Who a client is: passwords, tokens, and the names in certificates.
//!
//! What users may do is replicated state, and judged there. This room finds out which user is behind a request
//! ([`Identities`]), checks passwords beside the core loop ([`Passwords`]), and keeps what was given to those that logged in:
//! simple tokens, which every member remembers ([`SimpleTokens`]), or signed claims ([`Jwt`]). None of it is written to a
//! disk, and passwords and tokens show in no log line.

mod identity;
mod passwords;
mod tokens;

use std::time::Duration;

pub(crate) use self::{
    identity::{FromGateway, Identities, Identity},
    passwords::{BCRYPT_COST, Passwords},
    tokens::{SimpleTokens, checksum as token_checksum, draw as token_letters},
};

/// How long a simple token lives that is not used, unless the settings say otherwise.
pub(crate) const TOKEN_TTL: Duration = Duration::from_secs(300);

/// A setting of `--auth-token` that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenSettingError {
    /// As etcd says it.
    #[error("auth: invalid auth options")]
    Options,
}

/// What those that log in are given: `--auth-token`.
#[derive(Clone, Debug)]
pub(crate) enum TokenKind {
    /// Random letters that all members remember.
    Simple,
    /// Nothing: only certificates count.
    Nothing,
}

impl TokenKind {
    /// Reads the setting, and the files that it names.
    pub(crate) fn read(setting: &str) -> Result<TokenKind, TokenSettingError> {
        match setting.split_once(',').unwrap_or((setting, "")) {
            ("", "") => Ok(TokenKind::Nothing),
            ("simple", "") => Ok(TokenKind::Simple),
            _ => Err(TokenSettingError::Options),
        }
    }
}
