//! Clients that change users and roles, and ask as users.

use std::sync::Arc;

use bytes::Bytes;
use tenure_api::{DeleteRange, Principal, Proof, Range, Span};
use tenure_replica::{
    Answer, Consistency, Operation, Read,
    auth::{Permission, PermissionKind, ROOT, Secret},
    command::{AuthCommand, Command},
};

use super::SimClient;
use crate::{
    cluster::{World, event::WorldEvent},
    engine::{ms, us},
    invariants::one_answer::OpenRequest,
};

/// Few, so that changes meet requests.
const USERS: u64 = 3;
const ROLES: u64 = 2;
const KEYS: u64 = 3;

/// The user that all other clients are.
pub fn root() -> Principal {
    Principal::User { name: ROOT.into(), auth_revision: u64::MAX, proof: Proof::Held }
}

#[derive(Default)]
pub struct UserClient;

impl UserClient {
    fn next_request(world: &mut World) -> (Principal, Operation) {
        match world.dice.below(100) {
            0..35 => (root(), Operation::Write(Command::Auth(change(world)))),
            35..70 => (user(world), get(world)),
            70..95 => (user(world), delete(world)),
            _ => (Principal::Anonymous, get(world)),
        }
    }
}

fn change(world: &mut World) -> AuthCommand {
    let (user, role) = (named("u", USERS, world), named("r", ROLES, world));
    let password = || Some(Secret::default());
    let (key, range_end) = span(world);
    match world.dice.below(100) {
        0..10 => AuthCommand::Enable,
        10..12 => AuthCommand::Disable,
        12..17 => AuthCommand::UserAdd { name: ROOT.into(), password: password() },
        17..22 => AuthCommand::UserGrant { user: ROOT.into(), role: ROOT.into() },
        22..32 => AuthCommand::UserAdd { name: user, password: password() },
        32..36 => AuthCommand::UserDelete(user),
        36..38 => AuthCommand::UserPassword { name: user, password: Secret::default() },
        38..48 => AuthCommand::UserGrant { user, role },
        48..54 => AuthCommand::UserRevoke { user, role },
        54..62 => AuthCommand::RoleAdd(role),
        62..66 => AuthCommand::RoleDelete(role),
        66..86 => {
            let kind = PermissionKind::from_number(world.dice.below(4) as i32);
            let permission = Some(Permission { kind, key, range_end });
            AuthCommand::RoleGrant { role, permission }
        }
        _ => AuthCommand::RoleRevoke { role, key, range_end },
    }
}

fn named(kind: &str, count: u64, world: &mut World) -> Arc<str> {
    format!("{kind}{}", world.dice.below(count)).into()
}

fn key(world: &mut World) -> Bytes {
    format!("k{}", world.dice.below(KEYS)).into()
}

/// One key, or all from one on.
fn span(world: &mut World) -> (Bytes, Bytes) {
    let end = if world.dice.chance(300) { Bytes::from_static(b"\0") } else { Bytes::new() };
    (key(world), end)
}

/// By a token, or by claims of about now.
fn user(world: &mut World) -> Principal {
    let name = named("u", USERS, world);
    if world.dice.chance(700) {
        return Principal::User { name, auth_revision: u64::MAX, proof: Proof::Held };
    }
    let now = world.truth.state().auth.revision();
    let auth_revision = now.saturating_sub(world.dice.below(5));
    Principal::User { name, auth_revision, proof: Proof::Claims }
}

fn get(world: &mut World) -> Operation {
    let fresh = world.dice.chance(500);
    let consistency = if fresh { Consistency::Linearizable } else { Consistency::Serializable };
    Operation::Read(Read::Range(Range::all(Span::One(key(world)))), consistency)
}

fn delete(world: &mut World) -> Operation {
    let span = Span::One(key(world));
    Operation::Write(Command::DeleteRange(DeleteRange { span, prev_kv: false }))
}

impl SimClient for UserClient {
    fn turn(&mut self, me: usize, world: &mut World) {
        if world.resting {
            return;
        }
        let (by, request) = UserClient::next_request(world);
        let asked =
            world.some_member().and_then(|member| world.send_request_by(me, member, by, request));
        if asked.is_none() {
            world.agenda.after(ms(20), WorldEvent::ClientTurn(me));
        }
    }

    fn answered(&mut self, me: usize, world: &mut World, _open: &OpenRequest, _answer: &Answer) {
        let pause = world.dice.duration(us(200), ms(25));
        world.agenda.after(pause * world.leisure, WorldEvent::ClientTurn(me));
    }

    fn lost(&mut self, me: usize, world: &mut World, _open: &OpenRequest) {
        world.agenda.after(ms(10), WorldEvent::ClientTurn(me));
    }
}
