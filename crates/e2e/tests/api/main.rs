//! What clients of etcd see: the rpcs, the gateway, their errors and limits.
#![allow(clippy::unwrap_used)]

mod connections;
mod dead_clients;
mod differential;
mod errors;
mod etcdctl;
mod etcdctl_verbs;
mod foreign_clients;
mod gateway;
mod gateway_bad_input;
mod gateway_streams;
mod health;
mod lease;
mod limits;
mod long_reads;
mod maintenance;
mod metrics;
mod overload;
mod overload_measured;
mod overload_starved;
mod reflection;
mod tls;
mod traces;
mod ui;
mod watch;
mod watch_limits;
