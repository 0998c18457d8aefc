//! Elections in their simplest form: lists of candidates, and what is done to them, without keys, revisions
//! or leases.

use std::collections::{BTreeMap, BTreeSet};

use tenure_replica::election::Mode;

use crate::alphabet::{Deed, Manner, NAMES, STOCK};

/// The owner of a frozen name's mark.
pub(crate) const FROST: i64 = 0;
/// The owner of a key without a lease.
pub(crate) const DATA: i64 = -1;

#[derive(Clone, Debug, Default)]
pub(crate) struct Naive {
    pub(crate) elections: BTreeMap<&'static str, List>,
    /// The owners that live, with a session or only a lease.
    pub(crate) living: BTreeSet<i64>,
    /// The former holders that may still act, and where.
    pub(crate) delays: BTreeSet<(&'static str, i64)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    pub(crate) spots: Vec<Spot>,
    /// The successor, the leader that makes room for it, and whether an operator wants it.
    pub(crate) room: Option<Room>,
    /// An operator chose this one, which leads.
    pub(crate) chosen: Option<i64>,
    /// A candidate left or was moved that could not be passed.
    loosened: bool,
    /// There was a candidate here once, and not only data.
    pub(crate) begun: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) to: i64,
    pub(crate) from: i64,
    pub(crate) by_operator: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub(crate) who: i64,
    /// By etcd's means.
    pub(crate) stock: bool,
    manner: Manner,
    both: bool,
    pub(crate) holds: bool,
    pub(crate) told: bool,
}

impl Spot {
    fn stock(who: i64) -> Spot {
        let (manner, stock) = (Manner::default(), true);
        Spot { who, stock, manner, both: false, holds: false, told: false }
    }

    fn is_fixed(&self) -> bool {
        self.stock || self.both
    }

    pub(crate) fn is_well(&self) -> bool {
        !self.manner.unhealthy
    }
}

impl Naive {
    pub(crate) fn new() -> Naive {
        let elections = NAMES.iter().map(|name| (*name, List::default())).collect();
        Naive { elections, living: (1..=4).collect(), delays: BTreeSet::new() }
    }

    pub(crate) fn does(&mut self, deed: &Deed) {
        match *deed {
            Deed::Open(who) => {
                self.living.insert(who);
            }
            Deed::Expire(who) => self.dies(who, false),
            Deed::Revoke(who) | Deed::BreakConnection(who) => self.dies(who, true),
            Deed::Close(who) => {
                self.delays.retain(|(_, other)| *other != who);
                self.dies(who, false);
            }
            Deed::ConfirmStop(who) => {
                if !self.living.contains(&who) || STOCK.contains(&who) {
                    self.delays.retain(|(_, other)| *other != who);
                }
            }
            Deed::JoinAs { who, name, manner } => self.joins(who, &[name], manner),
            Deed::JoinBoth(who) => self.joins(who, &NAMES, Manner::default()),
            Deed::Leave { who, name } => self.leaves(who, name, false),
            Deed::Drop { who, name } | Deed::Strike { who, name } => self.leaves(who, name, true),
            Deed::StockJoin { who, name } => {
                if self.living.contains(&who) && self.list(name).at(who).is_none() {
                    self.list(name).spots.push(Spot::stock(who));
                }
            }
            Deed::StockLeave { who, name } => {
                let list = self.list(name);
                if let Some(at) = list.at(who).filter(|at| list.spots[*at].stock) {
                    list.remove(at);
                }
            }
            Deed::Data(name) => {
                let list = self.list(name);
                if list.at(DATA).is_none() {
                    list.spots.push(Spot::stock(DATA));
                }
            }
            Deed::NoData(name) => {
                let list = self.list(name);
                if let Some(at) = list.at(DATA) {
                    list.remove(at);
                }
            }
            Deed::Health { who, name, unhealthy } => self.list(name).reports(who, unhealthy),
            Deed::Transfer { to, name } => self.list(name).transfers(to),
            Deed::Yield { name, stay } => self.makes_room(name, true, stay),
            Deed::DrainOver(name) => self.makes_room(name, false, false),
            Deed::DelayOver => self.delays.clear(),
            Deed::Evict(name) => {
                let list = self.list(name);
                match list.leader().filter(|_| list.begun).cloned() {
                    Some(leader) if leader.who == DATA => drop(list.remove(0)),
                    Some(leader) => self.is_taken_away(name, &leader),
                    None => {}
                }
            }
            Deed::Freeze(name) => self.freezes(name),
            Deed::Resume(name) => {
                let list = self.list(name);
                if let Some(at) = list.at(FROST) {
                    list.remove(at);
                }
            }
            Deed::Restore => {
                self.living.clear();
                self.delays.clear();
                for list in self.elections.values_mut() {
                    list.spots.retain(|spot| [FROST, DATA].contains(&spot.who));
                    list.spots.iter_mut().for_each(|spot| (spot.holds, spot.told) = (false, false));
                    *list = List { spots: std::mem::take(&mut list.spots), ..List::default() };
                }
            }
            ref other => panic!("{other:?} is for the search"),
        }
        for list in self.elections.values_mut() {
            list.settles();
        }
        self.tells();
    }

