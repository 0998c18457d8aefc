//! Until when may a holder believe that it holds?
//!
//! The server ends a session when it has heard nothing for the session's time to live. The holder
//! must have stopped *before* that, or two would act at once. Two things make this more than a
//! subtraction:
//!
//! - A renewal starts the server's count anew at some point between its sending and the arrival of
//!   its acknowledgement. When is unknown, so the holder counts from the *sending*.
//! - The two clocks do not run at quite the same speed, and stopping takes a moment. So the holder
//!   stops a [`margin`] early.
//!
//! A holder is in one of three [`Standing`]s. It is *held* while renewals are acknowledged; *suspect*
//! when one should have been and was not: what was begun may be ended, nothing new is started; and
//! *lost* at the deadline, for good: whatever is acknowledged afterwards does not bring it back,
//! because others may have been told already.
//!
//! ```text
//!  renewal sent      next one due           suspect            deadline    server may revoke
//!  ├──────────────────┼──────────────────────┼──────────────────┼───────────┤
//!  0                TTL/3                0.75 TTL          TTL - margin    TTL
//! ```
//!
//! Everything here is a function of moments that are handed in: nothing reads a clock.

use std::time::Duration;

use crate::clock::Moment;

/// The smallest margin.
pub const MARGIN_MIN: Duration = Duration::from_millis(100);
/// The shortest time to live with which a session makes sense: three times the margin.
pub const TTL_MIN: Duration = Duration::from_millis(300);
/// Two renewals that got no answer are doubt enough, however early.
const MISSES_MAX: u32 = 2;

/// How long before the server's deadline the holder's own one is: 100 ms or 1 % of the time to
/// live, whichever is more.
pub fn margin(ttl: Duration) -> Duration {
    MARGIN_MIN.max(ttl / 100)
}

/// What a holder may believe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Confirmed.
    Held,
    /// Not confirmed in time, and not over yet: start nothing new.
    Suspect,
    /// Over. Another holder may have begun.
    Lost,
}

/// Why a holder may not begin what it wanted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    /// Renewals are not confirmed; it may end in `remaining`.
    #[error("the hold is not confirmed and may end in {remaining:?}")]
    Suspect {
        /// Until the deadline.
        remaining: Duration,
    },
    /// What is to be done takes longer than the hold is sure to last.
    #[error("the hold is sure for {remaining:?} only")]
    TooShort {
        /// Until the deadline, as far as is known now. A renewal moves it.
        remaining: Duration,
    },
    /// It is over.
    #[error("the hold is lost")]
    Lost,
}

/// One holder's belief in its session.
#[derive(Clone, Copy, Debug)]
pub struct Tenancy {
    ttl: Duration,
    renew_after: Duration,
    suspect_after: Duration,
    /// When the last acknowledged renewal was sent.
    confirmed: Moment,
    misses: u32,
    /// Not beyond this, whatever is acknowledged: the connection is broken and the server will end
    /// the session soon.
    not_beyond: Option<Moment>,
    lost: bool,
}

impl Tenancy {
    /// A session that was granted in answer to a request sent at `sent`.
    pub fn begin(sent: Moment, ttl: Duration) -> Tenancy {
        Tenancy {
            ttl,
            renew_after: ttl / 3,
            suspect_after: (ttl / 4 * 3).min(ttl.saturating_sub(margin(ttl))),
            confirmed: sent,
            misses: 0,
            not_beyond: None,
            lost: false,
        }
    }

    /// The same, but renewed more often, or in doubt earlier. Neither can be made later.
    #[must_use]
    pub fn stricter(self, renew_after: Duration, suspect_after: Duration) -> Tenancy {
        Tenancy {
            renew_after: renew_after.min(self.renew_after),
            suspect_after: suspect_after.min(self.suspect_after),
            ..self
        }
    }

    /// The time to live.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// A renewal that was sent at `sent` has been acknowledged. Answers whether that was in time.
    pub fn acknowledge(&mut self, sent: Moment, now: Moment) -> bool {
        if self.standing(now) == Standing::Lost {
            return false;
        }
        // Acknowledgements may overtake each other; what was confirmed once stays confirmed.
        self.confirmed = self.confirmed.max(sent);
        self.misses = 0;
        // A very late one may be for a renewal that confirms nothing any more.
        self.standing(now) != Standing::Lost
    }

    /// A renewal got no answer for as long as one waits for it.
    pub fn miss(&mut self) {
        self.misses = self.misses.saturating_add(1);
    }

    /// The connection is broken and the server ends the session unless it is reattached in time: it is lost at `until`,
    /// unless [`Tenancy::attach`]ed before.
    pub fn detach(&mut self, until: Moment) {
        let until = self.not_beyond.map_or(until, |already| already.min(until));
        self.not_beyond = Some(until);
    }

    /// Whether the connection is broken.
    pub fn is_detached(&self) -> bool {
        self.not_beyond.is_some()
    }

    /// There is a connection again.
    pub fn attach(&mut self, now: Moment) {
        if self.standing(now) != Standing::Lost {
            self.not_beyond = None;
        }
    }

    /// It is over, whatever the time.
    pub fn end(&mut self) {
        self.lost = true;
    }

    /// What may be believed now. *Lost* is for ever, so asking may change the answer to later
    /// questions, also to ones about earlier moments.
    pub fn standing(&mut self, now: Moment) -> Standing {
        self.lost = self.lost || now >= self.safe_until();
        match () {
            () if self.lost => Standing::Lost,
            () if now >= self.suspect_at() || self.misses >= MISSES_MAX => Standing::Suspect,
            () => Standing::Held,
        }
    }

    /// Whether something that takes so long may be begun now.
    ///
    /// # Errors
    /// The [`Doubt`], if not.
    pub fn may_act(&mut self, now: Moment, takes: Duration) -> Result<(), Doubt> {
        let remaining = self.safe_until().since(now);
        match self.standing(now) {
            Standing::Lost => Err(Doubt::Lost),
            Standing::Suspect => Err(Doubt::Suspect { remaining }),
            Standing::Held if takes > remaining => Err(Doubt::TooShort { remaining }),
            Standing::Held => Ok(()),
        }
    }

    /// The deadline: the last moment at which this process may still act.
    ///
    /// Counted from when the renewal was *sent*: the server's own count may have begun at any point
    /// before the answer came back.
    pub fn safe_until(&self) -> Moment {
        let until = self.confirmed + self.ttl.saturating_sub(margin(self.ttl));
        self.not_beyond.map_or(until, |limit| limit.min(until))
    }

    /// From when on it is suspect, if nothing is acknowledged before.
    pub fn suspect_at(&self) -> Moment {
        (self.confirmed + self.suspect_after).min(self.safe_until())
    }

    /// When the next renewal is due.
    pub fn renew_at(&self) -> Moment {
        self.confirmed + self.renew_after
    }

    /// When the standing changes next by the passing of time alone.
    pub fn changes_at(&mut self, now: Moment) -> Option<Moment> {
        match self.standing(now) {
            Standing::Held => Some(self.suspect_at()),
            Standing::Suspect => Some(self.safe_until()),
            Standing::Lost => None,
        }
    }

    /// When the last acknowledged renewal was sent.
    pub fn confirmed_at(&self) -> Moment {
        self.confirmed
    }
}

#[cfg(test)]
mod tests;
