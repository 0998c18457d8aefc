//! Why something about an election was refused. Deterministic, part of the replicated result; nothing was
//! changed.

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// Why not. The numbers are those of the wire and of the log.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
        pub enum Refusal {
            $($(#[$doc])* #[error($text)] $name = $number,)*
        }

        impl Refusal {
            /// Every refusal.
            pub const ALL: &'static [Refusal] = &[$(Refusal::$name),*];
        }
    };
}

refusals! {
    /// No name, one that is too long, or one with an empty part.
    BadName = 1, "not a name: it must not be empty, nor have an empty part, nor end in !frozen";
    /// Another live name lies above or below this one.
    NestedName = 2, "another election or lock lives above or below this name";
    /// This session is a candidate in that election already.
    AlreadyCandidate = 3, "this session is a candidate there already";
    /// The session has no such candidacy, or not with this token any more.
    NoSuchCandidacy = 4, "this session has no such candidacy, or not with that token any more";
    /// Held by others, and the request was not to wait.
    Taken = 5, "held by another candidate";
    /// A priority above the highest.
    BadPriority = 6, "priority out of range: it goes from 0 to 1000, and is 0 for several names at once";
    /// The others in the election hold it in a way that does not go with this.
    ModeMismatch = 7, "the other candidates give another number of permits, or the leader has a mode that cannot be handed over";
    /// No candidate fits that description.
    NoSuchCandidate = 8, "no candidate matches the description";
    /// A stock client comes before the chosen one and must not be overtaken.
    StockCandidateAhead = 9, "a candidate that must not be overtaken is ahead of the chosen one";
    /// No candidate may lead until the name is resumed.
    NameFrozen = 10, "the name is frozen: resume it first";
    /// The name is not frozen.
    NameNotFrozen = 11, "the name is not frozen";
    /// One transfer at a time.
    TransferUnderWay = 12, "a transfer to another candidate is under way";
    /// There is no such session.
    SessionGone = 13, "there is no such session";
    /// The answer to this request is forgotten.
    RequestTooOld = 14, "the answer to this request is forgotten";
    /// Something is larger than it may be.
    TooLarge = 15, "too large: a name, value, identity or metadata, or too many candidacies";
    /// The chosen one would be passed over.
    CandidateUnhealthy = 16, "the chosen candidate reports itself unhealthy and would be passed over";
    /// The session's secret was not shown. Never the answer to a session's request, so no session remembers it.
    WrongSecret = 17, "this is not the secret of the session";
}

impl Refusal {
    /// The refusal of this number.
    pub fn from_number(number: u8) -> Option<Refusal> {
        Refusal::ALL.iter().copied().find(|refusal| *refusal as u8 == number)
    }
}