    fn list(&mut self, name: &'static str) -> &mut List {
        self.elections.get_mut(name).unwrap()
    }

    /// Everything it has is gone; where it held, it may not know.
    fn dies(&mut self, who: i64, unsure: bool) {
        if !self.living.remove(&who) {
            return;
        }
        for name in NAMES {
            if let Some(at) = self.list(name).at(who) {
                self.goes(name, at, unsure);
            }
        }
    }

    fn goes(&mut self, name: &'static str, at: usize, unsure: bool) {
        let spot = self.list(name).remove(at);
        if unsure && spot.told && !spot.stock {
            self.delays.insert((name, spot.who));
        }
    }

    /// It goes from here, and from wherever else it came to at the same time.
    fn goes_together(&mut self, name: &'static str, spot: &Spot, unsure: bool) {
        for other in NAMES.into_iter().filter(|other| spot.both || *other == name) {
            if let Some(at) = self.list(other).at(spot.who) {
                self.goes(other, at, unsure);
            }
        }
    }

    fn joins(&mut self, who: i64, names: &[&'static str], manner: Manner) {
        let refused = |naive: &mut Naive, name: &&'static str| {
            let delayed = naive.delays.iter().any(|(other, _)| other == name);
            let list = naive.list(name);
            list.at(who).is_some()
                || !list.goes_with(manner.mode)
                || manner.try_only && manner.unhealthy && manner.mode == Mode::Exclusive
                || manner.try_only && (manner.no_overlap && delayed || !list.has_room(manner.mode))
        };
        let session = self.living.contains(&who) && !STOCK.contains(&who);
        if !session || names.iter().any(|name| refused(self, name)) {
            return;
        }
        for name in names {
            let both = names.len() > 1;
            let spot = Spot { who, stock: false, manner, both, holds: false, told: false };
            self.list(name).arrives(spot);
        }
    }

    fn leaves(&mut self, who: i64, name: &'static str, unsure: bool) {
        let list = self.list(name);
        let spot = list.at(who).map(|at| list.spots[at].clone());
        if let Some(spot) = spot.filter(|spot| !spot.stock) {
            self.goes_together(name, &spot, unsure);
        }
    }

    fn makes_room(&mut self, name: &'static str, stopped: bool, stay: bool) {
        let list = self.list(name);
        let Some(room) = list.room else { return };
        let to = list.at(room.to).unwrap();
        let between: Vec<i64> =
            list.spots[1..to].iter().filter(|s| !s.is_fixed()).map(|s| s.who).collect();
        between.into_iter().for_each(|who| list.moves_to_the_end(who));
        if stay {
            list.moves_to_the_end(room.from);
        } else {
            self.goes(name, 0, !stopped);
        }
    }

    /// A stock client loses its lease and everything on it.
    fn is_taken_away(&mut self, name: &'static str, spot: &Spot) {
        if !spot.stock {
            return self.goes_together(name, spot, true);
        }
        if self.living.contains(&spot.who) {
            if spot.holds {
                self.delays.insert((name, spot.who));
            }
            self.dies(spot.who, true);
        }
    }

