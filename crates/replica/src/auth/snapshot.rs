//! Users and roles as bytes, for snapshots. Members compare checksums of these bytes, so equal states give equal ones.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use super::{Auth, Permission, Role, Secret, User};
use crate::codec::{Codec, DecodeError, Reader, put_bool, put_bytes, put_option, put_u64};

const HEAD: u8 = 1;
const USER: u8 = 2;
const ROLE: u8 = 3;
/// More permissions of the role before it.
const PERMISSIONS: u8 = 4;

/// Permissions in one record: a role may have any number, and a record must fit into a chunk. Keys are as long as a
/// request, so this is not what bounds a chunk, but what bounds it beside long keys.
const PERMISSIONS_MAX: usize = 1000;

impl Auth {
    /// What there is as records, in order; none if nothing was ever changed.
    pub(crate) fn records(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let head = (!self.is_untouched()).then(|| {
            let mut out = vec![HEAD];
            put_bool(&mut out, self.is_enabled);
            put_u64(&mut out, self.revision);
            out
        });
        let users = self.users.iter().map(|(name, user)| {
            let mut out = vec![USER];
            put_bytes(&mut out, name.as_bytes());
            user.encode(&mut out);
            out
        });
        let roles = self.roles.iter().flat_map(|(name, role)| role_records(name, role));
        head.into_iter().chain(users).chain(roles)
    }

    /// Reads one record.
    pub(crate) fn decode_one(&mut self, input: &mut Reader<'_>) -> Result<(), DecodeError> {
        match input.u8()? {
            HEAD => {
                self.is_enabled = input.bool()?;
                self.revision = input.u64()?;
            }
            USER => {
                let name = input.text()?;
                self.users.insert(name.into(), Arc::new(User::decode(input)?));
            }
            tag @ (ROLE | PERMISSIONS) => {
                let name: Arc<str> = input.text()?.into();
                if tag == ROLE {
                    self.roles.insert(name.clone(), Arc::default());
                }
                let role = self.roles.get_mut(&name).ok_or(DecodeError::Truncated)?;
                let role = Arc::make_mut(role);
                for _ in 0..input.count()? {
                    let permission = Permission::decode(input)?;
                    let span = (permission.key, permission.range_end);
                    role.permissions.insert(span, permission.kind);
                }
            }
            tag => return Err(DecodeError::UnknownTag { what: "auth record", tag }),
        }
        Ok(())
    }
}

/// A role, with as many of its permissions as a record takes; then the others.
fn role_records<'a>(name: &'a str, role: &'a Role) -> impl Iterator<Item = Vec<u8>> + 'a {
    let mut left = role.permissions().peekable();
    let mut tag = Some(ROLE);
    std::iter::from_fn(move || {
        let mut out = vec![tag.take().or_else(|| left.peek().map(|_| PERMISSIONS))?];
        put_bytes(&mut out, name.as_bytes());
        let some: Vec<Permission> = left.by_ref().take(PERMISSIONS_MAX).collect();
        put_u64(&mut out, some.len() as u64);
        some.iter().for_each(|permission| permission.encode(&mut out));
        Some(out)
    })
}

impl Codec for User {
    fn encode(&self, out: &mut Vec<u8>) {
        put_option(out, self.password.as_ref(), |out, password| password.encode(out));
        put_u64(out, self.roles.len() as u64);
        for role in &self.roles {
            put_bytes(out, role.as_bytes());
        }
        put_u64(out, self.secret_since);
        put_u64(out, self.rights_since);
    }

    fn decode(input: &mut Reader<'_>) -> Result<User, DecodeError> {
        Ok(User {
            password: input.option(Secret::decode)?,
            roles: (0..input.count()?)
                .map(|_| input.text().map(Into::into))
                .collect::<Result<BTreeSet<Arc<str>>, _>>()?,
            secret_since: input.u64()?,
            rights_since: input.u64()?,
            rights: OnceLock::new(),
        })
    }
}

impl Codec for Secret {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.expose());
    }

    fn decode(input: &mut Reader<'_>) -> Result<Secret, DecodeError> {
        input.bytes().map(Secret::from)
    }
}
