//! Logging in: a token for a user and its password, sent along with every request.
//!
//! As with etcd's own client the token is asked for before the first request and again when a member does not accept it
//! any more. All requests of a client share one token: those that find it stale together log in once. A cluster without
//! users says so, and is then asked without a token.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_api::Failure;
use tenure_api::wire::etcdserverpb::AuthenticateRequest;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::stubs::AuthClient;

/// How long a login may take where a request may take less: a password is slow to check on purpose.
pub(super) const LOGIN_TIME: Duration = Duration::from_secs(5);

/// A password, or a token that stands for one. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Arc<str>);

impl Password {
    /// As it was given.
    pub fn new(text: impl Into<Arc<str>>) -> Password {
        Password(text.into())
    }

    /// The text, for the one place that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// What a client proves its user by. Clones share the token that was got for it, so that the clients of a process log in
/// once: make one for each cluster.
#[derive(Clone, Debug)]
pub struct Credentials(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The user, for which members give tokens. None for a token that was made elsewhere.
    name: Option<String>,
    /// An empty one is never sent.
    password: Password,
    held: Mutex<Held>,
    /// Held while a token is asked for: the others wait for that one.
    asking: Arc<tokio::sync::Mutex<()>>,
}

impl Credentials {
    /// A user and its password.
    pub fn user(name: impl Into<String>, password: impl Into<Arc<str>>) -> Credentials {
        let password = Password::new(password);
        // Nothing is to be had for an empty one; etcd's client does the same.
        let held = if password.reveal().is_empty() { Held::None } else { Held::Nothing };
        Credentials::new(Some(name.into()), password, held)
    }

    /// A token that was made elsewhere, such as a JWT. It is sent as it is, and not renewed.
    pub fn token(token: impl Into<Arc<str>>) -> Credentials {
        let password = Password::new(token);
        let token = MetadataValue::try_from(password.reveal());
        // No member has given out what cannot be sent: it is refused like one that is not known.
        let mut token = token.unwrap_or_else(|_| MetadataValue::from_static(""));
        token.set_sensitive(true);
        Credentials::new(None, password, Held::Token(token))
    }

    fn new(name: Option<String>, password: Password, held: Held) -> Credentials {
        let asking = Arc::new(tokio::sync::Mutex::new(()));
        Credentials(Arc::new(Shared { name, password, held: Mutex::new(held), asking }))
    }

    /// The user; of a token the client does not know it.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// The password, or the token that was made elsewhere.
    pub fn password(&self) -> &Password {
        &self.0.password
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a client logs in, if it does.
#[derive(Clone, Debug)]
pub(super) struct Login(pub(super) Option<Credentials>);

/// What is known of our token.
#[derive(Clone, Default)]
enum Held {
    /// None was asked for, or the last one is stale.
    #[default]
    Nothing,
    /// The cluster has no users, or we have no credentials for it.
    None,
    Token(MetadataValue<Ascii>),
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Held::Nothing => "Nothing",
            Held::None => "None",
            Held::Token(_) => "Token(..)",
        })
    }
}

/// The token that a request was sent with, to say later that it is stale.
#[derive(Clone, Debug, Default)]
pub(super) struct Stamp(Option<MetadataValue<Ascii>>);

impl Stamp {
    /// That of a request which was stamped.
    pub(super) fn of(metadata: &MetadataMap) -> Stamp {
        Stamp(metadata.get("token").cloned())
    }
}

impl Login {
    /// The user, as far as the client knows it.
    pub(super) fn user(&self) -> Option<&str> {
        self.0.as_ref().and_then(Credentials::name)
    }

    /// Whether a new token can be had for one that is stale.
    pub(super) fn renews(&self) -> bool {
        let usable = |credentials: &&Credentials| !credentials.password().reveal().is_empty();
        self.0.as_ref().filter(usable).and_then(Credentials::name).is_some()
    }

    /// Puts the token on a request, after getting one from the member if there is none yet.
    pub(super) async fn stamp<T>(
        &self,
        channel: &Channel,
        request: &mut Request<T>,
    ) -> Result<Stamp, Status> {
        let Some(credentials) = &self.0 else { return Ok(Stamp::default()) };
        let held = credentials.held().clone();
        let held = match held {
            Held::Nothing => credentials.log_in(channel).await?,
            held => held,
        };
        Ok(Stamp(match held {
            Held::Token(token) => {
                request.metadata_mut().insert("token", token.clone());
                Some(token)
            }
            Held::Nothing | Held::None => None,
        }))
    }

