//! Users and roles in etcd's database.
//!
//! | bucket | key | value |
//! |---|---|---|
//! | `auth` | `authEnabled` | 1 if they count |
//! | `auth` | `authRevision` | 8 bytes, big endian |
//! | `authUsers` | name | `authpb.User` |
//! | `authRoles` | name | `authpb.Role` |

use bytes::Bytes;
use prost::Message;
use tenure_api::wire::authpb;
use tenure_replica::auth::{Auth, ImportedUser, Permission, PermissionKind};

use super::{
    bbolt::{Damage, Db, Item, Stop},
    content::damage,
};

/// Reads them all.
pub(crate) fn users(db: &Db) -> Result<Auth, Stop> {
    let (mut enabled, mut revision) = (false, 0);
    db.walk_named(b"auth", &mut |item| {
        match item.key {
            b"authEnabled" => enabled = item.value == [1],
            b"authRevision" => {
                let bytes = item.value.try_into();
                let bytes = bytes.map_err(|_| damage(&item, "the revision of users is none"))?;
                revision = u64::from_be_bytes(bytes);
            }
            _ => {}
        }
        Ok(())
    })?;
    let mut users = Vec::new();
    db.walk_named(b"authUsers", &mut |item| {
        let user = authpb::User::decode(item.value)
            .map_err(|cause| damage(&item, &format!("a user cannot be read: {cause}")))?;
        let without = user.options.is_some_and(|options| options.no_password);
        users.push(ImportedUser {
            name: name(&item, &user.name)?,
            password: (!without).then(|| user.password.into()),
            roles: user.roles,
        });
        Ok(())
    })?;
    let mut roles = Vec::new();
    db.walk_named(b"authRoles", &mut |item| {
        let role = authpb::Role::decode(item.value)
            .map_err(|cause| damage(&item, &format!("a role cannot be read: {cause}")))?;
        let permission = |one: authpb::Permission| Permission {
            kind: PermissionKind::from_number(one.perm_type),
            key: one.key,
            range_end: one.range_end,
        };
        let name = name(&item, &role.name)?;
        roles.push((name, role.key_permission.into_iter().map(permission).collect()));
        Ok(())
    })?;
    Ok(Auth::imported(enabled, revision, users, roles))
}

fn name(item: &Item<'_>, name: &Bytes) -> Result<String, Damage> {
    let text = String::from_utf8(name.to_vec());
    text.map_err(|_| damage(item, "a name is not text"))
}
