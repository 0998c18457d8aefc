//! The name of a run: the commit, the scenario, the seed.

use std::fmt;
use std::str::FromStr;

use crate::commands::version::COMMIT;

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunName {
    pub(crate) commit: Option<String>,
    pub(crate) scenario: String,
    pub(crate) seed: u64,
}

impl RunName {
    /// A run of this program.
    pub(crate) fn here(scenario: &str, seed: u64) -> RunName {
        RunName { commit: Some(COMMIT.to_owned()), scenario: scenario.to_owned(), seed }
    }
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(commit) = &self.commit {
            write!(f, "{commit}/")?;
        }
        write!(f, "{}/{}", self.scenario, self.seed)
    }
}

impl FromStr for RunName {
    type Err = String;

    fn from_str(text: &str) -> Result<RunName, String> {
        let expected =
            || format!("{text} is not a run: expected COMMIT/SCENARIO/SEED or SCENARIO/SEED");
        let parts: Vec<&str> = text.split('/').collect();
        let (commit, scenario, seed) = match parts[..] {
            [scenario, seed] => (None, scenario, seed),
            [commit, scenario, seed] => (Some(commit.to_owned()), scenario, seed),
            _ => return Err(expected()),
        };
        let seed = seed.parse().map_err(|_| expected())?;
        Ok(RunName { commit, scenario: scenario.to_owned(), seed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_name_is_read_as_it_was_written() {
        for text in ["rough/17", "0123456789ab/bully-crash/1"] {
            let name: RunName = text.parse().expect("a name");
            assert_eq!(name.to_string(), text);
        }
        for wrong in ["rough", "rough/x", "a/b/c/1", ""] {
            assert!(wrong.parse::<RunName>().is_err(), "{wrong}");
        }
    }
}
