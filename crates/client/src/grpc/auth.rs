//! Authentication: a token for a name and a password, sent along with every request.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tenure_api::wire::etcdserverpb::AuthenticateRequest;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Status};

use super::stubs::AuthClient;

/// A name and a password.
#[derive(Clone)]
pub struct Credentials {
    /// The user.
    pub name: String,
    /// Its password.
    pub password: String,
}

/// Passwords stay out of logs.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The token in use, shared by the clones of a client.
#[derive(Clone, Debug)]
pub(super) struct Token {
    credentials: Option<Arc<Credentials>>,
    token: Arc<Mutex<Option<MetadataValue<Ascii>>>>,
}

impl Token {
    pub(super) fn new(credentials: Option<Credentials>) -> Token {
        Token { credentials: credentials.map(Arc::new), token: Arc::default() }
    }

    /// Puts the token on a request, after getting one from the member if there is none yet.
    pub(super) async fn stamp<T>(
        &self,
        channel: &Channel,
        mut request: Request<T>,
    ) -> Result<Request<T>, Status> {
        let Some(credentials) = &self.credentials else {
            return Ok(request);
        };
        let held = self.held();
        let token = match held {
            Some(token) => token,
            None => {
                let request = AuthenticateRequest {
                    name: credentials.name.clone(),
                    password: credentials.password.clone(),
                };
                let answer = AuthClient::new(channel.clone()).authenticate(request).await?;
                let token = MetadataValue::try_from(answer.into_inner().token)
                    .map_err(|_| Status::internal("the member's token is not text"))?;
                *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
                token
            }
        };
        request.metadata_mut().insert("token", token);
        Ok(request)
    }

    /// Lets the next request get a new one.
    pub(super) fn forget(&self) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn held(&self) -> Option<MetadataValue<Ascii>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
