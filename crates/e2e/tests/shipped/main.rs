//! What is shipped beside the binary: pages, manifests, units, and the names that they use.
#![allow(clippy::unwrap_used)]

mod deploy;
mod docs_links;
mod limits;
mod public_names;
mod runbook;
mod systemd;
mod tutorial;
