//! `process_*` and `os_fd_*`: what the kernel says about this process.

use std::fs;

use prometheus::{Counter, Gauge};
use rustix::{
    param::{clock_ticks_per_second, page_size},
    process::{Resource, getrlimit},
};

use super::make::Maker;

pub(super) struct ProcessMetrics {
    cpu_seconds: Counter,
    open_fds: Gauge,
    resident: Gauge,
    virtual_memory: Gauge,
    used_fds: Gauge,
}

impl ProcessMetrics {
    pub(super) fn new(make: &Maker<'_>) -> ProcessMetrics {
        let limit = |resource| getrlimit(resource).current.map_or(u64::MAX as f64, |max| max as f64);
        let fds = limit(Resource::Nofile);
        make.float("process_max_fds", "Files that may be open.").set(fds);
        make.float("os_fd_limit", "Files that may be open.").set(fds);
        make.float("process_virtual_memory_max_bytes", "Address space that may be used.")
            .set(limit(Resource::As));
        let started = "When the process started, in seconds since 1970.";
        make.float("process_start_time_seconds", started).set(started_at().unwrap_or_default());
        ProcessMetrics {
            cpu_seconds: make.float_counter("process_cpu_seconds_total", "CPU time used."),
            open_fds: make.float("process_open_fds", "Files that are open."),
            used_fds: make.float("os_fd_used", "Files that are open."),
            resident: make.float("process_resident_memory_bytes", "Memory in use."),
            virtual_memory: make.float("process_virtual_memory_bytes", "Address space in use."),
        }
    }

    pub(super) fn read(&self) {
        if let Some(stat) = Stat::read() {
            self.cpu_seconds.inc_by((stat.cpu_seconds - self.cpu_seconds.get()).max(0.0));
            self.resident.set(stat.resident_bytes);
            self.virtual_memory.set(stat.virtual_bytes);
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            let open = open.count() as f64;
            self.open_fds.set(open);
            self.used_fds.set(open);
        }
    }
}

struct Stat {
    cpu_seconds: f64,
    /// Since the machine started.
    started_seconds: f64,
    virtual_bytes: f64,
    resident_bytes: f64,
}

impl Stat {
    fn read() -> Option<Stat> {
        let line = fs::read_to_string("/proc/self/stat").ok()?;
        // The name comes second, in parentheses, and may hold anything.
        let (_, after_name) = line.rsplit_once(')')?;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        // Numbered as in proc(5), where the field after the name is the third.
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let ticks = clock_ticks_per_second() as f64;
        Some(Stat {
            cpu_seconds: (field(14)? + field(15)?) / ticks,
            started_seconds: field(22)? / ticks,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * page_size() as f64,
        })
    }
}

fn started_at() -> Option<f64> {
    let kernel = fs::read_to_string("/proc/stat").ok()?;
    let booted = kernel.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(booted.trim().parse::<f64>().ok()? + Stat::read()?.started_seconds)
}
