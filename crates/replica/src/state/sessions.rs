//! What sessions ask for.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use tenure_api::{LeaseId, Revision, Span};

use super::{
    At, LineDone, PlaceInfo, State, Traces,
    lines::{Arriving, Cause},
};
use crate::{
    canary::Canary,
    command::{Ask, Ended, Join},
    queue::{
        self, Candidate, Event, IDENTITY_BYTES_MAX, Line, METADATA_BYTES_MAX, Mode, NAMES_MAX,
        PLACES_MAX, PRIORITY_MAX, Place, Refusal, SESSION_TTL_MS_MAX, SESSION_TTL_MS_MIN, Session,
        SessionEnd, TenureEnd, Transfer, VALUE_BYTES_MAX, key_of,
    },
};

impl State {
    pub(super) fn open_session(
        &mut self,
        id: LeaseId,
        session: (u64, &str, bool),
        by: u64,
        at: At,
        traces: &mut Traces,
    ) -> Result<LineDone, Refusal> {
        let (ttl_ms, identity, fast_release) = session;
        if identity.len() > IDENTITY_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        let ttl_ms = ttl_ms.clamp(SESSION_TTL_MS_MIN, SESSION_TTL_MS_MAX);
        let ttl_secs = ttl_ms.div_ceil(1000) as i64;
        // Its number was drawn at random; somebody's lease may have it all the same.
        self.leases.grant(id, ttl_secs, at.index).map_err(|_| Refusal::SessionGone)?;
        let session = Session::new(identity.to_owned(), ttl_ms, fast_release);
        self.queues.add_session(id, session);
        traces.restarted.push(id);
        traces.lines.push(Event::Attached { session: id, attachment: 1, by });
        Ok(LineDone::Session { id, attachment: 1, ttl_ms, places: vec![] })
    }

    pub(super) fn attach_session(
        &mut self,
        id: LeaseId,
        by: u64,
        at: At,
        traces: &mut Traces,
    ) -> Result<LineDone, Refusal> {
        let session = self.queues.session_mut(id).ok_or(Refusal::SessionGone)?;
        session.attachment += 1;
        let (attachment, ttl_ms) = (session.attachment, session.ttl_ms);
        // A session lives as long as its lease does.
        self.leases.renew(id, at.index).map_err(|_| Refusal::SessionGone)?;
        traces.restarted.push(id);
        traces.lines.push(Event::Attached { session: id, attachment, by });
        Ok(LineDone::Session { id, attachment, ttl_ms, places: self.places_of(id) })
    }

    pub(super) fn end_session(
        &mut self,
        id: LeaseId,
        how: Ended,
        at: At,
        traces: &mut Traces,
    ) -> Result<LineDone, Refusal> {
        let session = self.queues.session(id).cloned();
        let stopped = match how {
            Ended::Closed { stopped } | Ended::Revoked { stopped } => stopped,
            Ended::ConnectionLost { attachment } => {
                let session = session.as_ref().ok_or(Refusal::SessionGone)?;
                if session.attachment != attachment || !session.fast_release {
                    return Err(Refusal::NotYours);
                }
                false
            }
        };
        if stopped {
            // Whether it lives or ended before: nobody needs to wait for it.
            let settled = self.queues.end_delay(id, None, true, &mut traces.lines);
            traces.touched.extend(settled);
        }
        if session.is_none() {
            return if stopped { Ok(LineDone::Done) } else { Err(Refusal::SessionGone) };
        }
        let (why, end) = match how {
            Ended::Closed { .. } => (TenureEnd::Closed, SessionEnd::Closed),
            Ended::ConnectionLost { .. } => (TenureEnd::ConnectionLost, SessionEnd::ConnectionLost),
            Ended::Revoked { .. } => (TenureEnd::Revoked, SessionEnd::Revoked),
        };
        if let Ok(keys) = self.leases.revoke(id) {
            self.end_lease(id, &keys, (why, end, stopped), at, traces);
        }
        Ok(LineDone::Done)
    }

    /// A session's lease is gone: so are its places, its keys and itself.
    pub(super) fn end_lease(
        &mut self,
        id: LeaseId,
        keys: &[Bytes],
        (why, end, stopped): (TenureEnd, SessionEnd, bool),
        at: At,
        traces: &mut Traces,
    ) {
        // Somebody may have put one of its keys under another lease, or none.
        let mut keys: BTreeSet<Bytes> = keys.iter().cloned().collect();
        if let Some(session) = self.queues.session(id) {
            keys.extend(session.places.iter().filter_map(|name| self.key_in(name, id)));
        }
        let keys: Vec<Bytes> = keys.into_iter().collect();
        self.delete(&keys, &Cause::ends(at, why, stopped), traces);
        if self.queues.remove_session(id).is_some() {
            traces.lines.push(Event::SessionEnded { session: id, why: end });
        }
        traces.ended.push(id);
    }

