//! What a gate knows: the newest tokens it has seen, and which are inside. No clock, no lock, no disk.
//!
//! Every resource, and every slot of a semaphore, is a [`Place`] with a mark for its newest exclusive
//! token and one for its newest shared token. The rules, for one place:
//!
//! | token *t*, held | is stale if | waits while inside is |
//! |---|---|---|
//! | exclusively | a newer token of either kind was seen | any older token |
//! | shared | a newer exclusive token was seen | an older exclusive token |
//!
//! A reader also makes older writers stale: it was given its hold after they had lost theirs. It does
//! not make older readers stale, for they may hold together with it; nor do they wait for each other.
//!
//! A token is *seen* before it is let in. A waiting token already keeps older ones out, so that waiting comes to an
//! end: no older token enters any more.

use std::{collections::BTreeMap, sync::Arc};

use super::{FencingToken, GateLimits, Hold, Pass, RESOURCE_BYTES_MAX, Refusal};

/// One series of growing tokens: a resource, or one slot of a semaphore.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) resource: Arc<str>,
    pub(super) slot: Option<u32>,
}

impl Place {
    pub(super) fn of(pass: &Pass<'_>) -> Place {
        let slot = match pass.hold {
            Hold::Permit { slot } => Some(slot),
            Hold::Exclusive | Hold::Shared => None,
        };
        Place { resource: pass.resource.into(), slot }
    }
}

/// The newest tokens seen at a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) exclusive: Option<FencingToken>,
    pub(super) shared: Option<FencingToken>,
}

impl Marks {
    /// The token that makes this one stale, if one does.
    fn above(&self, token: FencingToken, shared: bool) -> Option<FencingToken> {
        let newest = if shared { self.exclusive } else { self.exclusive.max(self.shared) };
        newest.filter(|newest| *newest > token)
    }

    /// Takes note of a token. Says whether that changed anything.
    fn see(&mut self, token: FencingToken, shared: bool) -> bool {
        let mark = if shared { &mut self.shared } else { &mut self.exclusive };
        let newer = *mark < Some(token);
        if newer {
            *mark = Some(token);
        }
        newer
    }
}

/// How many hold the same token inside. One holder may do several things at once.
type Inside = BTreeMap<FencingToken, usize>;

#[derive(Debug, Default)]
struct Line {
    marks: Marks,
    /// The edition of the book in which the marks last changed.
    edition: u64,
    writers: Inside,
    readers: Inside,
}

impl Line {
    fn inside(&mut self, shared: bool) -> &mut Inside {
        if shared { &mut self.readers } else { &mut self.writers }
    }

    fn older_inside(&self, token: FencingToken, shared: bool) -> usize {
        let older = |inside: &Inside| inside.range(..token).map(|(_, count)| count).sum::<usize>();
        older(&self.writers) + if shared { 0 } else { older(&self.readers) }
    }
}

/// Everything a gate knows.
#[derive(Debug)]
pub(super) struct Book {
    limits: GateLimits,
    lines: BTreeMap<Place, Line>,
    edition: u64,
}

/// Why a token that was seen cannot come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// A newer token was seen meanwhile.
    Stale { in_force: FencingToken },
    /// So many older ones are inside.
    Older(usize),
}

impl Book {
    /// A book with these marks in it, which may be more than the limits allow: what is written down
    /// is never dropped.
    pub(super) fn with(limits: GateLimits, marks: BTreeMap<Place, Marks>) -> Book {
        let line = |marks| Line { marks, ..Line::default() };
        let lines = marks.into_iter().map(|(place, marks)| (place, line(marks))).collect();
        Book { limits, lines, edition: 0 }
    }

    /// Takes note of a token, which makes older ones stale. Answers the edition of the book that has
    /// to be written down before the token may be let in.
    pub(super) fn see(&mut self, pass: &Pass<'_>) -> Result<u64, Refusal> {
        let bytes = pass.resource.len();
        if bytes > RESOURCE_BYTES_MAX {
            return Err(Refusal::NameTooLong { bytes });
        }
        let place = Place::of(pass);
        if !self.lines.contains_key(&place) && self.lines.len() >= self.limits.resources_max {
            let resources_max = self.limits.resources_max;
            return Err(Refusal::NoRoom { resource: pass.resource.to_owned(), resources_max });
        }
        let (token, shared) = (pass.token, pass.hold == Hold::Shared);
        let line = self.lines.entry(place).or_default();
        if let Some(in_force) = line.marks.above(token, shared) {
            return Err(Refusal::Stale { token, in_force });
        }
        if line.marks.see(token, shared) {
            self.edition += 1;
            line.edition = self.edition;
        }
        Ok(line.edition)
    }

    /// Lets in a token that was seen before.
    pub(super) fn enter(
        &mut self,
        place: &Place,
        token: FencingToken,
        shared: bool,
    ) -> Result<(), Held> {
        let line = self.lines.get_mut(place).expect("its token was seen, and no line is dropped");
        if let Some(in_force) = line.marks.above(token, shared) {
            return Err(Held::Stale { in_force });
        }
        match line.older_inside(token, shared) {
            0 => {
                *line.inside(shared).entry(token).or_default() += 1;
                Ok(())
            }
            older => Err(Held::Older(older)),
        }
    }

    /// A token that was let in has left.
    pub(super) fn leave(&mut self, place: &Place, token: FencingToken, shared: bool) {
        let line = self.lines.get_mut(place).expect("who is inside came through this line");
        let inside = line.inside(shared);
        let count = inside.get_mut(&token).expect("who leaves was counted");
        *count -= 1;
        if *count == 0 {
            inside.remove(&token);
        }
    }

    /// The newest token that an exclusive holder of this place is measured against.
    pub(super) fn in_force(&self, place: &Place) -> Option<FencingToken> {
        self.lines.get(place).and_then(|line| line.marks.exclusive.max(line.marks.shared))
    }

    /// Whether this token would be refused by now.
    pub(super) fn overtaken(&self, place: &Place, token: FencingToken, shared: bool) -> bool {
        self.lines.get(place).is_some_and(|line| line.marks.above(token, shared).is_some())
    }

    /// How often a newer token was seen.
    pub(super) fn edition(&self) -> u64 {
        self.edition
    }

    /// Everything that must survive, and its edition.
    pub(super) fn marks(&self) -> (u64, BTreeMap<Place, Marks>) {
        let marks = self.lines.iter().map(|(place, line)| (place.clone(), line.marks));
        (self.edition, marks.collect())
    }
}
