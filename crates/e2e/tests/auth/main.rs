//! Users, roles and tokens: the same on a real etcd and on us, and what is stricter here.
#![allow(clippy::unwrap_used)]

mod asking;
mod at_work;
mod audit;
mod certificates;
mod commands;
mod foreign_clients;
mod gateway;
mod lessons;
mod library;
mod stage;
mod transcript;
