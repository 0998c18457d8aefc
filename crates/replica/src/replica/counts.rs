//! What a member has done since it came up, in numbers.
//!
//! Plain counters beside the work; the host publishes them. They are this member's own and play no
//! part in any decision.

use tenure_api::{Failure, OpResult};

use super::Replica;
use crate::{command::Command, input::Reply, state::Outcome};

/// Counters that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Puts, in transactions and out of them.
    pub puts: u64,
    /// Bytes of keys and values that puts outside of transactions brought.
    pub put_bytes: u64,
    /// Deletions, whether they found anything or not.
    pub deletes: u64,
    /// Ranges read.
    pub ranges: u64,
    /// Transactions of more than one operation.
    pub txns: u64,
    /// Leases granted.
    pub leases_granted: u64,
    /// Leases renewed.
    pub leases_renewed: u64,
    /// Leases that ended, revoked or expired.
    pub leases_ended: u64,
    /// Writes whose client was told that they failed or may have.
    pub writes_failed: u64,
    /// Linearizable reads that were given up on.
    pub reads_failed: u64,
    /// Read rounds that got no answer in time and were started again.
    pub read_rounds_lost: u64,
}

impl Replica {
    /// Counts a command that was applied.
    pub(super) fn count_applied(&mut self, command: &Command, outcome: &Result<Outcome, Failure>) {
        let Ok(outcome) = outcome else { return };
        match (command, outcome) {
            (Command::Put(put), _) => {
                self.counts.puts += 1;
                self.counts.put_bytes +=
                    (put.key.len() + put.value.as_ref().map_or(0, bytes::Bytes::len)) as u64;
            }
            (Command::DeleteRange(_), _) => self.counts.deletes += 1,
            (Command::Txn(_), Outcome::Txn(done)) => self.count_steps(&done.responses),
            (Command::LeaseGrant { .. }, Outcome::Lease(lease)) => {
                self.counts.leases_granted += 1;
                self.effects.granted_ttls.push(lease.ttl_secs);
            }
            (Command::LeaseRenew(_), _) => self.counts.leases_renewed += 1,
            _ => {}
        }
    }

    /// Counts a read that was answered.
    pub(super) fn count_read(&mut self, reply: &Reply) {
        match reply {
            Reply::Range(_) | Reply::LargeRange(..) => self.counts.ranges += 1,
            Reply::Txn(done) => self.count_steps(&done.responses),
            // Which of its steps are done is found out elsewhere.
            Reply::LargeTxn(..) => self.counts.txns += 1,
            _ => {}
        }
    }

    fn count_steps(&mut self, steps: &[OpResult]) {
        if steps.len() > 1 {
            self.counts.txns += 1;
        }
        for step in steps {
            match step {
                OpResult::Range(_) => self.counts.ranges += 1,
                OpResult::Put(_) => self.counts.puts += 1,
                OpResult::DeleteRange(_) => self.counts.deletes += 1,
                OpResult::Txn(done) => self.count_steps(&done.responses),
            }
        }
    }
}
