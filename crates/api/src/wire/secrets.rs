//! Messages with passwords and tokens, as they may be shown: without them.

use std::fmt;

use super::{authpb, etcdserverpb as pb};

impl fmt::Debug for pb::AuthenticateRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthenticateRequest").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for pb::AuthenticateResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthenticateResponse").field("header", &self.header).finish_non_exhaustive()
    }
}

impl fmt::Debug for pb::AuthUserAddRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthUserAddRequest")
            .field("name", &self.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for pb::AuthUserChangePasswordRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthUserChangePasswordRequest")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for authpb::User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("name", &self.name)
            .field("roles", &self.roles)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_messages_do_not_show_secrets() {
        let secret = || "hidden".to_owned();
        let shown = [
            format!("{:?}", pb::AuthenticateRequest { password: secret(), ..Default::default() }),
            format!("{:?}", pb::AuthenticateResponse { token: secret(), ..Default::default() }),
            format!("{:?}", pb::AuthUserAddRequest { password: secret(), ..Default::default() }),
            format!(
                "{:?}",
                pb::AuthUserChangePasswordRequest {
                    password: secret(),
                    hashed_password: secret(),
                    ..Default::default()
                }
            ),
            format!("{:?}", authpb::User { password: secret().into(), ..Default::default() }),
        ];
        assert!(shown.iter().all(|shown| !shown.contains("hidden")), "{shown:?}");
    }
}
