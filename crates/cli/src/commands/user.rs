//! Shows and changes users.

use std::io::BufRead;

use clap::Subcommand;
use tenure::api::wire::etcdserverpb as pb;
use tenure::grpc::Password;

use crate::args::Settings;
use crate::exit::{Exit, usage};
use crate::output::Output;
use crate::prompt;

/// What to do about users.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add a user; its password is asked for twice unless it is given
    Add(Add),
    /// Remove a user
    Delete {
        /// The user
        name: String,
    },
    /// Show the roles of a user
    Get {
        /// The user
        name: String,
        /// And what each of them allows
        #[arg(long)]
        detail: bool,
    },
    /// Show all users
    List,
    /// Give a user another password
    Passwd {
        /// The user
        name: String,
        #[command(flatten)]
        from: From,
    },
    /// Give a user a role
    GrantRole {
        /// The user
        name: String,
        /// The role
        role: String,
    },
    /// Take a role from a user
    RevokeRole {
        /// The user
        name: String,
        /// The role
        role: String,
    },
}

/// A user to add.
#[derive(clap::Args)]
pub(crate) struct Add {
    /// The user: name or name:password
    #[arg(value_name = "NAME[:PASSWORD]")]
    name: String,
    /// Its password
    #[arg(long, value_name = "PASSWORD")]
    new_user_password: Option<String>,
    /// Without a password: it proves itself by its certificate only
    #[arg(long, conflicts_with = "new_user_password")]
    no_password: bool,
    #[command(flatten)]
    from: From,
}

/// The password stays out of messages.
impl std::fmt::Debug for Add {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Add").field("no_password", &self.no_password).finish_non_exhaustive()
    }
}

/// Where a password comes from that was not given.
#[derive(Debug, clap::Args)]
pub(crate) struct From {
    /// Ask for the password on the terminal; with --interactive=false it is the first line of stdin
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set, hide_default_value = true)]
    interactive: bool,
}

/// Does it.
pub(crate) async fn run(command: Command, settings: Settings) -> anyhow::Result<Exit> {
    let client = settings.client();
    let auth = client.auth();
    let mut output = Output::stdout(&settings);
    match command {
        Command::Add(add) => {
            let (name, password) = add.read()?;
            let added = auth.user_add(&name, password.as_ref()).await?;
            output.auth_changed(&format!("User {name} created"), added.header.as_ref())?;
        }
        Command::Delete { name } => {
            let request = pb::AuthUserDeleteRequest { name: name.clone() };
            let deleted = auth.user_delete(request).await?;
            output.auth_changed(&format!("User {name} deleted"), deleted.header.as_ref())?;
        }
        Command::Get { name, detail } => {
            let user = auth.user_get(pb::AuthUserGetRequest { name: name.clone() }).await?;
            if !detail {
                output.user(&name, &user)?;
            } else {
                output.user_heading(&name)?;
                for role in user.roles {
                    let request = pb::AuthRoleGetRequest { role: role.clone() };
                    output.role_of_user(&role, &auth.role_get(request).await?)?;
                }
            }
        }
        Command::List => output.user_list(&auth.user_list(pb::AuthUserListRequest {}).await?)?,
        Command::Passwd { name, from } => {
            let password = from.read(&name)?;
            let changed = auth.user_change_password(&name, &password).await?;
            output.auth_changed("Password updated", changed.header.as_ref())?;
        }
        Command::GrantRole { name, role } => {
            let request = pb::AuthUserGrantRoleRequest { user: name.clone(), role: role.clone() };
            let granted = auth.user_grant_role(request).await?;
            let said = format!("Role {role} is granted to user {name}");
            output.auth_changed(&said, granted.header.as_ref())?;
        }
        Command::RevokeRole { name, role } => {
            let request = pb::AuthUserRevokeRoleRequest { name: name.clone(), role: role.clone() };
            let revoked = auth.user_revoke_role(request).await?;
            let said = format!("Role {role} is revoked from user {name}");
            output.auth_changed(&said, revoked.header.as_ref())?;
        }
    }
    output.flush()?;
    Ok(Exit::Done)
}

impl Add {
    /// The name, and the password unless there is to be none.
    fn read(self) -> anyhow::Result<(String, Option<Password>)> {
        if self.no_password {
            return Ok((self.name, None));
        }
        let (name, password) = match (self.new_user_password, self.name.split_once(':')) {
            (Some(password), _) => (self.name, Password::new(password)),
            (None, Some((name, password))) => (name.to_owned(), Password::new(password)),
            (None, None) => {
                let password = self.from.read(&self.name)?;
                (self.name, password)
            }
        };
        // etcdctl says the same.
        if name.is_empty() {
            return Err(usage("empty user name is not allowed"));
        }
        Ok((name, Some(password)))
    }
}

impl From {
    pub(super) fn read(&self, name: &str) -> anyhow::Result<Password> {
        let password = match self.interactive {
            true => asked(name)?,
            false => {
                let mut line = String::new();
                std::io::stdin().lock().read_line(&mut line)?;
                Password::new(line.trim_end_matches(['\r', '\n']))
            }
        };
        match password.reveal() {
            "" => Err(usage("empty password")),
            _ => Ok(password),
        }
    }
}

/// Asked for twice: nothing of it is shown.
fn asked(name: &str) -> anyhow::Result<Password> {
    let Some(first) = prompt::password(&format!("Password of {name}: "))? else {
        return Err(usage(
            "there is no terminal to ask for the password: give --interactive=false",
        ));
    };
    let again = format!("Type password of {name} again for confirmation: ");
    match prompt::password(&again)? {
        Some(second) if second == first => Ok(first),
        _ => Err(usage(format!("the two passwords of {name} differ"))),
    }
}
