//! Which target is cut off for which identity.
//!
//! An identity is what a client says of itself, and for clients of etcd's it is their key's value: any client chooses it. A map
//! makes it a choice among targets that the operator has listed.

use std::collections::BTreeMap;
use std::fs;

/// Stands for all identities that the map does not name.
const OTHERS: &str = "*";
/// There is nothing to cut off.
const NOTHING: &str = "-";

/// The targets of identities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FenceMap(BTreeMap<String, String>);

/// What is to be cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target<'a> {
    /// This.
    CutOff(&'a str),
    /// Nothing: such a holder can do no harm.
    Nothing,
}

impl FenceMap {
    /// Reads a file.
    pub(super) fn load(path: &str) -> Result<FenceMap, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        FenceMap::parse(&text).map_err(|why| format!("{path}: {why}"))
    }

    /// A line is an identity, space, and its target; what follows `#` at the start of a line is a comment.
    fn parse(text: &str) -> Result<FenceMap, String> {
        let mut map = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            let (Some(identity), Some(target), None) = (words.next(), words.next(), words.next())
            else {
                return Err(format!("line {number} is not `IDENTITY TARGET`"));
            };
            if line.chars().any(|c| c.is_control() && c != '\t') {
                return Err(format!("line {number} has control characters"));
            }
            if map.insert(identity.to_owned(), target.to_owned()).is_some() {
                return Err(format!("line {number} names {identity} again"));
            }
        }
        Ok(FenceMap(map))
    }

    /// What to cut off for this identity; none if the map does not say.
    pub(super) fn target(&self, identity: &str) -> Option<Target<'_>> {
        // An identity that is written as the map's own word for all others is one of the others.
        let named = self.0.get(identity).or_else(|| self.0.get(OTHERS))?;
        Some(if named == NOTHING { Target::Nothing } else { Target::CutOff(named) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fence_map_gives_listed_targets_only() {
        let map = FenceMap::parse("# rack 1\ndb-1 3\ndb-2\t4\n\ntest-1 -\n").unwrap();
        assert_eq!(map.target("db-1"), Some(Target::CutOff("3")));
        assert_eq!(map.target("db-2"), Some(Target::CutOff("4")));
        assert_eq!(map.target("test-1"), Some(Target::Nothing));
        for unknown in ["db-3", "", "*", "db-1\n", "db-1\nplug=9"] {
            assert_eq!(map.target(unknown), None, "{unknown:?}");
        }
        let map = FenceMap::parse("db-1 3\n* -").unwrap();
        assert_eq!(map.target("any"), Some(Target::Nothing));
    }

    #[test]
    fn fence_map_refuses_lines_that_can_be_read_in_two_ways() {
        for wrong in ["db-1", "db-1 3 4", "db-1 3\ndb-1 4", "db-1 3\u{7}"] {
            assert!(FenceMap::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
