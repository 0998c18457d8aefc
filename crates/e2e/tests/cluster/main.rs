//! Members that start, crash, are cut apart, changed, backed up and restored.
#![allow(clippy::unwrap_used)]

mod backup;
mod catch_up;
mod comeback;
mod config;
mod crash;
mod disk;
mod embedded;
mod formats;
mod import;
mod leaving;
mod log_lines;
mod membership;
mod needs_leader;
mod one_direction;
mod partition;
mod peer_tls;
mod power;
mod progress;
mod replacing;
mod retention;
mod rolling;
mod startup;
mod strangers;
mod view;
