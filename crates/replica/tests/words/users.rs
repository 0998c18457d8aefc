//! Users and roles.

use proptest::{option, prelude::*};
use tenure_replica::{
    auth::{Permission, PermissionKind, Secret},
    command::AuthCommand,
};

use super::bytes;

/// Few names, so that commands meet.
fn name() -> impl Strategy<Value = std::sync::Arc<str>> {
    prop_oneof!["[a-c]?", Just("root".to_owned()), ".{0,4}"].prop_map(Into::into)
}

fn secret() -> impl Strategy<Value = Secret> {
    bytes().prop_map(Secret::from)
}

fn permission() -> impl Strategy<Value = Permission> {
    let kinds = prop_oneof![0..3, 16..19, any::<i32>()].prop_map(PermissionKind::from_number);
    (kinds, bytes(), bytes()).prop_map(|(kind, key, range_end)| Permission { kind, key, range_end })
}

pub(crate) fn command() -> impl Strategy<Value = AuthCommand> {
    prop_oneof![
        Just(AuthCommand::Enable),
        Just(AuthCommand::Disable),
        (name(), option::of(secret()))
            .prop_map(|(name, password)| AuthCommand::UserAdd { name, password }),
        name().prop_map(AuthCommand::UserDelete),
        (name(), secret())
            .prop_map(|(name, password)| AuthCommand::UserPassword { name, password }),
        (name(), name()).prop_map(|(user, role)| AuthCommand::UserGrant { user, role }),
        (name(), name()).prop_map(|(user, role)| AuthCommand::UserRevoke { user, role }),
        name().prop_map(AuthCommand::RoleAdd),
        name().prop_map(AuthCommand::RoleDelete),
        (name(), option::of(permission()))
            .prop_map(|(role, permission)| AuthCommand::RoleGrant { role, permission }),
        (name(), bytes(), bytes()).prop_map(|(role, key, range_end)| AuthCommand::RoleRevoke {
            role,
            key,
            range_end
        }),
        (name(), secret(), any::<u64>()).prop_map(|(user, token, since)| AuthCommand::LogIn {
            user,
            token,
            since
        }),
        secret().prop_map(|password| AuthCommand::Recover { password }),
    ]
}
