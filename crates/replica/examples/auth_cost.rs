//! What users and roles cost a put: `cargo run --release -p tenure-replica --example auth_cost`.

use std::{hint::black_box, time::Duration};

use rustix::time::{ClockId, clock_gettime};
use tenure_api::{Principal, Proof, Put, Term, op::PutLease};
use tenure_replica::{
    EntryContext, State,
    auth::{Permission, PermissionKind},
    command::{AuthCommand, COMMAND_VERSION, Command},
    state::ApplyEffects,
};

const ROLES: usize = 1000;
const PUTS: u64 = 200_000;
const ROUNDS: usize = 7;

fn apply(state: &mut State, index: u64, by: &Principal, command: &Command) {
    let at = EntryContext { index, term: Term(1), ms: 0 };
    let outcome = state.apply(at, by, command, &mut ApplyEffects::default());
    black_box(outcome.expect("it is permitted"));
}

/// A user with all the roles, each with three permissions that do not touch those of others.
fn judging() -> State {
    let mut state = State { cluster_version: COMMAND_VERSION, ..State::default() };
    let mut index = 0;
    let mut change = |command: AuthCommand| {
        index += 1;
        apply(&mut state, index, &Principal::System, &Command::Auth(command));
    };
    for name in ["root", "ada"] {
        change(AuthCommand::UserAdd { name: name.into(), password: None });
    }
    change(AuthCommand::UserGrant { user: "root".into(), role: "root".into() });
    for number in 0..ROLES {
        let role = || format!("role-{number:04}").into();
        change(AuthCommand::RoleAdd(role()));
        for part in 0..3 {
            let key = format!("team-{number:04}/{part}/");
            let range_end = format!("team-{number:04}/{part}0");
            let kind = PermissionKind::ReadWrite;
            let permission = Permission { kind, key: key.into(), range_end: range_end.into() };
            change(AuthCommand::RoleGrant { role: role(), permission: Some(permission) });
        }
        change(AuthCommand::UserGrant { user: "ada".into(), role: role() });
    }
    change(AuthCommand::Enable);
    state
}

/// What this thread has used of a processor: the machine may do other things.
fn cpu() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

/// The time of one put, the best of several rounds.
fn put(state: &State, by: &Principal) -> Duration {
    let rounds = (0..ROUNDS).map(|_| {
        let mut state = state.clone();
        let began = cpu();
        for index in 0..PUTS {
            let number = index as usize % ROLES;
            let put = Put {
                key: format!("team-{number:04}/1/{}", index % 7).into(),
                value: Some("value".into()),
                lease: PutLease::Set(None),
                prev_kv: false,
            };
            apply(&mut state, 10_000 + index, by, &Command::Put(put));
        }
        cpu() - began
    });
    rounds.min().expect("there are rounds") / PUTS as u32
}

fn main() {
    let judging = judging();
    let mut open = judging.clone();
    apply(&mut open, 9_999, &Principal::System, &Command::Auth(AuthCommand::Disable));
    let (name, auth_revision) = ("ada".into(), judging.auth.revision());
    let ada = Principal::User { name, auth_revision, proof: Proof::Held };
    let without = put(&open, &Principal::Anonymous);
    let with = put(&judging, &ada);
    println!("apply of a put without users            {without:?}");
    println!("apply of a put, {ROLES} roles of its user  {with:?}");
    println!("the judgement                           {:?}", with.saturating_sub(without));
}
