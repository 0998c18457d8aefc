//! What lines of the log call a member.

use tenure_api::{Member, MemberId};

/// A member's name and id; the id alone of a member that has no name yet, or is not known here.
pub(crate) fn called<'a>(id: MemberId, members: impl IntoIterator<Item = &'a Member>) -> String {
    let member = members.into_iter().find(|member| member.id == id);
    match member.filter(|member| !member.name.is_empty()) {
        Some(member) => format!("{} ({id})", member.name),
        None => id.to_string(),
    }
}
