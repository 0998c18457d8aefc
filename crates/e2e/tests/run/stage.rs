//! A cluster, the command, and a folder for what is written meanwhile.

use std::path::PathBuf;

use tenure_e2e::{Cluster, Ctl, Said, Supervised, Trail, eventually, tools};

pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    pub(crate) ctl: Ctl,
    pub(crate) trail: Trail,
    dir: tempfile::TempDir,
}

impl Stage {
    pub(crate) async fn set() -> Stage {
        Stage::with_members(1).await
    }

    pub(crate) async fn with_members(members: usize) -> Stage {
        let cluster = Cluster::start(members).await;
        let ctl = Ctl::to(&cluster.endpoints()).with_program(tools::tenure());
        let dir = tempfile::tempdir().unwrap();
        Stage { cluster, ctl, trail: Trail::new(dir.path()), dir }
    }

    /// Runs something to its end.
    pub(crate) fn done(&self, words: &[&str]) -> Said {
        self.ctl.run(words)
    }

    /// Starts something that goes on.
    pub(crate) fn start(&self, words: &[&str]) -> Supervised {
        Supervised::start(&self.cluster.endpoints(), words)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(crate) async fn led_by(&self, name: &str, identity: &str) {
        eventually(&format!("{identity} leads {name}"), async || {
            let said = self.ctl.run(&["leader", name]).out;
            if said.starts_with(identity) { Ok(()) } else { Err(said) }
        })
        .await;
    }

    /// What is remembered of a job's slots.
    pub(crate) fn history(&self, job: &str) -> Vec<serde_json::Value> {
        let said = self.ctl.run(&["once", job, "--history", "-w", "json"]).ok();
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