    fn freezes(&mut self, name: &'static str) {
        let list = self.list(name);
        let mark = list.at(FROST);
        let before = list.spots[..mark.unwrap_or(list.spots.len())].to_vec();
        for spot in before {
            if spot.stock || spot.holds {
                self.is_taken_away(name, &spot);
            }
        }
        let list = self.list(name);
        if mark.is_none() {
            list.spots.push(Spot::stock(FROST));
            let waiting: Vec<i64> = list.spots.iter().filter(|s| !s.stock).map(|s| s.who).collect();
            waiting.into_iter().for_each(|who| list.moves_to_the_end(who));
        }
    }

    /// A session that holds everything it came for is told, unless it must wait for a former holder's stop.
    fn tells(&mut self) {
        let before = self.clone();
        let ready = |name: &'static str, spot: &Spot| {
            let delayed = before.delays.iter().any(|(other, _)| *other == name);
            let list = &before.elections[name];
            let holds = list.at(spot.who).is_some_and(|at| list.spots[at].holds);
            spot.stock || holds && !(spot.manner.no_overlap && delayed)
        };
        for (name, list) in &mut self.elections {
            for spot in list.spots.iter_mut().filter(|spot| spot.holds) {
                let mut names = NAMES.into_iter().filter(|other| spot.both || other == name);
                spot.told |= names.all(|name| ready(name, spot));
            }
        }
    }
}

impl List {
    pub(crate) fn at(&self, who: i64) -> Option<usize> {
        self.spots.iter().position(|spot| spot.who == who)
    }

    fn leader(&self) -> Option<&Spot> {
        self.spots.first().filter(|first| first.holds)
    }

    fn remove(&mut self, at: usize) -> Spot {
        let spot = self.spots.remove(at);
        self.loosened |= spot.is_fixed();
        if at == 0 && spot.holds {
            self.chosen = None;
        }
        spot
    }

    fn moves_to_the_end(&mut self, who: i64) {
        if let Some(at) = self.at(who) {
            let spot = self.remove(at);
            self.spots.push(Spot { holds: false, told: false, ..spot });
        }
    }

    fn goes_with(&self, mode: Mode) -> bool {
        let other =
            |spot: &Spot| matches!(spot.manner.mode, Mode::Permit(_)) && spot.manner.mode != mode;
        !matches!(mode, Mode::Permit(_)) || !self.spots.iter().any(other)
    }

    fn has_room(&self, mode: Mode) -> bool {
        let alike = self.spots.iter().all(|spot| spot.holds && spot.manner.mode == mode);
        alike && self.spots.len() < most(mode)
    }

    /// The index of the first candidate that can be passed.
    fn behind_fixed(&self) -> usize {
        self.spots.iter().rposition(Spot::is_fixed).map_or(0, |at| at + 1)
    }

    fn is_wanted(&self, spot: &Spot) -> bool {
        self.room.is_some_and(|room| room.by_operator && room.to == spot.who)
    }

    fn arrives(&mut self, spot: Spot) {
        let (who, priority) = (spot.who, spot.manner.priority);
        self.spots.push(spot);
        let passed: Vec<i64> = self.spots[self.behind_fixed()..]
            .iter()
            .filter(|other| {
                !other.holds && !self.is_wanted(other) && other.manner.priority < priority
            })
            .map(|other| other.who)
            .collect();
        passed.into_iter().for_each(|other| self.moves_to_the_end(other));
        self.overrules(who);
    }

    fn reports(&mut self, who: i64, unhealthy: bool) {
        let Some(at) = self.at(who).filter(|at| !self.spots[*at].stock) else { return };
        let spot = &mut self.spots[at];
        if unhealthy && spot.both {
            return;
        }
        let was_well = spot.is_well();
        spot.manner.unhealthy = unhealthy;
        let holds = spot.holds;
        if unhealthy && holds && spot.manner.mode == Mode::Exclusive {
            self.moves_to_the_end(who);
        }
        if !was_well && !unhealthy && !holds {
            self.ranks();
            self.overrules(who);
        }
    }

