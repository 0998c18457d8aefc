//! Signals: their names, and those that come to the supervisor.

use std::io;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Listener, SignalKind, signal as listen};

const NAMES: [(&str, Signal); 22] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("ABRT", Signal::ABORT),
    ("KILL", Signal::KILL),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("PIPE", Signal::PIPE),
    ("ALRM", Signal::ALARM),
    ("TERM", Signal::TERM),
    ("CHLD", Signal::CHILD),
    ("CONT", Signal::CONT),
    ("STOP", Signal::STOP),
    ("TSTP", Signal::TSTP),
    ("TTIN", Signal::TTIN),
    ("TTOU", Signal::TTOU),
    ("URG", Signal::URG),
    ("XCPU", Signal::XCPU),
    ("VTALRM", Signal::VTALARM),
    ("WINCH", Signal::WINCH),
    ("IO", Signal::IO),
    ("PWR", Signal::POWER),
];

/// Reads a signal: USR1, SIGUSR1 or 10.
pub(super) fn signal(text: &str) -> Result<i32, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let named = NAMES.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal);
    let numbered = || text.parse().ok().and_then(Signal::from_named_raw);
    named
        .or_else(numbered)
        .map(Signal::as_raw)
        .ok_or_else(|| format!("{text} is no signal; try USR1, HUP or TERM"))
}

/// What a signal means to the supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Wish {
    /// End it all, beginning with this signal.
    End(i32),
    /// For the command alone.
    Pass(i32),
    /// The terminal wants us to stand still.
    Suspend,
    /// This process was continued: the terminal may be ours again.
    GoOn,
}

/// The signals that come to this process.
#[derive(Debug)]
pub(in crate::commands) struct Signals {
    ends: [Listener; 3],
    passes: [Listener; 4],
    suspend: Listener,
    go_on: Listener,
}

const ENDS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::QUIT];
const PASSES: [Signal; 4] = [Signal::HUP, Signal::USR1, Signal::USR2, Signal::WINCH];

impl Signals {
    /// From now on they come here.
    pub(in crate::commands) fn listen() -> io::Result<Signals> {
        let on = |signal: Signal| listen(SignalKind::from_raw(signal.as_raw()));
        let [a, b, c] = ENDS.map(on);
        let [h, i, j, k] = PASSES.map(on);
        Ok(Signals {
            ends: [a?, b?, c?],
            passes: [h?, i?, j?, k?],
            suspend: on(Signal::TSTP)?,
            go_on: on(Signal::CONT)?,
        })
    }

    /// The next one. May be dropped and called again.
    pub(in crate::commands) async fn next(&mut self) -> Wish {
        let [interrupt, terminate, quit] = &mut self.ends;
        let [hang_up, first, second, resized] = &mut self.passes;
        tokio::select! {
            Some(()) = interrupt.recv() => Wish::End(ENDS[0].as_raw()),
            Some(()) = terminate.recv() => Wish::End(ENDS[1].as_raw()),
            Some(()) = quit.recv() => Wish::End(ENDS[2].as_raw()),
            Some(()) = hang_up.recv() => Wish::Pass(PASSES[0].as_raw()),
            Some(()) = first.recv() => Wish::Pass(PASSES[1].as_raw()),
            Some(()) = second.recv() => Wish::Pass(PASSES[2].as_raw()),
            Some(()) = resized.recv() => Wish::Pass(PASSES[3].as_raw()),
            Some(()) = self.suspend.recv() => Wish::Suspend,
            Some(()) = self.go_on.recv() => Wish::GoOn,
            else => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_has_a_name_a_longer_one_and_a_number() {
        assert_eq!((signal("USR1"), signal("sigusr1"), signal("10")), (Ok(10), Ok(10), Ok(10)));
        assert!(signal("USR9").is_err() && signal("").is_err() && signal("0").is_err());
    }
}
