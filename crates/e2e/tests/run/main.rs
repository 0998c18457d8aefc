//! Programs under a lease, and what stands between them and the world.
#![allow(clippy::unwrap_used)]

mod deploy;
mod docs_links;
mod fence_proxy;
mod fence_proxy_bodies;
mod fence_proxy_clients;
mod fence_proxy_crowd;
mod fence_proxy_ends;
mod fence_proxy_heads;
mod fence_proxy_page;
mod once;
mod public_names;
mod run;
mod run_bad_days;
mod run_terminal;
mod sidecar;
mod sidecar_faults;
mod stonith;
mod strangers;
mod systemd;
mod tutorial;
mod up;
