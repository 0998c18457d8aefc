//! Between being elected and starting: a predecessor that may still be at work is cut off first, or we step aside.

use std::time::Duration;

use tenure::{Held, Session};

use super::signals::Wish;
use super::stonith;
use super::supervisor::{After, FAREWELL, Supervisor};
use crate::exit::Exit;
use crate::talk::talk;

/// After a failed fencing others shall have their turn first.
const STEP_ASIDE: Duration = Duration::from_secs(5);

impl Supervisor {
    /// Cuts off predecessors that may still be at work. The error is what comes next, if we may not start.
    pub(super) async fn cut_off_predecessors(&mut self, held: &Held) -> Result<(), After> {
        let Some(stonith) = self.stonith.clone() else { return Ok(()) };
        let (settings, name) = (self.settings.clone(), self.name());
        let (own, quiet) = (self.identity.clone(), self.how.quiet);
        let token = held.token().get();
        let fenced = async {
            for deposed in stonith::deposed(&settings, &name, (token, &own)).await? {
                if !quiet {
                    talk!("tenure: fencing {}, which did not resign", deposed.identity);
                }
                stonith.fence(&deposed).await?;
            }
            Ok(())
        };
        let mut fenced = std::pin::pin!(fenced);
        loop {
            let done: anyhow::Result<()> = tokio::select! {
                done = &mut fenced => done,
                loss = held.lost() => Err(anyhow::anyhow!("{loss}")),
                drain = held.drain() => Err(anyhow::anyhow!("{} is to lead", drain.successor)),
                wish = self.signals.next() => match wish {
                    Wish::End(signal) => {
                        return Err(After::Exit(Exit::Signal(u8::try_from(signal).unwrap_or(0))));
                    }
                    Wish::Pass(_) | Wish::Suspend | Wish::GoOn => continue,
                },
            };
            return done.map_err(|error| {
                talk!("tenure: fencing failed, stepping aside: {error:#}");
                if self.how.once { After::Exit(Exit::Lost) } else { After::Again }
            });
        }
    }

    /// Lets others try before we do again. Not by resigning: that would say that all is well, and then it would be
    /// unknown which holder is to be cut off.
    pub(super) async fn step_aside(&mut self, session: &Session, held: Held, next: After) -> After {
        let name = self.join.first_name();
        let told = session.report_health(&name, false);
        let told = tokio::time::timeout(FAREWELL, told).await;
        drop(held);
        // A leader that lost the lead meanwhile did not step down; its tenure must not count as one that was ended
        // well.
        self.is_unsure = !matches!(told, Ok(Ok(())));
        if let After::Exit(_) = next {
            return next;
        }
        let pause = tokio::time::sleep(STEP_ASIDE);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => return After::Again,
                wish = self.signals.next() => if let Some(exit) = self.asked(wish).await {
                    return After::Exit(exit);
                },
            }
        }
    }
}
