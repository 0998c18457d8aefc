//! Who the client is: etcdctl's flags, a file for the password, and what they come to.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tenure::grpc::{Credentials, Password};

use super::client::HEADING;
use crate::exit::usage;

/// Flags with etcdctl's names.
#[derive(Clone, Default, clap::Args)]
pub(super) struct UserArgs {
    /// Who to be: name or name:password; a terminal is asked for a missing password [env: TENURE_USER, ETCDCTL_USER]
    #[arg(long, global = true, value_name = "NAME[:PASSWORD]", hide_short_help = true, help_heading = HEADING)]
    pub(super) user: Option<String>,
    /// The password of --user; others on this machine can see it [env: TENURE_PASSWORD, ETCDCTL_PASSWORD]
    #[arg(long, global = true, hide_short_help = true, help_heading = HEADING)]
    pub(super) password: Option<String>,
    /// The file whose first line is the password of --user [env: TENURE_PASSWORD_FILE]
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "password", hide_short_help = true, help_heading = HEADING)]
    pub(super) password_file: Option<PathBuf>,
    /// A token that was made elsewhere, instead of --user [env: TENURE_AUTH_JWT_TOKEN, ETCDCTL_AUTH_JWT_TOKEN]
    #[arg(long, global = true, value_name = "TOKEN", conflicts_with_all = ["user", "password", "password_file"], hide_short_help = true, help_heading = HEADING)]
    pub(super) auth_jwt_token: Option<String>,
}

/// Secrets stay out of messages.
impl std::fmt::Debug for UserArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserArgs")
            .field("password_file", &self.password_file)
            .finish_non_exhaustive()
    }
}

/// Who the client is, and how processes that it starts may find out the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct User {
    pub(crate) credentials: Option<Credentials>,
    /// By an absolute path, if the password came from a file.
    file: Option<PathBuf>,
}

impl UserArgs {
    /// With what the environment has under the names without `TENURE_` and `ETCDCTL_`; `ask` asks a person for the
    /// password of a user, where there is one to ask.
    pub(super) fn resolve(
        self,
        ours: impl Fn(&str) -> Option<String>,
        theirs: impl Fn(&str) -> Option<String>,
        ask: impl Fn(&str) -> anyhow::Result<Option<Password>>,
    ) -> anyhow::Result<User> {
        let either = |name: &str| ours(name).or_else(|| theirs(name));
        let by_token =
            |token: String| User { credentials: Some(Credentials::token(token)), file: None };
        if let Some(token) = self.auth_jwt_token {
            return Ok(by_token(token));
        }
        let typed = self.user.is_some();
        let Some(user) = self.user.or_else(|| either("USER")) else {
            if self.password.is_some() || self.password_file.is_some() {
                return Err(usage("a password needs its user: give --user NAME or TENURE_USER"));
            }
            return Ok(either("AUTH_JWT_TOKEN").map(by_token).unwrap_or_default());
        };
        let known = |name: &str, password: String| {
            let credentials = Some(Credentials::user(name, password));
            Ok(User { credentials, file: None })
        };
        let from_file = |path: &Path| {
            let file = std::path::absolute(path).with_context(|| path.display().to_string())?;
            let credentials = Some(Credentials::user(user.as_str(), first_line(&file)?));
            anyhow::Ok(User { credentials, file: Some(file) })
        };
        if let Some(password) = self.password {
            return known(&user, password);
        }
        if let Some(path) = self.password_file {
            return from_file(&path);
        }
        // What was typed with the name is nearer than what is in the environment.
        if let Some((name, password)) = user.split_once(':').filter(|_| typed) {
            return known(name, password.to_owned());
        }
        if let Some(password) = ours("PASSWORD") {
            return known(&user, password);
        }
        if let Some(path) = ours("PASSWORD_FILE") {
            return from_file(Path::new(&path));
        }
        if let Some(password) = theirs("PASSWORD") {
            return known(&user, password);
        }
        if let Some((name, password)) = user.split_once(':') {
            return known(name, password.to_owned());
        }
        match ask(&user)? {
            Some(password) => known(&user, password.reveal().to_owned()),
            None => Err(usage(format!(
                "no password for user {user:?}: give --password-file FILE, --user NAME:PASSWORD or TENURE_PASSWORD"
            ))),
        }
    }
}

impl User {
    /// The same for commands that are started, as far as it may stand in their environment: by the file.
    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let name = self.credentials.as_ref().and_then(Credentials::name);
        let Some((file, name)) = self.file.as_ref().zip(name) else { return vec![] };
        vec![("TENURE_USER", name.into()), ("TENURE_PASSWORD_FILE", file.clone().into_os_string())]
    }
}

fn first_line(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the password file {}", file.display()))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(usage(format!("the password file {} has no first line", file.display()))),
    }
}

/// The variables of our own environment that hold secrets of clients. No process that we start inherits them: whatever can
/// look at its environment would know them.
pub(crate) fn secret_variables() -> Vec<String> {
    secrets_among(std::env::vars_os().filter_map(|(name, value)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    }))
}

