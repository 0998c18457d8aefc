//! A principal is never granted what its roles deny, nor refused what they allow.
//!
//! The judgement is made once more, in the plainest way: every permission of every role of the user is looked at. The
//! shipped one works sets of keys out beforehand and keeps them.

use tenure_api::{Failure, Principal, Proof, Span};
use tenure_replica::{
    Operation, Read,
    auth::{Auth, PermissionKind, ROOT},
    command::Command,
};

use super::must;
use crate::engine::RunCounts;

pub const NAME: &str = "rights_kept";

/// Holds an outcome against the users and roles as they were.
pub fn check<T>(
    by: &Principal,
    op: &Operation,
    outcome: &Result<T, Failure>,
    auth: &Auth,
    counts: &mut RunCounts,
) {
    let Some((span, writes)) = touched(op) else { return };
    let Principal::User { name, proof, .. } = by else {
        let refused = auth.is_enabled() && *by != Principal::System;
        must!(!refused || outcome.is_err(), "{by:?} was let in to {op:?}");
        return;
    };
    if !auth.is_enabled() {
        return;
    }
    counts.count(NAME);
    let allowed = allows(auth, name, span, writes);
    counts.count(if allowed { "allowed by roles" } else { "denied by roles" });
    let denied = matches!(outcome, Err(Failure::PermissionDenied));
    must!(allowed || outcome.is_err(), "{name} has no right to {op:?}, and was answered");
    // Claims may be too old, which is another refusal.
    must!(!(allowed && denied && *proof == Proof::Held), "{name} has the right to {op:?}");
}

/// The key of an operation that concerns one, and whether it is written.
fn touched(op: &Operation) -> Option<(&Span, bool)> {
    match op {
        Operation::Read(Read::Range(range), _) => Some((&range.span, false)),
        Operation::Write(Command::DeleteRange(delete)) => Some((&delete.span, true)),
        _ => None,
    }
}

fn allows(auth: &Auth, name: &str, span: &Span, writes: bool) -> bool {
    let Some(user) = auth.user(name) else { return false };
    let roles = user.roles.iter().filter_map(|role| auth.role(role));
    let holds = |kind: PermissionKind| match kind {
        PermissionKind::Read | PermissionKind::Observe => !writes,
        PermissionKind::Write => writes,
        PermissionKind::ReadWrite | PermissionKind::Campaign | PermissionKind::Rule => true,
        PermissionKind::Other(_) => false,
    };
    let mut permissions = roles.flat_map(|role| role.permissions());
    user.roles.contains(ROOT)
        || permissions.any(|one| {
            let allowed = Span::from_wire(one.key, one.range_end);
            holds(one.kind) && allowed.contains(span.start())
        })
}
