//! A lock without a command: the token is printed, and the lock held until interrupted.

use tenure::backend::JoinSpec;
use tenure::{AcquireError, Session, SessionOptions};

use super::args::How;
use super::signals::{Signals, Wish};
use crate::args::Settings;
use crate::exit::Exit;
use crate::talk::talk;

/// Holds it until interrupted, or until it is lost.
pub(super) async fn hold(mut join: JoinSpec, how: How, settings: Settings) -> anyhow::Result<Exit> {
    how.validate()?;
    how.without_command()?;
    let mut signals = Signals::listen()?;
    // The holder is this process: when it dies, so does the hold.
    let mut options = SessionOptions { fast_release: true, ..SessionOptions::new(how.ttl) };
    options.identity = how.identity.clone().unwrap_or(options.identity);
    let session = Session::open_with(&settings.engine(), options).await?;
    join.value = how.value.clone().into();
    join.priority = how.priority;
    join.try_only = how.nonblock;
    // An earlier holder may still be ending its command.
    join.no_overlap = true;
    let name = join.first_name();
    let waiting = session.join(join, how.timeout);
    let held = tokio::select! {
        held = waiting => match held {
            Ok(held) => held,
            Err(AcquireError::Taken { .. } | AcquireError::TimedOut { .. }) => {
                talk!("tenure: {name} is held by others");
                return Ok(match how.conflict_exit_code {
                    3 => Exit::NotTaken,
                    code => Exit::Code(code),
                });
            }
            Err(error) => return Err(error.into()),
        },
        exit = interrupted(&mut signals) => {
            session.close().await;
            return Ok(exit);
        }
    };
    println!("{}", held.token());
    tokio::select! {
        loss = held.lost() => {
            talk!("tenure: lost {name}: {loss}");
            Ok(Exit::Lost)
        }
        _ = held.drain() => {
            held.release().await?;
            Ok(Exit::Done)
        }
        _ = interrupted(&mut signals) => {
            held.release().await?;
            session.close().await;
            Ok(Exit::Done)
        }
    }
}

async fn interrupted(signals: &mut Signals) -> Exit {
    loop {
        if let Wish::End(signal) = signals.next().await {
            return Exit::Signal(u8::try_from(signal).unwrap_or(0));
        }
    }
}
