//! A client that watches, reads slowly at times, and continues at another member when its own dies.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_api::{Revision, Span};
use tenure_replica::watch::{Interest, WatchCreate, WatchId, WatchInput, WatchNews, WatchStream};

use super::SimClient;
use crate::{
    cluster::{World, event::WorldEvent, member::MemberNumber},
    engine::{ms, us},
    invariants::watch_history::WatchHistory,
};

#[derive(Default)]
pub struct WatchClient {
    stream: Option<(WatchStream, MemberNumber)>,
    watches: BTreeMap<WatchId, Watch>,
    /// Received bytes that it has not acknowledged yet.
    unread: usize,
    next_id: WatchId,
}

struct Watch {
    history: WatchHistory,
    /// The revision from which it was requested; none means from now on.
    start: Option<Revision>,
    created: bool,
}

impl WatchClient {
    fn open(&mut self, me: usize, world: &mut World) {
        let Some(member) = world.some_member() else { return };
        let Some(stream) = world.open_stream(me, member) else { return };
        self.stream = Some((stream, member));
        self.unread = 0;
        for watch in self.watches.values_mut() {
            watch.start = Some(watch.history.next);
            watch.created = false;
        }
        // A watch that was never confirmed is requested again.
        for (id, watch) in &self.watches {
            create(world, stream, member, *id, watch);
        }
        while self.watches.len() < 3 {
            let id = self.next_id;
            self.next_id += 1;
            let watch = new_watch(world);
            create(world, stream, member, id, &watch);
            self.watches.insert(id, watch);
        }
    }

    fn close(&mut self, world: &mut World) {
        if let Some((stream, member)) = self.stream.take() {
            world.watch(member, WatchInput::Closed(stream));
            world.streams.remove(&stream);
        }
        self.watches.retain(|_, watch| watch.created);
    }

    fn read_some(&mut self, world: &mut World) {
        let Some((stream, member)) = self.stream else { return };
        if self.unread > 0 {
            let bytes = std::mem::take(&mut self.unread);
            world.watch(member, WatchInput::Drained(stream, bytes));
        }
    }
}

fn create(
    world: &mut World,
    stream: WatchStream,
    member: MemberNumber,
    id: WatchId,
    watch: &Watch,
) {
    let create = WatchCreate {
        by: world.by.clone(),
        id: Some(id),
        interest: watch.history.interest.clone(),
        start: watch.start,
        progress_notify: id % 2 == 0,
    };
    world.watch(member, WatchInput::Create(stream, create));
}

fn new_watch(world: &mut World) -> Watch {
    let span = match world.dice.below(5) {
        0 => Span::prefix(Bytes::from_static(b"s/")),
        1 => Span::prefix(Bytes::from_static(b"p/")),
        2 => Span::Between(Bytes::from_static(b"r1"), Bytes::from_static(b"r4")),
        3 => Span::From(Bytes::new()),
        _ => Span::One(format!("r{}", world.dice.below(5)).into()),
    };
    let interest = Interest {
        span,
        no_put: world.dice.chance(100),
        no_delete: world.dice.chance(100),
        prev_kv: world.dice.chance(300),
    };
    let newest = world.invariants.linearizable.horizon.0;
    let start = match world.dice.below(3) {
        0 => None,
        1 => Some(Revision((newest - world.dice.below(60) as i64).max(1))),
        _ => Some(Revision(newest + world.dice.below(20) as i64 + 1)),
    };
    let next = start.unwrap_or_default();
    Watch { history: WatchHistory { interest, next }, start, created: false }
}

impl SimClient for WatchClient {
    fn turn(&mut self, me: usize, world: &mut World) {
        self.read_some(world);
        match self.stream {
            None => self.open(me, world),
            Some((stream, member)) => match world.dice.below(60) {
                0 if !world.resting => self.close(world),
                1 => world.watch(member, WatchInput::Progress(stream)),
                2 if !world.resting => {
                    if let Some((id, _)) = self.watches.pop_first() {
                        world.watch(member, WatchInput::Cancel(stream, id));
                    }
                }
                _ => {}
            },
        }
        // Sometimes it reads so slowly that it falls behind.
        let slow = !world.resting && world.dice.chance(100);
        let delay = if slow { ms(900) } else { world.dice.duration(us(500), ms(60)) };
        world.agenda.after(delay, WorldEvent::ClientTurn(me));
    }

    fn watch_news(&mut self, _me: usize, world: &mut World, stream: WatchStream, news: &WatchNews) {
        assert_eq!(self.stream.map(|(stream, _)| stream), Some(stream));
        let (truth, counts) = (&world.truth, &mut world.counts);
        match news {
            WatchNews::Created { to, revision } => {
                if let Some(watch) = self.watches.get_mut(&to.id) {
                    watch.created = true;
                    if watch.start.is_none() {
                        watch.history.next = revision.next();
                    }
                }
            }
            WatchNews::Refused { why, .. } => panic!("a watch was refused: {why}"),
            WatchNews::Cancelled { to, compacted, .. } => {
                let watch = self.watches.remove(&to.id);
                if let (Some(compacted), Some(watch)) = (compacted, watch) {
                    counts.count("watch_compacted");
                    watch.history.check_compacted(*compacted, truth);
                }
            }
            WatchNews::Events { to, events, cost, .. } => {
                for told in to.iter().filter(|told| told.stream == stream) {
                    self.unread += cost;
                    if let Some(watch) = self.watches.get_mut(&told.id) {
                        watch.history.hear(events, truth, counts);
                    }
                }
            }
            WatchNews::Progress { id: Some(id), revision, .. } => {
                counts.count("watch_progress");
                if let Some(watch) = self.watches.get_mut(id) {
                    watch.history.check_progress(*revision, truth, counts);
                }
            }
            WatchNews::Progress { id: None, revision, .. } => {
                counts.count("watch_progress");
                for watch in self.watches.values_mut().filter(|watch| watch.created) {
                    watch.history.check_progress(*revision, truth, counts);
                }
            }
        }
    }

    fn member_gone(&mut self, _me: usize, _world: &mut World, member: MemberNumber) {
        if self.stream.is_some_and(|(_, at)| at == member) {
            self.stream = None;
            self.watches.retain(|_, watch| watch.created);
        }
    }

    fn settled(&mut self, world: &mut World) {
        let newest = world.truth.state().store.revision();
        for watch in self.watches.values_mut().filter(|watch| watch.created) {
            watch.history.check_progress(newest, &world.truth, &mut world.counts);
        }
    }
}
