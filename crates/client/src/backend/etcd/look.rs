//! Whether a candidate's turn has come, decided from the keys that are older than its own.

use bytes::Bytes;

use crate::backend::Mode;

/// What keeps a candidate from holding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing.
    Free,
    /// This key. When it goes, it is worth looking again.
    Behind(Bytes),
    /// Some of those that are older must go, whichever.
    Full,
    /// An older candidate has a mode that this one cannot wait beside.
    Mismatch(Mode),
}

/// Judges by the older keys of an election, newest first, with their modes.
pub(super) fn turn(mode: Mode, older: &[(Bytes, Mode)]) -> Turn {
    match mode {
        Mode::Exclusive => older.first().map_or(Turn::Free, |(key, _)| Turn::Behind(key.clone())),
        Mode::Shared => {
            let writer = older.iter().find(|(_, mode)| *mode != Mode::Shared);
            writer.map_or(Turn::Free, |(key, _)| Turn::Behind(key.clone()))
        }
        Mode::Permit(of) => match older.iter().find(|(_, other)| *other != mode) {
            Some((_, other)) => Turn::Mismatch(*other),
            None if older.len() < of as usize => Turn::Free,
            None => Turn::Full,
        },
    }
}

/// Whether a candidate with these older ones before it holds.
pub(super) fn is_free(mode: Mode, older: &[Mode]) -> bool {
    let older: Vec<_> = older.iter().rev().map(|mode| (Bytes::new(), *mode)).collect();
    turn(mode, &older) == Turn::Free
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(n: u8) -> Bytes {
        vec![n].into()
    }

    #[test]
    fn etcd_candidate_waits_for_the_newest_of_all_that_are_older() {
        let older = [(key(2), Mode::Shared), (key(1), Mode::Exclusive)];
        assert_eq!(turn(Mode::Exclusive, &older), Turn::Behind(key(2)));
        assert_eq!(turn(Mode::Exclusive, &[]), Turn::Free);
    }

    #[test]
    fn etcd_reader_waits_for_writers_only() {
        let older = [(key(3), Mode::Shared), (key(2), Mode::Exclusive), (key(1), Mode::Exclusive)];
        assert_eq!(turn(Mode::Shared, &older), Turn::Behind(key(2)));
        assert_eq!(turn(Mode::Shared, &older[..1]), Turn::Free);
    }

    #[test]
    fn etcd_permit_is_free_while_fewer_are_older_and_does_not_mix() {
        let two = Mode::Permit(2);
        assert_eq!(turn(two, &[(key(1), two)]), Turn::Free);
        assert_eq!(turn(two, &[(key(2), two), (key(1), two)]), Turn::Full);
        let three = Mode::Permit(3);
        assert_eq!(turn(two, &[(key(1), three)]), Turn::Mismatch(three));
    }

    fn mode() -> impl Strategy<Value = Mode> {
        prop_oneof![Just(Mode::Exclusive), Just(Mode::Shared)]
    }

    proptest! {
        /// For any candidates in any order: a writer never holds beside another holder.
        #[test]
        fn a_writer_holds_alone(line in prop::collection::vec(mode(), 0..12)) {
            let holds = |at: usize| is_free(line[at], &line[..at]);
            let holders: Vec<_> = (0..line.len()).filter(|at| holds(*at)).map(|at| line[at]).collect();
            prop_assert_eq!(holders.is_empty(), line.is_empty(), "somebody holds");
            prop_assert!(!holders.contains(&Mode::Exclusive) || holders.len() == 1);
        }

        /// A holder goes on holding when another candidate leaves.
        #[test]
        fn nobody_loses_by_others_leaving(
            line in prop::collection::vec(mode(), 1..12),
            leaver in any::<prop::sample::Index>(),
            holder in any::<prop::sample::Index>(),
        ) {
            let (leaver, holder) = (leaver.index(line.len()), holder.index(line.len()));
            if leaver < holder && is_free(line[holder], &line[..holder]) {
                let mut older = line[..holder].to_vec();
                older.remove(leaver);
                prop_assert!(is_free(line[holder], &older));
            }
        }
    }
}
