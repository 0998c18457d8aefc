//! The etcd-client crate, which many Rust programs use, against our servers. Only tests live here.
//!
//! A crate of its own, and none of the default ones: building etcd-client needs `protoc`.
