//! Whether a principal may do something. The order of the checks is etcd's, and so are the refusals.

use bytes::Bytes;
use imbl::OrdSet;
use tenure_api::{Failure, Principal, Proof, Span};

use super::{Auth, Rights, permission::keys_of};

/// What an operation needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: any client may.
    Nothing,
    /// A user, whichever.
    User,
    /// The role root.
    Root,
    /// To see an election.
    Observe(Bytes),
    /// To contend in an election.
    Campaign(Bytes),
    /// To decide about others in an election.
    Rule(Bytes),
}

/// A principal that counts, with what it may do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Caller<'a> {
    /// There are no users, or it is the cluster itself: everything is allowed.
    Free,
    /// A user.
    User(&'a str, &'a Rights),
}

impl Auth {
    /// The user behind a principal, whose proof must still count. `gone` is the refusal if there is no such user any more.
    pub(crate) fn caller<'a>(
        &'a self,
        by: &'a Principal,
        gone: Failure,
    ) -> Result<Caller<'a>, Failure> {
        if !self.is_enabled {
            return Ok(Caller::Free);
        }
        let (name, proven_at, proof) = match by {
            Principal::System => return Ok(Caller::Free),
            Principal::Anonymous => return Err(Failure::UserEmpty),
            Principal::Unproven => return Err(Failure::InvalidAuthToken),
            Principal::User { name, auth_revision, proof } => (name, *auth_revision, *proof),
        };
        let user = self.user(name).ok_or(gone)?;
        let counts_from = match proof {
            Proof::Held => user.secret_since,
            Proof::Claims => user.secret_since.max(user.rights_since),
        };
        // A revision that has not come yet was made up, or is another cluster's. A member that lags sees one, too, of a
        // user that has just proven its name elsewhere; that one is good.
        let is_ahead = proof == Proof::Claims && proven_at > self.revision;
        if proven_at < counts_from || is_ahead {
            return Err(Failure::OldAuthRevision);
        }
        Ok(Caller::User(name, self.rights(user)))
    }

    /// Whether the principal may do what needs this.
    pub fn may(&self, by: &Principal, need: &Need) -> Result<(), Failure> {
        let gone = match need {
            Need::Nothing => return Ok(()),
            Need::Root => Failure::UserNotFound,
            _ => Failure::PermissionDenied,
        };
        let caller = self.caller(by, gone)?;
        if caller.is_root() {
            return Ok(());
        }
        match need {
            Need::Nothing | Need::User => Ok(()),
            Need::Root => caller.root(),
            Need::Observe(name) => caller.read(&keys_of(name)),
            Need::Campaign(name) => {
                let keys = keys_of(name);
                caller.read(&keys)?;
                caller.write(&keys)
            }
            Need::Rule(name) => caller.rule(name),
        }
    }
}

impl Caller<'_> {
    pub(crate) fn is_root(&self) -> bool {
        match self {
            Caller::Free => true,
            Caller::User(_, rights) => rights.is_root,
        }
    }

    pub(crate) fn is(&self, user: &str) -> bool {
        matches!(self, Caller::User(name, _) if *name == user)
    }

    pub(crate) fn root(&self) -> Result<(), Failure> {
        permitted(self.is_root())
    }

    pub(crate) fn read(&self, span: &Span) -> Result<(), Failure> {
        self.has(|rights| rights.read.covers(span))
    }

    pub(crate) fn write(&self, span: &Span) -> Result<(), Failure> {
        self.has(|rights| rights.write.covers(span))
    }

    pub(crate) fn read_all(&self, keys: &OrdSet<Bytes>) -> Result<(), Failure> {
        self.has(|rights| rights.read.holds_all(keys))
    }

    pub(crate) fn write_all(&self, keys: &OrdSet<Bytes>) -> Result<(), Failure> {
        self.has(|rights| rights.write.holds_all(keys))
    }

    pub(crate) fn rule(&self, election: &[u8]) -> Result<(), Failure> {
        self.has(|rights| rights.rule.covers(&keys_of(election)))
    }

    fn has(&self, right: impl FnOnce(&Rights) -> bool) -> Result<(), Failure> {
        match self {
            Caller::Free => Ok(()),
            Caller::User(_, rights) => permitted(rights.is_root || right(rights)),
        }
    }
}

fn permitted(is_permitted: bool) -> Result<(), Failure> {
    if is_permitted { Ok(()) } else { Err(Failure::PermissionDenied) }
}
