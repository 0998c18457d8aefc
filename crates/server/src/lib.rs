//! server

pub mod disk;
