//! `etcd_network_*`: bytes to and from clients and members.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGaugeVec};
use tenure_api::MemberId;

use super::make::{Buckets, Maker, raise};
use crate::peer::Traffic;

pub(crate) struct NetworkMetrics {
    me: String,
    pub(crate) client_received: IntCounter,
    pub(crate) client_sent: IntCounter,
    pub(crate) client_held: IntCounter,
    peer_sent: IntCounterVec,
    peer_received: IntCounterVec,
    peer_dropped: IntCounterVec,
    round_trip: HistogramVec,
    /// The last of each member.
    round_trips: Mutex<BTreeMap<MemberId, Duration>>,
    active: IntGaugeVec,
    disconnected: IntCounterVec,
    snapshots_sent: IntCounterVec,
    snapshots_unsent: IntCounterVec,
    snapshots_received: IntCounterVec,
}

impl NetworkMetrics {
    pub(super) fn new(make: &Maker<'_>, me: MemberId) -> NetworkMetrics {
        NetworkMetrics {
            me: me.to_string(),
            client_received: make.counter(
                "etcd_network_client_grpc_received_bytes_total",
                "Bytes received on client connections.",
            ),
            client_sent: make.counter(
                "etcd_network_client_grpc_sent_bytes_total",
                "Bytes sent on client connections.",
            ),
            client_held: make.counter(
                "tenure_client_reads_held_total",
                "How often a client connection that had brought much was not read before the core loop had its turn.",
            ),
            peer_sent: make.counters(
                "etcd_network_peer_sent_bytes_total",
                "Bytes sent to a member, without snapshots.",
                &["To"],
            ),
            peer_received: make.counters(
                "etcd_network_peer_received_bytes_total",
                "Bytes received from a member, without snapshots.",
                &["From"],
            ),
            peer_dropped: make.counters(
                "etcd_network_peer_sent_failures_total",
                "Messages to a member that were dropped: it was not connected, or did not keep up.",
                &["To"],
            ),
            round_trip: make.histograms(
                "etcd_network_peer_round_trip_time_seconds",
                "From a heartbeat of this raft leader to the member's answer.",
                &["To"],
                Buckets { first: 0.0001, count: 16 },
            ),
            round_trips: Mutex::default(),
            active: make.gauges(
                "etcd_network_active_peers",
                "Whether messages can be sent to a member.",
                &["Local", "Remote"],
            ),
            disconnected: make.counters(
                "etcd_network_disconnected_peers_total",
                "How often a member's connection was lost.",
                &["Local", "Remote"],
            ),
            snapshots_sent: make.counters(
                "etcd_network_snapshot_send_success",
                "Snapshots that a member has, durably.",
                &["To"],
            ),
            snapshots_unsent: make.counters(
                "etcd_network_snapshot_send_failures",
                "Snapshots that did not get through to a member.",
                &["To"],
            ),
            snapshots_received: make.counters(
                "etcd_network_snapshot_receive_success",
                "Snapshots received from a member.",
                &["From"],
            ),
        }
    }

    pub(crate) fn traffic(&self, traffic: &[Traffic]) {
        for Traffic { member, sent_bytes, received_bytes, dropped } in traffic {
            let member = [&member.to_string()[..]];
            raise(&self.peer_sent.with_label_values(&member), *sent_bytes);
            raise(&self.peer_received.with_label_values(&member), *received_bytes);
            raise(&self.peer_dropped.with_label_values(&member), *dropped);
        }
    }

    pub(crate) fn connected(&self, member: MemberId) {
        self.active.with_label_values(&[&self.me[..], &member.to_string()]).set(1);
    }

    pub(crate) fn lost(&self, member: MemberId) {
        let member = member.to_string();
        self.active.with_label_values(&[&self.me, &member]).set(0);
        self.disconnected.with_label_values(&[&self.me, &member]).inc();
    }

    pub(crate) fn round_trip(&self, member: MemberId, took: Duration) {
        let to = member.to_string();
        self.round_trip.with_label_values(&[&to[..]]).observe(took.as_secs_f64());
        self.round_trips().insert(member, took);
    }

    /// The last round trip to each member to which this one sent heartbeats.
    pub(crate) fn round_trips(&self) -> MutexGuard<'_, BTreeMap<MemberId, Duration>> {
        self.round_trips.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn snapshot_sent(&self, to: MemberId, arrived: bool) {
        let counters = if arrived { &self.snapshots_sent } else { &self.snapshots_unsent };
        counters.with_label_values(&[&to.to_string()[..]]).inc();
    }

    pub(crate) fn snapshot_received(&self, from: MemberId) {
        self.snapshots_received.with_label_values(&[&from.to_string()[..]]).inc();
    }
}