    /// Does what a session asks, once.
    pub(super) fn ask(
        &mut self,
        id: LeaseId,
        request: u64,
        ask: &Ask,
        at: At,
        traces: &mut Traces,
    ) -> Result<LineDone, Refusal> {
        let session = self.queues.session(id).ok_or(Refusal::SessionGone)?;
        let answered = session.answered(request).filter(|_| !Canary::RequestTwice.sings());
        let answer = match answered {
            Some(answer) => answer,
            None => {
                let answer = match ask {
                    Ask::Join(join) => self.join(id, join, at, traces),
                    Ask::Leave { name, token, stopped } => {
                        self.leave(id, name, (*token, *stopped), at, traces)
                    }
                    Ask::Proclaim { name, token, value } => {
                        self.proclaim(id, name, (*token, value), at, traces)
                    }
                    Ask::Health { name, unhealthy } => {
                        self.report_health(id, name, *unhealthy, at, traces)
                    }
                    Ask::Yield { name, token, stay } => {
                        self.make_room(id, name, (*token, *stay), at, traces)
                    }
                };
                self.settle(at, traces);
                if let Some(session) = self.queues.session_mut(id) {
                    session.remember(request, answer.clone());
                }
                answer
            }
        };
        answer?;
        // As they are now: a request that comes again may be about places that were moved since.
        let places = names_in(ask).iter().filter_map(|name| self.place_info(name, id));
        Ok(LineDone::Places(places.collect()))
    }

    fn join(
        &mut self,
        id: LeaseId,
        join: &Join,
        at: At,
        traces: &mut Traces,
    ) -> Result<Vec<Revision>, Refusal> {
        self.check_join(id, join)?;
        let candidate = Arc::new(Candidate {
            session: id,
            mode: join.mode,
            priority: join.priority,
            preempts: join.preempts,
            no_overlap: join.no_overlap,
            metadata: join.metadata.clone(),
            together: join.names.clone(),
        });
        let arriving = Arriving { candidate, since_ms: at.ms, unhealthy: join.unhealthy };
        let keys = join.names.iter().map(|name| (key_of(name, id), join.value.clone())).collect();
        self.take_places(keys, arriving, at, traces);
        let token = self.store.revision();
        if let [name] = &join.names[..]
            && join.priority > 0
        {
            self.let_pass(id, name, at, traces);
            self.overrule_choice(id, name);
        }
        Ok(vec![token])
    }

    fn check_join(&self, id: LeaseId, join: &Join) -> Result<(), Refusal> {
        let distinct: BTreeSet<&Bytes> = join.names.iter().collect();
        if join.names.is_empty() || distinct.len() != join.names.len() {
            return Err(Refusal::BadName);
        }
        let metadata: usize =
            join.metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
        let places = self.queues.session(id).map_or(0, |session| session.places.len());
        if join.names.len() > NAMES_MAX
            || join.value.len() > VALUE_BYTES_MAX
            || metadata > METADATA_BYTES_MAX
            || places + join.names.len() > PLACES_MAX
        {
            return Err(Refusal::TooLarge);
        }
        // Several at once are never moved, so nobody could pass one of them that is not well.
        let several = join.names.len() > 1;
        if join.priority > PRIORITY_MAX || (several && (join.priority > 0 || join.unhealthy)) {
            return Err(Refusal::BadPriority);
        }
        for name in &join.names {
            queue::check_name(name)?;
            self.queues.check_nesting(name)?;
            let nested = |other: &&Bytes| other.len() > name.len() && is_below(other, name);
            if join.names.iter().any(|other| nested(&other)) {
                return Err(Refusal::NestedName);
            }
            if self.store.get(&key_of(name, id)).is_some() {
                return Err(Refusal::AlreadyInLine);
            }
            // One that would not lead does not hold at once either.
            if join.try_only && join.unhealthy && join.mode == Mode::Exclusive {
                return Err(Refusal::Taken);
            }
            let Some(line) = self.queues.line(name) else {
                check_permits(join.mode)?;
                // Data may lie under a name that nobody has stood under, and be first as soon as somebody does.
                let under = Span::prefix([name, &b"/"[..]].concat().into());
                if join.try_only && self.store.live_in(&under).next().is_some() {
                    return Err(Refusal::Taken);
                }
                continue;
            };
            line.check_mode(join.mode)?;
            if join.try_only && line.is_frozen() {
                return Err(Refusal::NameFrozen);
            }
            if join.try_only && !line.would_hold(join.mode, join.no_overlap) {
                return Err(Refusal::Taken);
            }
        }
        Ok(())
    }