    /// Lets the next request get a new token, unless another has got one since.
    pub(super) fn forget(&self, stamp: &Stamp) {
        let Some(credentials) = self.0.as_ref().filter(|_| self.renews()) else { return };
        let mut held = credentials.held();
        let is_same = match (&*held, &stamp.0) {
            (Held::Token(token), Some(stale)) => token == stale,
            (Held::None, None) => true,
            _ => false,
        };
        if is_same {
            *held = Held::Nothing;
        }
    }
}

impl Credentials {
    async fn log_in(&self, channel: &Channel) -> Result<Held, Status> {
        let asking = Arc::clone(&self.0.asking).lock_owned().await;
        // Another request may have logged in while this one waited.
        let held = self.held().clone();
        if !matches!(held, Held::Nothing) {
            return Ok(held);
        }
        // A task of its own: a caller with little time goes away, and finds the token there when it comes back.
        let (credentials, channel) = (self.clone(), channel.clone());
        let asked = tokio::spawn(async move {
            let asked = tokio::time::timeout(LOGIN_TIME, credentials.authenticate(&channel)).await;
            drop(asking);
            asked.unwrap_or_else(|_| Err(Status::unavailable("no answer to the login in time")))
        });
        asked.await.unwrap_or_else(|_| Err(Status::unavailable("the login was given up")))
    }

    async fn authenticate(&self, channel: &Channel) -> Result<Held, Status> {
        let Some(name) = self.name() else { return Ok(self.held().clone()) };
        let request = AuthenticateRequest {
            name: name.to_owned(),
            password: self.password().reveal().to_owned(),
        };
        let held = match AuthClient::new(channel.clone()).authenticate(request).await {
            Ok(answer) => {
                let mut token = MetadataValue::try_from(answer.into_inner().token)
                    .map_err(|_| Status::internal("the member's token is not text"))?;
                token.set_sensitive(true);
                Held::Token(token)
            }
            Err(status) if status.message() == Failure::AuthNotEnabled.text() => Held::None,
            Err(status) => return Err(status),
        };
        *self.held() = held.clone();
        Ok(held)
    }
}

/// The login that a stream was opened with. Some members judge a stream only by its first message, or again later.
#[derive(Clone, Debug)]
pub(crate) struct StreamLogin {
    login: Login,
    stamp: Stamp,
}

impl StreamLogin {
    /// That of a stream which was opened just now.
    pub(super) fn now(login: &Login) -> StreamLogin {
        let held = login.0.as_ref().map(|credentials| credentials.held().clone());
        let stamp = match held {
            Some(Held::Token(token)) => Stamp(Some(token)),
            _ => Stamp::default(),
        };
        StreamLogin { login: login.clone(), stamp }
    }

    /// A stream ended with this text. If its token was stale, the next stream gets another one, and it is worth opening.
    pub(crate) fn is_renewed_after(&self, text: &str) -> bool {
        let renews = is_stale(text) && self.login.renews();
        if renews {
            self.login.forget(&self.stamp);
        }
        renews
    }
}

/// Whether a member says that the token of a request is not good any more, or that there was none. etcd 3.5.1 has another
/// text for a JWT that is too old.
pub(crate) fn is_stale(text: &str) -> bool {
    const TEXTS: [&str; 4] = [
        "invalid auth token",
        "revision of auth store is old",
        "auth: revision in header is old",
        "user name is empty",
    ];
    TEXTS.iter().any(|end| text.ends_with(end))
}

/// Whether a login may be tried at another member: this one has as many under way as it takes.
pub(super) fn is_busy(status: &Status) -> bool {
    status.code() == Code::ResourceExhausted
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;

    #[test]
    fn password_is_not_in_debug_output() {
        for credentials in [Credentials::user("ann", "s3cret"), Credentials::token("s3cret")] {
            let options = Options { credentials: Some(credentials.clone()), ..Options::default() };
            for shown in [format!("{credentials:?}"), format!("{options:?}")] {
                assert!(!shown.contains("s3cret"), "{shown}");
            }
        }
    }

    #[test]
    fn login_forgets_only_the_token_that_was_stale() {
        let credentials = Credentials::user("ann", "x");
        let login = Login(Some(credentials.clone()));
        let token = |text: &'static str| MetadataValue::from_static(text);
        *credentials.held() = Held::Token(token("new"));
        login.forget(&Stamp(Some(token("old"))));
        assert!(matches!(*credentials.held(), Held::Token(_)), "another request has renewed it");
        login.forget(&Stamp(Some(token("new"))));
        assert!(matches!(*credentials.held(), Held::Nothing));
    }

    #[test]
    fn login_without_a_password_is_none() {
        for credentials in [None, Some(Credentials::user("ann", "")), Some(Credentials::token("t"))]
        {
            assert!(!Login(credentials).renews());
        }
        assert!(matches!(*Credentials::user("ann", "").held(), Held::None));
    }
}
