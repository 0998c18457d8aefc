//! Elections, locks and fences: the library, stock clients, and what others got wrong.
#![allow(clippy::unwrap_used)]

mod cut_off_observers;
mod electors_cluster;
mod examples;
mod fence_postgres;
mod fenced_service;
mod granted_leases;
mod guarded_writes;
mod hundreds;
mod mid_operation;
mod peer_faults;
mod peer_faults_elections;
mod peer_faults_failover;
mod peer_faults_locks;
mod peer_faults_observers;
mod peer_faults_sessions;
mod peer_faults_watches;
mod recipes;
mod recipes_cluster;
mod recipes_processes;
mod session_ends;
mod sessions;
mod sessions_during_maintenance;
mod stock_clients;
