//! Several members on this machine, in one terminal: to try things out and to break them.
//!
//! Every member is a process of its own, `tenure serve` of this very program, on loopback. [`plan`] says where members
//! listen and keep their data, [`temp_dir`] is data that is thrown away, [`member`] is one process with its talk,
//! [`raft`] watches the raft leader, [`order`] is what may be typed, [`told`] what is said about it, and [`supervisor`] is
//! the loop that has them all. With TLS, [`users`] makes the certificate a login. No member outlives it: see `serve/leash.rs`.

mod input;
mod member;
mod order;
mod plan;
mod raft;
mod supervisor;
mod temp_dir;
mod told;
mod users;

use std::path::PathBuf;

use crate::args::ClientArgs;
use crate::exit::{Exit, usage};

use self::plan::Plan;
use self::supervisor::Supervisor;

const MEMBERS_DEFAULT: usize = 3;

/// What to bring up.
#[derive(Debug, clap::Args)]
#[command(after_help = order::HELP, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// How many: 1, 3, 5 or 7 [default: 3, or as many as --data-dir holds]
    #[arg(value_parser = odd)]
    members: Option<usize>,
    /// Keep the data here; without it, it is gone at the end
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The first member's port for clients; each further one is 10 higher; 0 for any [default: 2379, or any if one is taken]
    #[arg(long, value_name = "PORT")]
    client_port: Option<u16>,
    /// The first member's port for members; each further one is 10 higher; 0 for any [default: 2380, or any if one is taken]
    #[arg(long, value_name = "PORT")]
    peer_port: Option<u16>,
    /// Speak TLS on all ports, with certificates that are made in the data directory and must be shown; that of clients is the login of a user
    #[arg(long)]
    tls: bool,
    /// Restart a member that ends by itself
    #[arg(long)]
    restart: bool,
    /// More flags of tenure serve, for every member
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

const EXAMPLES: &str = "\
Type a letter, a number where there is one, and Enter:
  k 2  kill member 2 with -9    s 2  stop it politely    r 2  restart it (r: all that ended)
  p 2  pause it (SIGSTOP)       c 2  let it continue     l    kill the raft leader
  i    show how they are        ?    show this           q    quit

Examples:
  tenure up                                     three members, until q or Ctrl-C
  tenure up 5 --data-dir lab                    five, and their data stays in lab
  tenure up --tls                               with certificates on both sides of every connection, and a user
  tenure up 3 -- --log-level warn               flags of tenure serve for all of them
  tenure up 3 -w json </dev/null >up.log &      in the background; SIGTERM ends it

Their process ids are shown, so another terminal can be as cruel: kill -9, kill -STOP.
";

fn odd(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ (1 | 3 | 5 | 7)) => Ok(count),
        Ok(2 | 4 | 6 | 8) => {
            Err("an even number survives no more than one less: 1, 3, 5 or 7".into())
        }
        _ => Err("1, 3, 5 or 7".into()),
    }
}

/// Brings them up and looks after them until told to stop.
pub(crate) fn run(args: Args, client: ClientArgs) -> anyhow::Result<Exit> {
    let format = client.format()?;
    if let Some(flag) = args.flags.iter().find(|flag| plan::is_ours(flag)) {
        return Err(usage(format!("{flag} is for tenure up to decide: see tenure up --help")));
    }
    let plan = Plan::make(&args)?;
    if let Some(why) = &plan.elsewhere {
        eprintln!("{why}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // On this thread, because a member dies with the thread that started it.
    runtime.block_on(async { Supervisor::new(plan, args.restart, args.flags, format).run().await })
}
