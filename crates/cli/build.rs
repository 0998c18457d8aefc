//! Tells the program from which commit it was built: a run in the lab is named by it, and `tenure version` says it.

use std::process::Command;

fn main() {
    let git = |args: &[&str]| {
        let done =
            Command::new("git").args(args).output().ok().filter(|done| done.status.success());
        done.map(|done| String::from_utf8_lossy(&done.stdout).trim().to_owned())
    };
    // Sources without their history have no commit.
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=TENURE_COMMIT={commit}");
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
}
