//! Batches of commands. They are logged as they come, so what can be read must be harmless to apply:
//! a batch that brings one member down brings down all.

use proptest::{collection::vec, prelude::*};
use tenure_api::{Member, MemberId, Principal, Term};
use tenure_damage::{damaged, frugally, hold};
use tenure_replica::{
    EntryContext, State,
    codec::{Codec, put_u64},
    command::{Batch, COMMAND_VERSION, Command},
    state::ApplyEffects,
};

use crate::{read, words};

/// A cluster of three that has done nothing yet.
pub(super) fn beginning() -> State {
    let member = |id: u64| Member {
        id: MemberId(id),
        name: format!("n{id}"),
        peer_urls: vec![format!("http://n{id}:1")],
        client_urls: vec![],
        is_learner: false,
    };
    State { cluster_version: COMMAND_VERSION, ..State::new([1, 2, 3].map(member)) }
}

pub(super) fn apply(state: &mut State, commands: &[Command]) {
    for (command, index) in commands.iter().zip(1..) {
        let at = EntryContext { index, term: Term(1), ms: 1_700_000_000_000 };
        // A refusal is an answer, too.
        let _ = state.apply(at, &Principal::System, command, &mut ApplyEffects::default());
    }
}

#[test]
fn fuzz_commands_that_can_be_read_can_be_applied() {
    let batch = damaged(words::batch().prop_map(|batch| batch.to_bytes()));
    hold(1000, (batch, vec(words::command(), 0..6)), |(bytes, before)| {
        let Some(batch) = read::<Batch>(&bytes)? else { return Ok(()) };
        let mut state = beginning();
        apply(&mut state, &before);
        let commands: Vec<_> = batch.commands.into_iter().map(|one| one.command).collect();
        apply(&mut state, &commands);
        Ok(())
    });
}

/// The shortest command is one byte long, and in memory as large as any.
#[test]
fn fuzz_batch_of_too_many_commands_is_refused_before_it_takes_memory() {
    let mut bytes = Vec::new();
    for number in [1, 1, 1, 60_000] {
        put_u64(&mut bytes, number);
    }
    for _ in 0..60_000 {
        Command::Audit.encode(&mut bytes);
    }
    assert!(frugally(bytes.len(), || Batch::from_bytes(&bytes)).is_err());
}
