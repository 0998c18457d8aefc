//! What the examinations by `tenure doctor` have in common.
#![allow(dead_code, clippy::unwrap_used, missing_docs, unreachable_pub)]

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tenure_e2e::{eventually, tools};

/// What the doctor said.
pub struct Report {
    pub code: Option<i32>,
    pub json: Value,
}

impl Report {
    pub fn kinds(&self) -> Vec<String> {
        let found = self.json["findings"].as_array().unwrap().iter();
        found.map(|finding| finding["kind"].as_str().unwrap().to_owned()).collect()
    }

    pub fn finding(&self, kind: &str) -> &Value {
        let mut found = self.json["findings"].as_array().unwrap().iter();
        let finding = found.find(|finding| finding["kind"] == kind);
        let finding = finding.unwrap_or_else(|| panic!("no {kind} in {}", self.json["findings"]));
        for part in ["text", "next", "about"] {
            assert!(finding[part].as_str().is_some_and(|text| !text.is_empty()), "{finding}");
        }
        finding
    }

    pub fn level(&self, kind: &str) -> String {
        self.finding(kind)["level"].as_str().unwrap().to_owned()
    }
}

/// Asks once.
pub fn examine(endpoints: &str, args: &[&str]) -> Report {
    let said = Command::new(tools::tenure())
        .args(["--endpoints", endpoints, "-w", "json", "doctor"])
        .args(args)
        .output()
        .unwrap();
    let json = serde_json::from_slice(&said.stdout);
    let json = json.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&said.stderr)));
    Report { code: said.status.code(), json }
}

/// Asks until this is found.
pub async fn has(endpoints: &str, args: &[&str], kind: &str) -> Report {
    eventually(&format!("the doctor finds {kind}"), async || {
        let report = examine(endpoints, args);
        let kinds = report.kinds();
        let found = kinds.iter().any(|found| found == kind);
        if found { Ok(report) } else { Err(format!("{kinds:?}")) }
    })
    .await
}

/// A process that stands for election; killed when dropped.
pub struct Candidate(pub Child);

impl Candidate {
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.0.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Campaigns and waits until it is a candidate.
pub async fn elect(endpoints: &str, name: &str, identity: &str) -> Candidate {
    elect_with(endpoints, name, identity, &[]).await
}

pub async fn elect_with(endpoints: &str, name: &str, identity: &str, flags: &[&str]) -> Candidate {
    let mut command = Command::new(tools::tenure());
    command.args(["--endpoints", endpoints, "elect", name, "--identity", identity]).args(flags);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let candidate = Candidate(child);
    eventually(&format!("{identity} stands for {name}"), async || {
        let said = Command::new(tools::tenure())
            .args(["--endpoints", endpoints, "candidates", name])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let stands = said.lines().any(|line| line.starts_with(&format!("{identity}\t")));
        if stands { Ok(()) } else { Err(said) }
    })
    .await;
    candidate
}

/// The environment of a process whose wall clock is wrong, and no other clock.
pub fn clock_ahead(by: &str) -> Vec<(OsString, OsString)> {
    [
        ("LD_PRELOAD", tools::libfaketime()),
        ("FAKETIME", by),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("DONT_FAKE_MONOTONIC", "1"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec()
}
