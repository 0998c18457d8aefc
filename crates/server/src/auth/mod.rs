//! Who a client is: passwords, tokens, and the names in certificates.
//!
//! What users may do is replicated state, and judged there. This room finds out which user is behind a request
//! ([`Identities`]), checks passwords beside the core loop ([`Passwords`]), and keeps what was given to those that logged in:
//! simple tokens, which every member remembers ([`SimpleTokens`]), or signed claims ([`Jwt`]). None of it is written to a
//! disk, and passwords and tokens show in no log line.

mod identity;
mod jwt;
mod passwords;
#[cfg(test)]
mod permissions;
mod recovery;
mod tokens;

use std::{sync::Arc, time::Duration};

pub(crate) use self::{
    identity::{FromGateway, Identities, Identity},
    jwt::Jwt,
    passwords::{BCRYPT_COST, Passwords},
    tokens::{SimpleTokens, checksum as token_checksum, draw as token_letters},
};

pub(crate) use self::recovery::recover;
pub use self::{
    jwt::TokenSettingError,
    recovery::{RecoveryError, prepare_recovery},
};

/// How long a simple token lives that is not used, unless the settings say otherwise.
pub(crate) const TOKEN_TTL: Duration = Duration::from_secs(300);

/// What those that log in are given: `--auth-token`.
#[derive(Clone, Debug)]
pub(crate) enum TokenKind {
    /// Random letters that all members remember.
    Simple,
    /// Signed claims.
    Jwt(Arc<Jwt>),
    /// Nothing: only certificates count.
    Nothing,
}

impl TokenKind {
    /// Reads the setting, and the files that it names.
    pub(crate) fn read(setting: &str) -> Result<TokenKind, TokenSettingError> {
        match setting.split_once(',').unwrap_or((setting, "")) {
            ("", "") => Ok(TokenKind::Nothing),
            ("simple", "") => Ok(TokenKind::Simple),
            ("jwt", options) => Ok(TokenKind::Jwt(Arc::new(Jwt::read(options)?))),
            _ => Err(TokenSettingError::Options),
        }
    }
}
