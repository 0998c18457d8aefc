//! Whether another member is there, judged from connections that come and go out of order.
//!
//! Two members are joined by two connections, one that each of them made; messages travel on the
//! connection that their sender made. When a process dies, its kernel closes all its connections at once,
//! but we see their ends one after the other, and a restarted process may have called again in between.
//! A connection may also break alone, while both processes live. What decides:
//!
//! - A member is there when it answers our call: from then on messages to it are sent.
//! - An incoming connection that ends is a loss, unless a newer one has taken its place.
//! - An outgoing connection that ends is a loss only if no incoming one stands. If one stands, its end
//!   will follow when the process is gone, *after* everything it said: a loss that overtakes the
//!   last messages would be undone by them.
//! - A loss can be wrong: one direction of a live member was reset. When that member calls again and
//!   our connection to the same life still stands, it is there again. No new answer would ever say so.
//! - Nothing that an earlier life of the process leaves behind counts. Which life is the newest is taken from the answers to our
//!   calls only: whoever calls can claim any, and the largest number there is would shut the member itself out.
//! - One loss is told once, and so is one return.
//!
//! The host of a replica keeps a `Presence` of each other member and tells
//! [`Input::Connected`](crate::Input::Connected) and [`Input::Lost`](crate::Input::Lost) as it says.

/// What is known of one member's connections.
#[derive(Clone, Debug, Default)]
pub struct Presence {
    /// The newest life that has answered our call.
    boot: u64,
    /// Counts incoming connections; the newest is the one that counts.
    calls: u64,
    /// The incoming connection that stands.
    incoming: Option<CallNumber>,
    /// The life to which an outgoing connection stands.
    outgoing: Option<u64>,
    /// Something stood since the last loss was told.
    present: bool,
}

/// Which of a member's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallNumber(u64);

/// An older life of a member came after a newer one, which is named here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlived(pub u64);

/// An incoming connection was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Called {
    /// The connection's number.
    pub number: CallNumber,
    /// The member is there again after a loss: its return must be told.
    pub returned: bool,
}

impl Presence {
    /// An incoming connection was accepted. It takes the place of the one before.
    ///
    /// # Errors
    /// If a newer life has answered.
    pub fn called(&mut self, boot: u64) -> Result<Called, Outlived> {
        self.refuse_older(boot)?;
        self.calls += 1;
        let number = CallNumber(self.calls);
        self.incoming = Some(number);
        // Without an outgoing connection to this life nothing can be sent to it yet. The answer to our next call, which its own
        // call hastens, will tell.
        let stands = self.outgoing == Some(boot);
        let returned = stands && !self.present && !canary!(OnlyAnswersReturn);
        self.present = true;
        Ok(Called { number, returned })
    }

    /// An outgoing connection was accepted by the other side: the member is there, which must be told.
    ///
    /// # Errors
    /// If a newer life has answered.
    pub fn answered(&mut self, boot: u64) -> Result<(), Outlived> {
        self.refuse_older(boot)?;
        self.boot = boot;
        self.outgoing = Some(boot);
        self.present = true;
        Ok(())
    }

    fn refuse_older(&self, boot: u64) -> Result<(), Outlived> {
        if boot < self.boot { Err(Outlived(self.boot)) } else { Ok(()) }
    }

    /// The newest life that has answered our call; 0 if none has.
    pub fn life(&self) -> u64 {
        self.boot
    }

    /// An incoming connection ended. Answers whether that is a loss, which must be told.
    pub fn hung_up(&mut self, call: CallNumber) -> bool {
        if self.incoming != Some(call) {
            return false;
        }
        self.incoming = None;
        std::mem::take(&mut self.present)
    }

    /// The outgoing connection to this life ended. Answers whether that is a loss, which must be told.
    pub fn broke(&mut self, boot: u64) -> bool {
        if self.outgoing == Some(boot) {
            self.outgoing = None;
        }
        if boot < self.boot || self.incoming.is_some() {
            return false;
        }
        std::mem::take(&mut self.present)
    }

