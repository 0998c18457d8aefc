//! Numbers that mean different things are different types.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty), $format:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }
    };
}

number!(
    /// A member of the cluster, for its whole life. Never reused.
    MemberId(u64), "{:x}"
);
number!(
    /// One cluster; members of different clusters refuse to talk to each other.
    ClusterId(u64), "{:x}"
);
number!(
    /// A lease: a session's right to keep its keys.
    LeaseId(i64), "{:x}"
);
number!(
    /// A point in the store's history. An empty store is at revision 1; every change adds one.
    Revision(i64), "{}"
);
number!(
    /// A raft term: at most one raft leader is chosen in each.
    Term(u64), "{}"
);

impl Revision {
    /// The revision of an empty store.
    pub const FIRST: Revision = Revision(1);

    /// The revision after this one.
    #[must_use]
    pub fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

impl LeaseId {
    /// A key without a lease carries this on the wire; inside, it is `None`.
    pub const WIRE_NONE: i64 = 0;

    /// `None` for the wire's zero.
    pub fn from_wire(id: i64) -> Option<LeaseId> {
        (id != Self::WIRE_NONE).then_some(LeaseId(id))
    }

    /// Zero for `None`.
    pub fn to_wire(lease: Option<LeaseId>) -> i64 {
        lease.map_or(Self::WIRE_NONE, |lease| lease.0)
    }
}
