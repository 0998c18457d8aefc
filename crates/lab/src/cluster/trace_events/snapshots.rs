//! Snapshots, notices, and connections between members.

use tenure_replica::{LogIndex, Moment, Notice, RaftMessage, SnapshotMark};

use super::micros;
use crate::{
    cluster::{World, member::MemberNumber},
    engine::TraceEvent,
};

impl World {
    /// Traces a step of a snapshot: taken, saved, failed.
    pub(in crate::cluster) fn trace_snapshot(
        &mut self,
        member: MemberNumber,
        step: &'static str,
        index: LogIndex,
    ) {
        self.trace_event(|| {
            TraceEvent::new("snapshot", format!("snapshot of {index}: {step}"))
                .of(format!("m{member}"))
                .with("step", step)
                .with("index", index)
        });
    }

    pub(in crate::cluster) fn trace_snapshot_sent(
        &mut self,
        from: MemberNumber,
        message: &RaftMessage,
        arrives: Moment,
    ) {
        self.trace_event(|| {
            let to = format!("m{}", message.to.0);
            TraceEvent::new("snapshot", format!("-> {to} snapshot {:?}", message.snapshot))
                .of(format!("m{from}"))
                .with("step", "sent")
                .with("index", message.snapshot.as_ref().map(|mark| mark.index))
                .with("to", to)
                .with("arrives", [micros(arrives)])
        });
    }

    /// Traces the arrival of a snapshot, or its loss.
    pub(in crate::cluster) fn trace_snapshot_came(
        &mut self,
        (from, to): (MemberNumber, MemberNumber),
        mark: &SnapshotMark,
        good: bool,
    ) {
        self.trace_event(|| {
            let (from, index) = (format!("m{from}"), mark.index);
            let (step, text) = match good {
                true => ("arrived", format!("has the snapshot of {index} from {from}")),
                false => ("lost", format!("does not get the snapshot of {index} from {from}")),
            };
            TraceEvent::new("snapshot", text)
                .of(format!("m{to}"))
                .with("step", step)
                .with("index", index)
                .with("from", from)
        });
    }

    pub(in crate::cluster) fn trace_notice(&mut self, member: MemberNumber, notice: &Notice) {
        self.trace_event(|| {
            let text = format!("notices {notice:?}");
            let event = match notice {
                Notice::SnapshotInstalled(index) => TraceEvent::new("snapshot", text)
                    .with("step", "installed")
                    .with("index", *index),
                _ => TraceEvent::new("notice", text),
            };
            event.of(format!("m{member}"))
        });
    }

    pub(in crate::cluster) fn trace_reset(&mut self, a: MemberNumber, b: MemberNumber) {
        self.trace_event(|| {
            TraceEvent::new("reset", format!("connection from m{a} to m{b} is reset"))
                .with("between", [format!("m{a}"), format!("m{b}")])
        });
    }

    pub(in crate::cluster) fn trace_connect(&mut self, a: MemberNumber, b: MemberNumber) {
        self.trace_event(|| {
            TraceEvent::new("connect", format!("connection from m{a} to m{b} stands"))
                .with("between", [format!("m{a}"), format!("m{b}")])
        });
    }
}
