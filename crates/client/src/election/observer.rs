//! Observing an election.

use std::sync::Arc;
use std::time::Duration;

use tenure_api::Revision;
use tokio::sync::mpsc;

use crate::backend::Sight;
use crate::chance::Backoff;
use crate::host::{Host, Machine};
use crate::{BadName, ElectionName, Engine, EngineError, ObserveError};

/// How many sights are buffered. A slow reader holds up its own stream only.
const SIGHTS_MAX: usize = 64;
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// What happens in an election, as it happens: the leader, or that there is none.
///
/// The first sight comes at once. A broken connection is mended behind the scenes; if something may
/// have been missed, [`Sight::Gap`] says so, and the next sight is how things stand.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/server.rs"));
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { with_server(async |endpoints| {
/// # let engine = tenure::Engine::tenure(&endpoints)?;
/// use tenure::{Observer, Sight};
///
/// let mut seen = Observer::open(&engine, "backup")?;
/// while let Ok((revision, sight)) = seen.next().await {
///     match sight {
///         Sight::Leads(leader) => println!("{} leads with token {}", leader.identity, leader.token),
///         Sight::Proclaims(leader) => println!("{} says {:?}", leader.identity, leader.value),
///         Sight::NoLeader => println!("no leader since revision {revision}"),
///         Sight::Gap => {}
///     }
/// #   break;
/// }
/// # Ok(())
/// # }) }
/// ```
#[derive(Debug)]
pub struct Observer {
    name: ElectionName,
    sights: mpsc::Receiver<Result<(Revision, Sight), EngineError>>,
}

impl Observer {
    /// Observes an election without a session.
    ///
    /// # Errors
    /// [`BadName`], for what cannot be one.
    ///
    /// # Panics
    /// If it is not called on a tokio runtime.
    pub fn open(
        engine: &Engine,
        name: impl TryInto<ElectionName, Error: Into<BadName>>,
    ) -> Result<Observer, BadName> {
        Observer::open_on(&Machine::host(), engine, name)
    }

    /// The same, on this host.
    ///
    /// # Errors
    /// [`BadName`], for what cannot be one.
    pub fn open_on(
        host: &Arc<dyn Host>,
        engine: &Engine,
        name: impl TryInto<ElectionName, Error: Into<BadName>>,
    ) -> Result<Observer, BadName> {
        Ok(Observer::start(host, engine.clone(), ElectionName::read(name)?))
    }

    pub(super) fn start(host: &Arc<dyn Host>, engine: Engine, name: ElectionName) -> Observer {
        let (tell, sights) = mpsc::channel(SIGHTS_MAX);
        host.spawn(Box::pin(look(Arc::clone(host), engine, name.clone(), tell)));
        Observer { name, sights }
    }

    /// The next sight, and the revision it was seen at.
    ///
    /// # Errors
    /// If the server refuses, or the session that it was opened through is over. Nothing follows.
    pub async fn next(&mut self) -> Result<(Revision, Sight), ObserveError> {
        let name = || self.name.clone();
        match self.sights.recv().await {
            Some(Ok(sight)) => Ok(sight),
            Some(Err(source)) => Err(ObserveError::Engine { name: name(), source }),
            None => Err(ObserveError::SessionOver { name: name(), loss: crate::Loss::Closed }),
        }
    }
}

/// Observes until the receiver is dropped.
async fn look(
    host: Arc<dyn Host>,
    engine: Engine,
    name: ElectionName,
    tell: mpsc::Sender<Result<(Revision, Sight), EngineError>>,
) {
    let mut backoff = Backoff::new(host.chance(), PAUSE_FIRST, PAUSE_MAX);
    let mut began = false;
    loop {
        let looked = tokio::select! {
            biased;
            () = tell.closed() => return,
            looked = look_once(&host, &engine, &name, &tell, &mut began, &mut backoff) => looked,
        };
        match looked {
            Err(EngineError::Unavailable { .. } | EngineError::Unknown { .. }) => {
                host.pause(backoff.pause()).await;
            }
            Err(refused) => {
                let _ = tell.send(Err(refused)).await;
                return;
            }
            // The receiver is gone.
            Ok(()) => return,
        }
    }
}

async fn look_once(
    host: &Arc<dyn Host>,
    engine: &Engine,
    name: &ElectionName,
    tell: &mpsc::Sender<Result<(Revision, Sight), EngineError>>,
    began: &mut bool,
    backoff: &mut Backoff,
) -> Result<(), EngineError> {
    let mut seen = engine.backend().observe(Arc::clone(host), name.clone()).await?;
    let mut again = std::mem::replace(began, true);
    loop {
        let (revision, sight) = seen.next().await?;
        backoff.reset();
        if std::mem::take(&mut again) && tell.send(Ok((revision, Sight::Gap))).await.is_err() {
            return Ok(());
        }
        if tell.send(Ok((revision, sight))).await.is_err() {
            return Ok(());
        }
    }
}
