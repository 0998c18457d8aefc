//! Users and roles that change while users ask.

use tenure_lab::cluster::catalogue::USERS;

use crate::holds;

#[test]
fn users_are_granted_what_their_roles_allow_and_nothing_else() {
    holds(&USERS, 30, &["rights_kept", "allowed by roles", "denied by roles", "snapshot_taken"]);
}
