//! The names of what the lab can play, and of a run: the commit, the scenario, the seed.

use std::ffi::OsStr;
use std::fmt;
use std::str::FromStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command};
use tenure_lab::algorithms::{ALGORITHMS, STORIES};
use tenure_lab::cluster::catalogue;

use crate::commands::version::COMMIT;
use crate::exit::usage;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Algorithm,
    Story,
    Scenario,
}

impl Kind {
    pub(super) const ALL: &[Kind] = &[Kind::Algorithm, Kind::Story, Kind::Scenario];

    fn word(self) -> &'static str {
        match self {
            Kind::Algorithm => "algorithm",
            Kind::Story => "story",
            Kind::Scenario => "scenario",
        }
    }

    fn names(self) -> Vec<&'static str> {
        match self {
            Kind::Algorithm => ALGORITHMS.iter().map(|algorithm| algorithm.name).collect(),
            Kind::Story => STORIES.iter().copied().flatten().map(|story| story.name).collect(),
            Kind::Scenario => catalogue::SCENARIOS.iter().map(|scenario| scenario.name).collect(),
        }
    }
}

/// Takes any text, and lets shells complete the names of these kinds. What does not exist is refused by [`unknown`], with the
/// nearest name instead of two hundred.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameOf(pub(super) &'static [Kind]);

impl TypedValueParser for NameOf {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().flat_map(|kind| kind.names()).map(PossibleValue::new)))
    }
}

/// There is nothing of that name: what was meant, probably.
pub(super) fn unknown(name: &str, kinds: &[Kind]) -> anyhow::Error {
    let nearest = kinds
        .iter()
        .flat_map(|kind| kind.names())
        .max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)));
    let hint = nearest.map_or(String::new(), |nearest| format!("; did you mean {nearest}?"));
    let words: Vec<&str> = kinds.iter().map(|kind| kind.word()).collect();
    let words = words.join(" or ");
    usage(format!("there is no {words} {name}{hint} `tenure lab list` shows all"))
}

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
