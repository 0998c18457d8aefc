//! The generated halves of etcd's services: a trait to implement and a tower service each.

#![allow(missing_docs, unreachable_pub, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/etcdserverpb.rs"));
include!(concat!(env!("OUT_DIR"), "/v3electionpb.rs"));
include!(concat!(env!("OUT_DIR"), "/v3lockpb.rs"));
include!(concat!(env!("OUT_DIR"), "/tenure.v1.rs"));