    /// The incoming connection is ended on this side, because the caller is not to be heard. Answers whether
    /// that is a loss, which must be told: nothing else stood.
    pub fn dismiss(&mut self) -> bool {
        self.incoming = None;
        self.outgoing != Some(self.boot) && std::mem::take(&mut self.present)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn call(presence: &mut Presence, boot: u64) -> CallNumber {
        let called = presence.called(boot).unwrap();
        assert!(!called.returned);
        called.number
    }

    #[test]
    fn presence_loses_a_dead_process_once() {
        let mut presence = Presence::default();
        let incoming = call(&mut presence, 1);
        presence.answered(1).unwrap();
        assert!(!presence.broke(1), "its last words may still be on the way");
        assert!(presence.hung_up(incoming));
        assert!(!presence.broke(1));
    }

    #[test]
    fn presence_without_an_incoming_connection_ends_with_the_outgoing_one() {
        let mut presence = Presence::default();
        presence.answered(1).unwrap();
        assert!(presence.broke(1));
        assert!(!presence.broke(1));
    }

    #[test]
    fn presence_outlasts_the_end_of_a_replaced_connection() {
        let mut presence = Presence::default();
        let old = call(&mut presence, 1);
        let new = call(&mut presence, 1);
        assert!(!presence.hung_up(old));
        assert!(presence.hung_up(new));
    }

    #[test]
    fn presence_of_a_life_is_not_disturbed_by_an_earlier_one() {
        let mut presence = Presence::default();
        presence.answered(1).unwrap();
        let incoming = call(&mut presence, 2);
        assert!(!presence.broke(1));
        presence.answered(2).unwrap();
        assert_eq!(presence.called(1), Err(Outlived(2)));
        assert_eq!(presence.answered(1), Err(Outlived(2)));
        assert!(!presence.broke(1));
        assert!(presence.hung_up(incoming));
    }

    /// Whoever calls can claim any life.
    #[test]
    fn presence_of_a_life_that_is_only_claimed_shuts_nobody_out() {
        let mut presence = Presence::default();
        presence.answered(1).unwrap();
        let claimed = call(&mut presence, u64::MAX);
        assert_eq!(presence.life(), 1);
        let real = call(&mut presence, 1);
        assert!(!presence.hung_up(claimed), "it was replaced");
        assert!(presence.hung_up(real));
        presence.answered(2).unwrap();
        assert_eq!(presence.life(), 2);
    }

    #[test]
    fn presence_returns_with_a_call_while_the_outgoing_connection_stands() {
        let mut presence = Presence::default();
        presence.answered(1).unwrap();
        let incoming = call(&mut presence, 1);
        assert!(presence.hung_up(incoming));
        assert!(presence.called(1).unwrap().returned);
        assert!(!presence.called(1).unwrap().returned, "a return is told once");
    }

    #[test]
    fn presence_returns_with_an_answer_when_nothing_stands() {
        let mut presence = Presence::default();
        presence.answered(1).unwrap();
        let incoming = call(&mut presence, 1);
        assert!(presence.hung_up(incoming));
        assert!(!presence.broke(1), "it was told already");
        assert!(!presence.called(1).unwrap().returned, "nothing can be sent to it");
        presence.answered(1).unwrap();
    }

    #[test]
    fn presence_of_a_new_life_waits_for_its_own_answer() {
        let mut presence = Presence::default();
        presence.answered(1).unwrap();
        let incoming = call(&mut presence, 1);
        assert!(presence.hung_up(incoming));
        assert!(!presence.called(2).unwrap().returned, "what stands leads to the dead one");
        assert!(!presence.broke(1));
        presence.answered(2).unwrap();
        assert!(!presence.broke(2), "it was not heard to end yet");
    }

    #[test]
    fn presence_ends_when_the_only_connection_is_dismissed() {
        let mut presence = Presence::default();
        presence.answered(1).unwrap();
        let incoming = call(&mut presence, 1);
        assert!(!presence.dismiss(), "the outgoing one stands");
        assert!(!presence.hung_up(incoming));
        assert!(presence.broke(1));
        call(&mut presence, 1);
        assert!(presence.dismiss());
        assert!(!presence.dismiss());
    }

    /// Whatever happens, in whatever order: what was told last agrees with what stands as soon as both directions
    /// lead to the newest life, and a loss is never told twice without a return between.
    #[test]
    fn presence_told_agrees_with_what_stands_when_both_directions_do() {
        // A small generator is enough: the sequence is the test's, not the product's.
        let mut chance = 1_u64;
        let mut draw = |below: u64| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (chance >> 33) % below
        };
        for _ in 0..2000 {
            let mut presence = Presence::default();
            let (mut told, mut boot) = (false, 1);
            let (mut incoming, mut outgoing) = (None, None);
            for _ in 0..30 {
                let lost = match draw(6) {
                    0 => {
                        let called = presence.called(boot).unwrap();
                        incoming = Some(called.number);
                        told |= called.returned;
                        false
                    }
                    1 if outgoing.is_none() => {
                        presence.answered(boot).unwrap();
                        outgoing = Some(boot);
                        told = true;
                        false
                    }
                    2 => incoming.take().is_some_and(|number| presence.hung_up(number)),
                    3 => outgoing.take().is_some_and(|boot| presence.broke(boot)),
                    4 => {
                        incoming = None;
                        presence.dismiss()
                    }
                    _ => {
                        boot += 1;
                        false
                    }
                };
                if lost {
                    told = false;
                }
                if incoming.is_some() && outgoing == Some(boot) && presence.boot == boot {
                    assert!(told, "{presence:?}");
                }
                if incoming.is_none() && outgoing.is_none() {
                    assert!(!told, "{presence:?}");
                }
            }
        }
    }
}
