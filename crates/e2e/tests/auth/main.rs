//! Users, roles and tokens: the same on a real etcd and on us, and what is stricter here.
#![allow(clippy::unwrap_used)]

mod asking;
mod commands;
mod library;
mod stage;
mod transcript;