    fn transfers(&mut self, to: i64) {
        let Some(at) = self.at(to).filter(|at| !self.spots[*at].stock) else { return };
        let (spot, ahead) = (&self.spots[at], &self.spots[..at]);
        let in_the_way = |spot: &Spot| spot.is_fixed() || spot.manner.mode != Mode::Exclusive;
        let refused = self.at(FROST).is_some()
            || spot.holds
            || !spot.is_well()
            || spot.is_fixed()
            || ahead.iter().any(in_the_way)
            || self.room.is_some_and(|room| room.to != to);
        if let Some(leader) = self.leader().filter(|_| !refused) {
            self.room = Some(Room { to, from: leader.who, by_operator: true });
            self.chosen = None;
        }
    }

    /// Candidates that wait and can be passed are put in order of priority; one that is in order already stays.
    fn ranks(&mut self) {
        let waits = |spot: &&Spot| !spot.holds && spot.is_well() && !self.is_wanted(spot);
        let waiting = self.spots[self.behind_fixed()..].iter().filter(waits);
        let mut ranked: Vec<(u32, i64)> =
            waiting.map(|spot| (spot.manner.priority, spot.who)).collect();
        ranked.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
        let mut last = 0;
        let mut is_right = true;
        for (_, who) in ranked {
            let at = self.at(who).unwrap();
            is_right &= at >= last;
            last = at;
            if !is_right {
                self.moves_to_the_end(who);
            }
        }
    }

    /// The candidates that would lead if there were no leader, and have a higher priority than it.
    fn above(&self) -> Vec<&Spot> {
        let Some(leader) = self.leader() else { return vec![] };
        if leader.is_fixed() || leader.manner.mode != Mode::Exclusive {
            return vec![];
        }
        let behind = self.spots[1..].iter().take_while(|spot| !spot.is_fixed());
        let well = behind.filter(|spot| spot.is_well());
        well.take_while(|spot| spot.manner.priority > leader.manner.priority).collect()
    }

    fn overrules(&mut self, newcomer: i64) {
        if self.above().iter().any(|spot| spot.who == newcomer && spot.manner.preempts) {
            self.chosen = None;
        }
    }

    fn settles(&mut self) {
        self.begun |= self.spots.iter().any(|spot| spot.who != DATA);
        if std::mem::take(&mut self.loosened) {
            self.ranks();
        }
        self.room_is_made();
        while let Some(first) = self.spots.first()
            && !first.holds
            && !first.is_well()
            && first.manner.mode == Mode::Exclusive
            && self.spots.iter().any(|spot| spot.who != FROST && spot.is_well())
        {
            self.moves_to_the_end(first.who);
        }
        self.holds();
        self.loosened = false;
        if self.chosen != self.leader().map(|leader| leader.who) {
            self.chosen = None;
        }
        self.pre_empts();
    }

    /// A transfer is called off, or carried out.
    fn room_is_made(&mut self) {
        let Some(room) = self.room else { return };
        let Some(to) = self.at(room.to).filter(|to| self.spots[*to].is_well()) else {
            self.room = None;
            return;
        };
        if self.leader().is_some_and(|leader| leader.who == room.from) {
            return;
        }
        self.room = None;
        self.chosen = Some(room.to).filter(|_| room.by_operator);
        let passed: Vec<i64> =
            self.spots[..to].iter().filter(|spot| !spot.is_fixed()).map(|spot| spot.who).collect();
        passed.into_iter().for_each(|who| self.moves_to_the_end(who));
        self.holds();
        self.ranks();
    }

    fn holds(&mut self) {
        let Some(first) = self.spots.first().filter(|first| first.who != FROST) else { return };
        let mode = first.manner.mode;
        if mode == Mode::Exclusive && !first.is_well() && !first.holds {
            return;
        }
        let alike = self.spots.iter_mut().take_while(|spot| spot.manner.mode == mode);
        alike.take(most(mode)).for_each(|spot| spot.holds = true);
    }

    fn pre_empts(&mut self) {
        if self.chosen.is_some() || self.room.is_some_and(|room| room.by_operator) {
            return;
        }
        let above = self.above();
        let is_pre_empted = above.iter().any(|spot| spot.manner.preempts);
        let to = above.first().filter(|_| is_pre_empted).map(|spot| spot.who);
        self.room = to.map(|to| Room { to, from: self.spots[0].who, by_operator: false });
    }
}

fn most(mode: Mode) -> usize {
    match mode {
        Mode::Exclusive => 1,
        Mode::Shared => usize::MAX,
        Mode::Permit(permits) => permits as usize,
    }
}
