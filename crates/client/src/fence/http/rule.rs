//! Where a request carries its token, and whether it needs one.

use http::{HeaderMap, HeaderName, Method};

use super::TurnedAway;
use crate::fence::FencingToken;

/// Where a request carries its token, and whether it needs one.
///
/// ```
/// use http::{HeaderMap, Method};
/// use tenure::fence::http::{TokenRule, TurnedAway};
///
/// let rule = TokenRule::default();
/// let mut headers = HeaderMap::new();
/// assert!(matches!(rule.token(&Method::GET, &headers), Ok(None)));
/// assert!(matches!(rule.token(&Method::PUT, &headers), Err(TurnedAway::NoToken)));
/// headers.insert("Fencing-Token", "33".parse().unwrap());
/// assert_eq!(rule.token(&Method::PUT, &headers).unwrap().map(|token| token.get()), Some(33));
/// ```
#[derive(Clone, Debug)]
pub struct TokenRule {
    /// The header that carries the token.
    pub header: HeaderName,
    /// Whether what only reads needs a token, too.
    pub reads_need_token: bool,
}

impl Default for TokenRule {
    fn default() -> TokenRule {
        TokenRule { header: HeaderName::from_static("fencing-token"), reads_need_token: false }
    }
}

impl TokenRule {
    /// The token of a request; none if it may come without.
    ///
    /// # Errors
    /// If there is none where one is needed, more than one, or something that is no token.
    pub fn token(
        &self,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<Option<FencingToken>, TurnedAway> {
        let mut values = headers.get_all(&self.header).iter();
        let Some(value) = values.next() else {
            // RFC 9110, 9.2.1. A service that writes on GET is beyond help.
            let may_come = method.is_safe() && !self.reads_need_token;
            return if may_come { Ok(None) } else { Err(TurnedAway::NoToken) };
        };
        if values.next().is_some() {
            return Err(TurnedAway::NotAToken("it was given more than once".to_owned()));
        }
        // What is not even text becomes empty, which is no token either.
        let text = value.to_str().unwrap_or_default();
        match text.parse() {
            Ok(token) => Ok(Some(token)),
            Err(error) => {
                let error: crate::fence::NotAToken = error;
                Err(TurnedAway::NotAToken(error.to_string()))
            }
        }
    }
}
