//! The rules by which the server refuses something.

use tenure_api::wire::REFUSAL_TRAILER;
use tenure_api::wire::tenure::v1 as pb;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The rule of elections and locks that something was refused by, as `tenure.v1` names it. Nothing was
        /// changed. A real etcd names none.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum RefusalKind {
            $($(#[$doc])* $name,)*
        }

        impl RefusalKind {
            fn read(kind: pb::RefusalKind) -> Option<RefusalKind> {
                match kind {
                    pb::RefusalKind::RefusalUnknown => None,
                    $(pb::RefusalKind::$name => Some(RefusalKind::$name),)*
                }
            }

            fn wire(self) -> pb::RefusalKind {
                match self {
                    $(RefusalKind::$name => pb::RefusalKind::$name,)*
                }
            }
        }
    };
}

kinds! {
    /// No name, one that is too long, or one with an empty part.
    BadName,
    /// Another live name lies above or below this one.
    NestedName,
    /// This session is a candidate there already.
    AlreadyCandidate,
    /// This session has no such candidacy, or not with this token any more.
    NoSuchCandidacy,
    /// Held by others, and the request was not to wait.
    Taken,
    /// A priority above 1000, or any for several names at once.
    BadPriority,
    /// The other candidates state another number of permits, or hold it in a mode that excludes this one.
    ModeMismatch,
    /// No candidate matches that description.
    NoSuchCandidate,
    /// A candidate that must not be overtaken is before the chosen one: a stock client, or one that contends for
    /// several names at once.
    StockCandidateAhead,
    /// No candidate may hold it until it is resumed.
    NameFrozen,
    /// There is nothing to resume.
    NameNotFrozen,
    /// A transfer to another candidate is under way.
    TransferUnderWay,
    /// There is no such session.
    SessionGone,
    /// The result of this request is forgotten.
    RequestTooOld,
    /// A name, value, identity or metadata that is too large, or too many names or candidacies.
    TooLarge,
    /// The chosen candidate reports that it is not healthy, and would be passed over.
    CandidateUnhealthy,
    /// The session's secret was not shown.
    WrongSecret,
}

impl RefusalKind {
    /// Its name on the wire, which does not change: `STOCK_CANDIDATE_AHEAD`, say.
    pub fn name(self) -> &'static str {
        self.wire().as_str_name()
    }

    /// Of a refusal on a session's stream. None for what only a newer server knows.
    pub(crate) fn of(refusal: &pb::Refusal) -> Option<RefusalKind> {
        pb::RefusalKind::try_from(refusal.kind).ok().and_then(RefusalKind::read)
    }

    /// Of a call that was refused. None if it was by no such rule.
    pub(crate) fn of_status(status: &tonic::Status) -> Option<RefusalKind> {
        let name = status.metadata().get(REFUSAL_TRAILER)?.to_str().ok()?;
        pb::RefusalKind::from_str_name(name).and_then(RefusalKind::read)
    }
}

impl std::fmt::Display for RefusalKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_kinds_of_the_wire_are_read_by_number_and_by_name() {
        let known = (1..).map_while(|number| pb::RefusalKind::try_from(number).ok());
        let mut count = 0;
        for kind in known {
            let by_number =
                RefusalKind::of(&pb::Refusal { kind: kind as i32, ..Default::default() });
            let mut status = tonic::Status::failed_precondition("in any words");
            status.metadata_mut().insert(REFUSAL_TRAILER, kind.as_str_name().parse().unwrap());
            assert_eq!(by_number, RefusalKind::of_status(&status));
            assert_eq!(by_number.unwrap().name(), kind.as_str_name());
            count += 1;
        }
        assert_eq!(count, 17);
    }

    #[test]
    fn refusal_kind_that_is_not_known_is_none() {
        assert_eq!(RefusalKind::of(&pb::Refusal::default()), None);
        assert_eq!(RefusalKind::of(&pb::Refusal { kind: 4711, ..Default::default() }), None);
        let mut status = tonic::Status::not_found("etcdserver: requested lease not found");
        assert_eq!(RefusalKind::of_status(&status), None);
        status.metadata_mut().insert(REFUSAL_TRAILER, "OF_TOMORROW".parse().unwrap());
        assert_eq!(RefusalKind::of_status(&status), None);
    }
}