    /// Whoever has a lower priority lets a newcomer pass.
    fn let_pass(&mut self, id: LeaseId, name: &Bytes, at: At, traces: &mut Traces) {
        let Some(line) = self.queues.line(name) else { return };
        let Some(place) = line.place_of(id) else { return };
        let outranked = line.outranked_by(place);
        if !outranked.is_empty() {
            self.put_behind(name, &outranked, (TenureEnd::Preempted, true), at, traces);
        }
    }

    fn overrule_choice(&mut self, id: LeaseId, name: &Bytes) {
        if let Some(line) = self.queues.line_mut(name) {
            line.overrule_choice(id);
        }
    }

    /// Asks a leader to make room.
    pub(super) fn announce(
        &mut self,
        name: &Bytes,
        leader: &Arc<Place>,
        transfer: Transfer,
        traces: &mut Traces,
    ) {
        let successor =
            self.queues.session(transfer.to).map_or(String::new(), |s| s.identity.clone());
        let Some(line) = self.queues.line_mut(name) else { return };
        line.begin_transfer(transfer);
        traces.lines.push(Event::Drain {
            name: name.clone(),
            place: leader.clone(),
            successor,
            within_ms: transfer.within_ms,
        });
        traces.touched.insert(name.clone());
    }

    fn leave(
        &mut self,
        id: LeaseId,
        name: &Bytes,
        (token, stopped): (Option<Revision>, bool),
        at: At,
        traces: &mut Traces,
    ) -> Result<Vec<Revision>, Refusal> {
        let place = self.queues.line(name).and_then(|line| line.place_of(id));
        let token = token.filter(|_| !Canary::UnguardedUnlock.sings());
        let place = place.filter(|place| token.is_none_or(|token| place.created == token)).cloned();
        if stopped && place.is_none() {
            // It was taken away before, and now the work has ended.
            let only = token.map(|token| (name, token));
            let settled = only
                .map(|_| self.queues.end_delay(id, only, true, &mut traces.lines))
                .unwrap_or_default();
            if !settled.is_empty() {
                traces.touched.extend(settled);
                return Ok(vec![]);
            }
        }
        let candidate = place.as_ref().and_then(|place| place.candidate.clone());
        let candidate = candidate.ok_or(Refusal::NotYours)?;
        let keys = self.keys_together(&candidate);
        // Whoever was asked to make room may also do it by going.
        let transfer = self.queues.line(name).and_then(|line| line.transfer().copied());
        let asked = transfer.filter(|transfer| Some(transfer.from) == place.map(|p| p.created));
        let why = asked.map_or(TenureEnd::Resigned, |transfer| transfer.why);
        self.delete(&keys, &Cause::ends(at, why, stopped), traces);
        Ok(vec![])
    }

