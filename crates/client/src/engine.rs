//! The cluster that elections and locks live on.

use std::sync::Arc;

use crate::backend::{Backend, Candidate, Etcd, Native};
use crate::grpc::{Client, ClientError, Code, Endpoint, Options};
use crate::{ElectionName, ObserveError};

/// A cluster, and the protocol to reach it by. Clones are the same one.
///
/// ```
/// use tenure::Engine;
///
/// let engine = Engine::etcd("10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379")?;
/// assert_eq!(engine.name(), "etcd");
/// # Ok::<(), tenure::grpc::ClientError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Engine(Arc<dyn Backend>);

impl Engine {
    /// A real etcd, or tenure by etcd's API. Nothing is connected yet.
    ///
    /// # Errors
    /// [`ClientError::Endpoint`] for what is no address.
    pub fn etcd(endpoints: &str) -> Result<Engine, ClientError> {
        Ok(Engine::etcd_at(Endpoint::list(endpoints)?, Options::default()))
    }

    /// The same with timeouts, a user, TLS.
    pub fn etcd_at(endpoints: Vec<Endpoint>, options: Options) -> Engine {
        Engine::new(Etcd::new(endpoints, options))
    }

    /// tenure by its own API. Nothing is connected yet.
    ///
    /// # Errors
    /// [`ClientError::Endpoint`] for what is no address.
    pub fn tenure(endpoints: &str) -> Result<Engine, ClientError> {
        Ok(Engine::tenure_at(Endpoint::list(endpoints)?, Options::default()))
    }

    /// The same with timeouts, a user, TLS: as long as [`Options::request_timeout`] a session may take to be opened.
    pub fn tenure_at(endpoints: Vec<Endpoint>, options: Options) -> Engine {
        Engine::new(Native::new(endpoints, options))
    }

    /// Asks the server what it is: tenure's own protocol if the server has it, etcd's otherwise. Needs a tokio runtime.
    ///
    /// # Errors
    /// If no member answers.
    pub async fn detect(endpoints: &str) -> Result<Engine, ClientError> {
        Engine::detect_at(Endpoint::list(endpoints)?, Options::default()).await
    }

    /// The same with timeouts, a user, TLS.
    ///
    /// # Errors
    /// If no member answers.
    pub async fn detect_at(
        endpoints: Vec<Endpoint>,
        options: Options,
    ) -> Result<Engine, ClientError> {
        let client = Client::new(endpoints.clone(), options.clone());
        match client.sessions().list().await {
            Ok(_) => Ok(Engine::tenure_at(endpoints, options)),
            Err(ClientError::Refused { code: Code::Unimplemented | Code::Unknown, .. }) => {
                Ok(Engine::etcd_at(endpoints, options))
            }
            // It knows the request: it is tenure, and this user may do other things there.
            Err(ClientError::Refused { code: Code::PermissionDenied, .. }) => {
                Ok(Engine::tenure_at(endpoints, options))
            }
            Err(error) => Err(error),
        }
    }

    /// Any engine that there is a [`Backend`] for.
    pub fn new(backend: impl Backend) -> Engine {
        Engine(Arc::new(backend))
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// The candidates for a name, in order. Needs no session, but a tokio runtime.
    ///
    /// # Errors
    /// If no member answers.
    pub async fn candidates(
        &self,
        name: impl TryInto<ElectionName, Error: Into<crate::BadName>>,
    ) -> Result<Vec<Candidate>, ObserveError> {
        let name = ElectionName::read(name)?;
        let found = self.0.candidates(name.clone()).await;
        found.map_err(|source| ObserveError::Engine { name, source })
    }

    /// A client of the keys that the engine keeps beside its elections, if it keeps any. It has connections of its own and
    /// needs a tokio runtime.
    pub fn client(&self) -> Option<Client> {
        self.0.client()
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.0
    }
}