fn secrets_among(variables: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let is_secret = |name: &str, value: &str| {
        let of_clients = ["TENURE_", "ETCDCTL_"];
        let Some(rest) = of_clients.iter().find_map(|prefix| name.strip_prefix(prefix)) else {
            return false;
        };
        match rest {
            "PASSWORD" | "AUTH_JWT_TOKEN" => true,
            "USER" => value.contains(':'),
            _ => false,
        }
    };
    let found = variables.filter(|(name, value)| is_secret(name, value));
    found.map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(args: UserArgs, env: &[(&str, &str)]) -> anyhow::Result<User> {
        let of = |prefix: &'static str| {
            move |name: &str| {
                let name = format!("{prefix}{name}");
                env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            }
        };
        args.resolve(of("TENURE_"), of("ETCDCTL_"), |_| Ok(None))
    }

    fn said(args: UserArgs, env: &[(&str, &str)]) -> (String, String) {
        let credentials = resolve(args, env).unwrap().credentials.unwrap();
        let name = credentials.name().unwrap_or_default().to_owned();
        (name, credentials.password().reveal().to_owned())
    }

    fn typed(user: &str) -> UserArgs {
        UserArgs { user: Some(user.into()), ..UserArgs::default() }
    }

    fn pair(name: &str, password: &str) -> (String, String) {
        (name.to_owned(), password.to_owned())
    }

    #[test]
    fn user_password_may_follow_the_name_or_stand_alone() {
        assert_eq!(said(typed("ann:x:y"), &[]), pair("ann", "x:y"));
        let alone = UserArgs { password: Some("z".into()), ..typed("ann") };
        assert_eq!(said(alone, &[]), pair("ann", "z"));
        let error = resolve(typed("ann"), &[]).unwrap_err().to_string();
        assert!(error.contains("no password for user \"ann\""), "{error}");
        let nameless = UserArgs { password: Some("z".into()), ..UserArgs::default() };
        assert!(resolve(nameless, &[]).is_err());
        assert!(resolve(UserArgs::default(), &[]).unwrap().credentials.is_none());
    }

    #[test]
    fn user_flag_wins_over_our_variable_and_ours_over_etcdctls() {
        let theirs = [("ETCDCTL_USER", "c"), ("ETCDCTL_PASSWORD", "3")];
        assert_eq!(said(UserArgs::default(), &theirs), pair("c", "3"));
        assert_eq!(said(UserArgs::default(), &[("ETCDCTL_USER", "c:3")]), pair("c", "3"));
        let both = [&theirs[..], &[("TENURE_USER", "b"), ("TENURE_PASSWORD", "2")]].concat();
        assert_eq!(said(UserArgs::default(), &both), pair("b", "2"));
        assert_eq!(said(typed("a:1"), &both), pair("a", "1"));
        assert_eq!(said(typed("a"), &both), pair("a", "2"));
    }

    #[test]
    fn user_password_file_is_handed_on_and_passwords_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pw");
        std::fs::write(&file, "s3cret\nmore\n").unwrap();
        let args = UserArgs { password_file: Some(file.clone()), ..typed("ann") };
        let user = resolve(args, &[]).unwrap();
        assert_eq!(user.credentials.as_ref().unwrap().password().reveal(), "s3cret");
        let environment = user.environment();
        let pairs: Vec<(&str, &str)> =
            environment.iter().map(|(name, value)| (*name, value.to_str().unwrap())).collect();
        assert_eq!(said(UserArgs::default(), &pairs), pair("ann", "s3cret"));
        assert!(resolve(typed("ann:x"), &[]).unwrap().environment().is_empty());
        std::fs::write(&file, "\n").unwrap();
        let args = UserArgs { password_file: Some(file), ..typed("ann") };
        assert!(resolve(args, &[]).is_err(), "an empty password");
    }

    #[test]
    fn user_token_made_elsewhere_stands_for_a_name() {
        let args = UserArgs { auth_jwt_token: Some("t".into()), ..UserArgs::default() };
        assert_eq!(said(args, &[]), pair("", "t"));
        assert_eq!(said(UserArgs::default(), &[("ETCDCTL_AUTH_JWT_TOKEN", "t")]), pair("", "t"));
    }

    #[test]
    fn user_secrets_are_not_inherited() {
        let all = [
            ("TENURE_PASSWORD", "x"),
            ("ETCDCTL_PASSWORD", "x"),
            ("ETCDCTL_USER", "ann:x"),
            ("TENURE_USER", "ann"),
            ("TENURE_PASSWORD_FILE", "/f"),
            ("TENURE_AUTH_JWT_TOKEN", "t"),
            ("PASSWORD", "x"),
        ];
        let found = secrets_among(all.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        let expected =
            ["TENURE_PASSWORD", "ETCDCTL_PASSWORD", "ETCDCTL_USER", "TENURE_AUTH_JWT_TOKEN"];
        assert_eq!(found, expected);
        assert!(!format!("{:?}", typed("ann:x")).contains("ann:x"));
    }
}
