//! What may be answered at one moment: a pure judgement of what is known.
//!
//! Two things are known. *Our own tenure*, if there is one: the library says what it is worth right
//! now, counted from the sending of the last renewal that a majority acknowledged. And *news*: the
//! last answer to "who leads?", with the moment at which the question was *sent*. The read behind that
//! answer is linearizable, so it tells of a time not before the sending; an age counted from there can only be too
//! great.
//!
//! A silent watch proves nothing, so nothing here is fresh for lack of news. News older than the lease, or older than
//! something that we know to have changed, is no answer.
//!
//! One rule protects programs that only compare names: *our own name is answered only while our session holds the
//! leadership*, not while the leader before us may still believe, and never from what was heard about an earlier life
//! of ours, or about another process with the same identity.

use std::time::Duration;

use tenure::clock::Moment;
use tenure::{Doubt, FencingToken};

/// A leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leader {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) token: FencingToken,
    /// The session behind it, as the wire has it.
    pub(super) session: i64,
    /// When its tenure began, in milliseconds since 1970 by some member's clock; for people.
    pub(super) since_unix_ms: Option<u64>,
}

/// The leader, and when that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct News {
    pub(super) leader: Option<Leader>,
    /// When the question was sent.
    pub(super) as_of: Moment,
    /// An earlier leader may not have stopped yet: a leader that wants no overlap is elected and not told.
    pub(super) delayed: bool,
}

/// Our own tenure at this moment.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub(super) leader: Leader,
    /// Not before the server's grant.
    pub(super) won_at: Moment,
    /// Whether something may be begun now.
    pub(super) may_act: Result<(), Doubt>,
    /// Until the deadline.
    pub(super) remaining: Duration,
    /// How long ago the last acknowledged renewal was sent.
    pub(super) unconfirmed: Duration,
}

/// Our session at this moment, when it is alive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alive {
    pub(super) id: i64,
    pub(super) remaining: Duration,
}

/// Everything that a judgement is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    /// Our identity; nothing if we stand for nothing and only look.
    pub(super) identity: Option<&'a str>,
    pub(super) ttl: Duration,
    pub(super) own: Option<&'a Own>,
    pub(super) session: Option<Alive>,
    pub(super) news: Option<&'a News>,
    /// Older news tells of a time before our own last change.
    pub(super) not_before: Moment,
    /// Our last tenure that is over, or being given up.
    pub(super) over: Option<FencingToken>,
}

/// What may be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Belief {
    /// This is how things stand.
    Sure(Sure),
    /// Nothing: whatever we could say may be wrong by now.
    Unsure(Unsure),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sure {
    /// There is no leader, if `None`.
    pub(super) leader: Option<Leader>,
    /// It is us, and something may be begun now.
    pub(super) is_leader: bool,
    /// How old it is.
    pub(super) age: Duration,
    /// How long it may be believed.
    pub(super) expires_in: Duration,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsure {
    /// No server has answered yet.
    NothingHeard,
    /// The last answer is older than the lease.
    Stale {
        /// How old.
        age: Duration,
    },
    /// We led, and have heard nothing since.
    NotLeadingAnyMore,
    /// The leader has our name but is not this process's session: an earlier life of ours, or another process with the
    /// same identity.
    SameIdentity,
    /// We are elected, and may not lead before the one before us has surely stopped.
    NotYet,
}

impl Unsure {
    /// As text.
    pub(super) fn text(self) -> String {
        match self {
            Unsure::NothingHeard => "no server has answered yet".into(),
            Unsure::Stale { age } => {
                format!(
                    "the last confirmed answer is {} ms old, older than the lease",
                    age.as_millis()
                )
            }
            Unsure::NotLeadingAnyMore => {
                "this sidecar does not lead any more, and who does is not known yet".into()
            }
            Unsure::SameIdentity => {
                "the leader has this sidecar's identity and is not its session: an earlier \
                                     life of it, or another process with the same --identity"
                    .into()
            }
            Unsure::NotYet => {
                "this sidecar is next, and waits until the leader before it has surely stopped"
                    .into()
            }
        }
    }
}

/// Judges, for this moment.
pub(super) fn judge(known: Known<'_>, now: Moment) -> Belief {
    if let Some(own) = known.own.filter(|own| holds(own, known.news)) {
        // Finding us among the candidates is a confirmation, too, and right after the election the only one.
        let found = known.news.filter(|news| token(news) == Some(own.leader.token));
        let found = found.map_or(Duration::MAX, |news| now.since(news.as_of));
        return Belief::Sure(Sure {
            leader: Some(own.leader.clone()),
            is_leader: own.may_act.is_ok(),
            age: own.unconfirmed.min(found),
            expires_in: own.remaining,
        });
    }
    let Some(news) = known.news else { return Belief::Unsure(Unsure::NothingHeard) };
    let age = now.since(news.as_of);
    if age >= known.ttl {
        return Belief::Unsure(Unsure::Stale { age });
    }
    let mut expires_in = known.ttl - age;
    if news.as_of < known.not_before {
        return Belief::Unsure(Unsure::NotLeadingAnyMore);
    }
    if let Some(leader) = &news.leader {
        if known.over.is_some_and(|over| leader.token <= over) {
            return Belief::Unsure(Unsure::NotLeadingAnyMore);
        }
        if known.identity == Some(leader.name.as_str()) {
            // Elected, and the campaign here has not been told yet.
            match known.session.filter(|alive| alive.id == leader.session) {
                Some(_) if news.delayed => return Belief::Unsure(Unsure::NotYet),
                Some(alive) => expires_in = expires_in.min(alive.remaining),
                None => return Belief::Unsure(Unsure::SameIdentity),
            }
        }
    }
    Belief::Sure(Sure { leader: news.leader.clone(), is_leader: false, age, expires_in })
}

/// Whether our own tenure is to be believed beside what was heard.
fn holds(own: &Own, news: Option<&News>) -> bool {
    if matches!(own.may_act, Err(Doubt::Lost)) || own.remaining.is_zero() {
        return false;
    }
    let Some(news) = news else { return true };
    let heard = token(news);
    // Later leaders have greater tokens. And an answer asked for after we won that does not name us means we are gone.
    let newer = heard > Some(own.leader.token);
    let gone = news.as_of >= own.won_at && heard != Some(own.leader.token);
    !(newer || gone)
}

fn token(news: &News) -> Option<FencingToken> {
    news.leader.as_ref().map(|leader| leader.token)
}

#[cfg(test)]
mod tests;
