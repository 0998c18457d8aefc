//! `process_*` and `os_fd_*`: what the kernel says about this process.

use std::{fs, time::SystemTime};

use prometheus::{Counter, Gauge};
use rustix::{
    process::{Resource, getrlimit},
    time::{ClockId, clock_gettime},
};

use super::make::Maker;

pub(super) struct ProcessMetrics {
    cpu_seconds: Counter,
    open_fds: Gauge,
    used_fds: Gauge,
    resident: Gauge,
    virtual_memory: Gauge,
}

impl ProcessMetrics {
    pub(super) fn new(make: &Maker<'_>) -> ProcessMetrics {
        // Go's client library writes no limit as the largest number, too.
        let limit =
            |resource| getrlimit(resource).current.map_or(u64::MAX as f64, |max| max as f64);
        let fds = limit(Resource::Nofile);
        make.float("process_max_fds", "Files that may be open.").set(fds);
        make.float("os_fd_limit", "Files that may be open.").set(fds);
        make.float("process_virtual_memory_max_bytes", "Address space that may be used.")
            .set(limit(Resource::As));
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let started = "When the server started, in seconds since 1970.";
        make.float("process_start_time_seconds", started)
            .set(since_1970.map_or(0.0, |time| time.as_secs_f64()));
        ProcessMetrics {
            cpu_seconds: make.float_counter("process_cpu_seconds_total", "CPU time used."),
            open_fds: make.float("process_open_fds", "Files that are open."),
            used_fds: make.float("os_fd_used", "Files that are open."),
            resident: make.float("process_resident_memory_bytes", "Memory in use."),
            virtual_memory: make.float("process_virtual_memory_bytes", "Address space in use."),
        }
    }

    pub(super) fn read(&self) {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let used = used.tv_sec as f64 + used.tv_nsec as f64 / 1e9;
        self.cpu_seconds.inc_by((used - self.cpu_seconds.get()).max(0.0));
        if let Ok(status) = fs::read_to_string("/proc/self/status") {
            self.resident.set(bytes(&status, "VmRSS:"));
            self.virtual_memory.set(bytes(&status, "VmSize:"));
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            let open = open.count() as f64;
            self.open_fds.set(open);
            self.used_fds.set(open);
        }
    }
}

/// A line of proc(5)'s status such as `VmRSS:     18480 kB`.
fn bytes(status: &str, name: &str) -> f64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or_default() * 1024.0
}
