//! Events of elections on their way to the listeners.

use std::collections::BTreeMap;

use tenure_api::{Revision, Term};
use tenure_replica::election::listeners::{Listener, ListenerEvent};
use tokio::sync::mpsc;

use super::streams::Stamp;

/// Events that may wait for one listener. One that does not take them in time is dropped, and comes back.
pub(super) const NEWS_MAX: usize = 1024;

/// The way to each listener.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    senders: BTreeMap<Listener, mpsc::Sender<(ListenerEvent, Stamp)>>,
}

impl Subscriptions {
    pub(super) fn open(
        &mut self,
        listener: Listener,
        sender: mpsc::Sender<(ListenerEvent, Stamp)>,
    ) {
        self.senders.insert(listener, sender);
    }

    pub(super) fn close(&mut self, listener: Listener) {
        self.senders.remove(&listener);
    }

    /// Nothing that this member says counts any more.
    pub(super) fn close_all(&mut self) {
        self.senders.clear();
    }

    pub(super) fn tell(
        &mut self,
        news: Vec<(Listener, ListenerEvent)>,
        revision: Revision,
        term: Term,
    ) {
        for (listener, news) in news {
            let Some(sender) = self.senders.get(&listener) else { continue };
            if sender.try_send((news, Stamp { revision, term })).is_err() {
                self.senders.remove(&listener);
            }
        }
    }
}