    fn proclaim(
        &mut self,
        id: LeaseId,
        name: &Bytes,
        (token, value): (Revision, &Bytes),
        at: At,
        traces: &mut Traces,
    ) -> Result<Vec<Revision>, Refusal> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        let place = self.queues.line(name).and_then(|line| line.place_of(id));
        let holds = |place: &&Arc<Place>| place.created == token && place.holds();
        let key = place.filter(holds).map(|place| place.key.clone()).ok_or(Refusal::NotYours)?;
        self.show(&key, value, at, traces);
        Ok(vec![token])
    }

    fn report_health(
        &mut self,
        id: LeaseId,
        name: &Bytes,
        unhealthy: bool,
        at: At,
        traces: &mut Traces,
    ) -> Result<Vec<Revision>, Refusal> {
        let line = self.queues.line_mut(name).ok_or(Refusal::NotYours)?;
        let place = line.place_of(id).cloned().ok_or(Refusal::NotYours)?;
        // Nobody could pass it: several at once are never moved.
        if unhealthy && place.is_fixed() {
            return Err(Refusal::BadPriority);
        }
        if let Some(place) = line.place_mut(place.created, &place.key) {
            place.unhealthy = unhealthy;
        }
        traces.touched.insert(name.clone());
        if unhealthy && place.holds() && place.mode() == Mode::Exclusive {
            let key = std::slice::from_ref(&place.key);
            self.put_behind(name, key, (TenureEnd::Unhealthy, true), at, traces);
        }
        if place.unhealthy && !unhealthy && !place.holds() {
            self.begin_anew(name, &place.key, at, traces);
            self.rank(name, at, traces);
            self.overrule_choice(id, name);
        }
        let token = self.queues.line(name).and_then(|line| line.place_of(id)).map(|p| p.created);
        Ok(token.into_iter().collect())
    }

    /// A tenure that may begin now gets a revision of its own: an observer that comes back knows everything up to the
    /// one at which nobody led.
    fn begin_anew(&mut self, name: &Bytes, key: &Bytes, at: At, traces: &mut Traces) {
        let vacant = self.queues.line(name).is_some_and(|line| line.leader().is_none());
        if let Some(value) = self.store.get(key).filter(|_| vacant).map(|shown| shown.value.clone())
        {
            self.show(key, &value, at, traces);
        }
    }

    /// The leader has drained: its successor takes over.
    fn make_room(
        &mut self,
        id: LeaseId,
        name: &Bytes,
        (token, stay): (Revision, bool),
        at: At,
        traces: &mut Traces,
    ) -> Result<Vec<Revision>, Refusal> {
        let line = self.queues.line(name).ok_or(Refusal::NotYours)?;
        let place = line.place_of(id).filter(|place| place.created == token).cloned();
        let place = place.ok_or(Refusal::NotYours)?;
        let transfer = line.transfer().copied().filter(|transfer| transfer.from == token);
        let transfer = transfer.ok_or(Refusal::NoSuchCandidate)?;
        self.hand_over(name, &place, (transfer, true, stay), at, traces);
        let token = self.queues.line(name).and_then(|line| line.place_of(id)).map(|p| p.created);
        Ok(token.into_iter().collect())
    }

    /// A successor is first from now on, and everybody else behind it.
    pub(super) fn hand_over(
        &mut self,
        name: &Bytes,
        leader: &Arc<Place>,
        (transfer, stopped, stay): (Transfer, bool, bool),
        at: At,
        traces: &mut Traces,
    ) {
        let Some(line) = self.queues.line(name) else { return };
        let mut keys: Vec<Bytes> = line
            .between(Some(leader.created), transfer.to)
            .iter()
            .filter(|place| !place.is_fixed())
            .map(|place| place.key.clone())
            .collect();
        if stay {
            keys.push(leader.key.clone());
        } else {
            let cause = Cause::ends(at, transfer.why, stopped);
            self.delete(std::slice::from_ref(&leader.key), &cause, traces);
        }
        self.put_behind(name, &keys, (transfer.why, stopped), at, traces);
    }

    /// Everything a session has.
    pub fn places_of(&self, id: LeaseId) -> Vec<PlaceInfo> {
        let Some(session) = self.queues.session(id) else { return vec![] };
        session.places.iter().filter_map(|name| self.place_info(name, id)).collect()
    }

    /// Where all sessions stand, in the order of names. One way through all lines: a line is searched from
    /// its start for somebody's place, so that asking for each of many who stand in one would take for ever.
    pub fn all_places(&self) -> BTreeMap<LeaseId, Vec<PlaceInfo>> {
        let mut all = BTreeMap::<LeaseId, Vec<PlaceInfo>>::new();
        for (name, line) in self.queues.lines() {
            for place in line.places() {
                if let Some(id) = place.session() {
                    all.entry(id).or_default().push(self.info(name, line, place));
                }
            }
        }
        all
    }

    fn place_info(&self, name: &Bytes, id: LeaseId) -> Option<PlaceInfo> {
        let line = self.queues.line(name)?;
        Some(self.info(name, line, line.place_of(id)?))
    }

    fn info(&self, name: &Bytes, line: &Line, place: &Arc<Place>) -> PlaceInfo {
        let transfer = line.transfer().filter(|transfer| transfer.from == place.created);
        let makes_room = transfer.map(|transfer| {
            let successor = self.queues.session(transfer.to);
            let successor = successor.map(|session| session.identity.clone());
            (successor.unwrap_or_default(), transfer.within_ms)
        });
        let (name, place) = (name.clone(), place.clone());
        PlaceInfo { name, ahead: line.ahead(&place), makes_room, place }
    }
}

/// The lines that a request is about.
fn names_in(ask: &Ask) -> &[Bytes] {
    match ask {
        Ask::Join(join) => &join.names,
        Ask::Leave { name, .. }
        | Ask::Proclaim { name, .. }
        | Ask::Health { name, .. }
        | Ask::Yield { name, .. } => std::slice::from_ref(name),
    }
}

fn is_below(name: &[u8], above: &[u8]) -> bool {
    name.starts_with(above) && name.get(above.len()) == Some(&b'/')
}

fn check_permits(mode: Mode) -> Result<(), Refusal> {
    if mode == Mode::Permit(0) { Err(Refusal::ModeMismatch) } else { Ok(()) }
}
