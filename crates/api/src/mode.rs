//! How many candidates of an election or lock may hold at once.

/// How many candidates may hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One.
    Exclusive,
    /// Any number of shared holders, none beside an exclusive one.
    Shared,
    /// As many as there are permits. All candidates must give the same number.
    Permit(u32),
}
