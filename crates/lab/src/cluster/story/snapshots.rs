//! Snapshots, and connections between members.

use tenure_replica::{LogIndex, Moment, Notice, RaftMessage, SnapshotMark};

use super::micros;
use crate::{
    cluster::{World, member::Number},
    engine::Event,
};

impl World {
    /// A snapshot is taken, was saved, or was not.
    pub(in crate::cluster) fn tell_snapshot(
        &mut self,
        member: Number,
        step: &'static str,
        index: LogIndex,
    ) {
        self.tell_event(|| {
            Event::new("snapshot", format!("snapshot of {index}: {step}"))
                .of(format!("m{member}"))
                .with("step", step)
                .with("index", index)
        });
    }

    pub(in crate::cluster) fn tell_snapshot_sent(
        &mut self,
        from: Number,
        message: &RaftMessage,
        arrives: Moment,
    ) {
        self.tell_event(|| {
            let to = format!("m{}", message.to.0);
            Event::new("snapshot", format!("-> {to} snapshot {:?}", message.snapshot))
                .of(format!("m{from}"))
                .with("step", "sent")
                .with("index", message.snapshot.as_ref().map(|mark| mark.index))
                .with("to", to)
                .with("arrives", [micros(arrives)])
        });
    }

    /// It has gone over the wire, or was lost there.
    pub(in crate::cluster) fn tell_snapshot_came(
        &mut self,
        (from, to): (Number, Number),
        mark: &SnapshotMark,
        good: bool,
    ) {
        self.tell_event(|| {
            let (from, index) = (format!("m{from}"), mark.index);
            let (step, text) = match good {
                true => ("arrived", format!("has the snapshot of {index} from {from}")),
                false => ("lost", format!("does not get the snapshot of {index} from {from}")),
            };
            Event::new("snapshot", text)
                .of(format!("m{to}"))
                .with("step", step)
                .with("index", index)
                .with("from", from)
        });
    }

    pub(in crate::cluster) fn tell_notice(&mut self, member: Number, notice: &Notice) {
        self.tell_event(|| {
            let text = format!("notices {notice:?}");
            let event = match notice {
                Notice::SnapshotInstalled(index) => {
                    Event::new("snapshot", text).with("step", "installed").with("index", *index)
                }
                _ => Event::new("notice", text),
            };
            event.of(format!("m{member}"))
        });
    }

    pub(in crate::cluster) fn tell_reset(&mut self, a: Number, b: Number) {
        self.tell_event(|| {
            Event::new("reset", format!("connection of m{a} and m{b} is reset"))
                .with("between", [format!("m{a}"), format!("m{b}")])
        });
    }

    pub(in crate::cluster) fn tell_connect(&mut self, a: Number, b: Number) {
        self.tell_event(|| {
            Event::new("connect", format!("m{a} and m{b} are connected"))
                .with("between", [format!("m{a}"), format!("m{b}")])
        });
    }
}
