//! The runs of a job.
//!
//! A *slot* is one run of a job that is to happen once: last night's backup, the migration to version 7. It is the key
//! `tenure/once/JOB/SLOT`, and its value says who runs it and what came of it. Only a holder of the job's lock (or of the
//! election under which the job runs) writes it, in a transaction that the holder's token guards: a process that
//! was paused and replaced cannot claim a slot. The end is written by the process that claimed it, if no later claim came
//! between.
//!
//! The key hangs on a lease of its own, so a slot is forgotten some time after it began, and nothing piles up.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tenure::api::wire::etcdserverpb as pb;
use tenure::fence::{GuardedError, HolderKey, guarded_txn};
use tenure::grpc::{Client, ClientError};

/// Below this all slots of all jobs are.
const PREFIX: &str = "tenure/once/";
const SLOT_BYTES_MAX: usize = 255;
/// Records read in one answer.
const PAGE: i64 = 1000;
/// Between attempts, when it is not known what a transaction came to.
const READ_BACK_PAUSE: Duration = Duration::from_millis(100);

/// How often a slot may be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It is claimed before the command starts. A crash in the middle is not repeated.
    AtMostOnce,
    /// It is done when the command has succeeded. After a crash another process runs it again.
    AtLeastOnce,
}

/// What came of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// It was begun. If its process no longer holds the lock, it did not finish.
    Running,
    /// The command succeeded.
    Done,
    /// The command failed, or was ended.
    Failed,
    /// It was passed over: too late, or the run before it took too long.
    Skipped,
}

/// A slot, as its key's value says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) slot: String,
    pub(crate) outcome: Outcome,
    /// Who runs it.
    pub(crate) identity: String,
    /// The fencing token under which it was claimed.
    pub(crate) token: i64,
    pub(crate) started_unix_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended_unix_ms: Option<u64>,
    /// As a shell would show it: 128 and more for a signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<u8>,
    /// How often the command was started.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) attempts: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Record {
    /// Whether a slot with this record is not to be run again.
    pub(crate) fn settles(&self, delivery: Delivery) -> bool {
        match delivery {
            Delivery::AtMostOnce => true,
            Delivery::AtLeastOnce => matches!(self.outcome, Outcome::Done | Outcome::Skipped),
        }
    }
}

/// A slot that is ours to run.
#[derive(Clone, Debug)]
pub(crate) struct Claimed {
    pub(crate) record: Record,
    /// The key has this revision for as long as no other process has claimed the slot again.
    revision: i64,
}

/// What claiming a slot came to.
#[derive(Clone, Debug)]
pub(crate) enum Claim {
    /// Run it.
    Ours(Box<Claimed>),
    /// It was run, or begun.
    Taken(Record),
}

/// Why a slot is not claimed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SlotsError {
    /// The lock went to another process meanwhile.
    #[error(transparent)]
    Guarded(#[from] GuardedError),
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Another program writes below our keys.
    #[error("key {key} is not a record of a run: {cause}")]
    Strange { key: String, cause: serde_json::Error },
}

/// The slots of one job.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    client: Client,
    job: String,
    keep: Duration,
}

/// Milliseconds of this host's wall clock.
pub(crate) fn host_now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

impl Slots {
    /// Slots of this job, each remembered for so long after it began.
    pub(crate) fn new(client: Client, job: String, keep: Duration) -> Slots {
        Slots { client, job, keep }
    }

    /// Whether a text can name a slot.
    pub(crate) fn check_name(slot: &str) -> Result<(), String> {
        let refused = match slot {
            "" => "is empty".to_owned(),
            _ if slot.len() > SLOT_BYTES_MAX => format!("is longer than {SLOT_BYTES_MAX} bytes"),
            _ if slot.contains('/') => "contains a slash".to_owned(),
            _ if slot.chars().any(char::is_control) => "contains a control character".to_owned(),
            _ => return Ok(()),
        };
        Err(format!("the slot {slot:?} {refused}"))
    }

    /// What is known of a slot.
    pub(crate) async fn read(&self, slot: &str) -> Result<Option<Record>, SlotsError> {
        Ok(self.find(slot).await?.1.map(|claimed| claimed.record))
    }

    /// A slot, and the revision at which the store was read.
    async fn find(&self, slot: &str) -> Result<(i64, Option<Claimed>), SlotsError> {
        let range = pb::RangeRequest { key: self.key(slot).into(), ..Default::default() };
        let answer = self.client.kv().range(range).await?;
        let revision = answer.header.as_ref().map_or(0, |header| header.revision);
        let found = answer.kvs.first().map(parse).transpose()?;
        Ok((revision, found))
    }

    /// Waits until a slot is settled.
    pub(crate) async fn settled(
        &self,
        slot: &str,
        delivery: Delivery,
    ) -> Result<Record, SlotsError> {
        let (revision, found) = self.find(slot).await?;
        if let Some(found) = found.filter(|found| found.record.settles(delivery)) {
            return Ok(found.record);
        }
        let mut watch = self
            .client
            .watch()
            .resumed(pb::WatchCreateRequest {
                key: self.key(slot).into(),
                start_revision: revision + 1,
                ..Default::default()
            })
            .await?;
        loop {
            for event in watch.next().await?.events {
                let Some(kv) = event.kv.filter(|kv| !kv.value.is_empty()) else { continue };
                let record = parse(&kv)?.record;
                if record.settles(delivery) {
                    return Ok(record);
                }
            }
        }
    }

    /// Claims a slot, as a holder.
    ///
    /// # Errors
    /// If the hold is over, or if it is not known whether the slot was claimed before the hold was.
    pub(crate) async fn claim(
        &self,
        holder: &HolderKey,
        record: Record,
        delivery: Delivery,
    ) -> Result<Claim, SlotsError> {
        loop {
            let (_, found) = self.find(&record.slot).await?;
            let before = match found {
                // An earlier attempt of ours, whose answer was lost.
                Some(found) if found.record == record => return Ok(Claim::Ours(Box::new(found))),
                Some(found) if found.record.settles(delivery) => {
                    return Ok(Claim::Taken(found.record));
                }
                Some(found) => found.revision,
                None => 0,
            };
            let lease = self.lease().await?;
            let compare = at_revision(self.key(&record.slot), before);
            let put = self.put(&record, pb::PutRequest { lease, ..Default::default() });
            match guarded_txn(&self.client, holder, txn(compare, put)).await {
                Ok(done) if done.succeeded => {
                    let revision = done.header.map_or(0, |header| header.revision);
                    return Ok(Claim::Ours(Box::new(Claimed { record, revision })));
                }
                // Another process was faster: see what it wrote.
                Ok(_) => self.drop_lease(lease).await,
                Err(GuardedError::Client(error)) if error.outcome_unknown() => {
                    tokio::time::sleep(READ_BACK_PAUSE).await;
                }
                Err(error) => {
                    self.drop_lease(lease).await;
                    return Err(error.into());
                }
            }
        }
    }

    /// Writes what came of a slot, unless another process has claimed it since. Answers whether it was written.
    pub(crate) async fn finish(
        &self,
        claimed: &Claimed,
        record: Record,
    ) -> Result<bool, SlotsError> {
        let compare = at_revision(self.key(&claimed.record.slot), claimed.revision);
        let put = self.put(&record, pb::PutRequest { ignore_lease: true, ..Default::default() });
        // Twice the same changes nothing more: it may be tried again when the outcome is unknown.
        loop {
            match self.client.kv().txn(txn(compare.clone(), put.clone())).await {
                Ok(done) if done.succeeded => return Ok(true),
                Ok(_) => return Ok(self.read(&record.slot).await?.as_ref() == Some(&record)),
                Err(error) if error.outcome_unknown() => {
                    tokio::time::sleep(READ_BACK_PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// All slots that are remembered, oldest first.
    pub(crate) async fn list(&self) -> Result<Vec<Record>, SlotsError> {
        let (mut from, to) = (self.key("").into_bytes(), [PREFIX, &self.job, "0"].concat());
        let own = from.len();
        let (mut records, mut revision) = (Vec::new(), 0);
        loop {
            let range = pb::RangeRequest {
                key: from.into(),
                range_end: to.clone().into(),
                limit: PAGE,
                revision,
                ..Default::default()
            };
            let answer = self.client.kv().range(range).await?;
            // All pages as of the first.
            revision = answer.header.map_or(0, |header| header.revision);
            for kv in &answer.kvs {
                // Not those of jobs whose names go on after ours.
                if !kv.key[own..].contains(&b'/') {
                    records.push(parse(kv)?.record);
                }
            }
            match answer.kvs.last() {
                Some(last) if answer.more => from = [&last.key[..], b"\0"].concat(),
                _ => break,
            }
        }
        records.sort_by_key(|record| record.started_unix_ms);
        Ok(records)
    }

    /// The token of the process that holds the job's lock now, if one does.
    pub(crate) async fn held_with(&self) -> Result<Option<i64>, SlotsError> {
        let election = self.client.elections().candidates(self.job.clone()).await?;
        Ok(election.candidates.into_iter().find(|one| one.holds).map(|one| one.token))
    }

    fn key(&self, slot: &str) -> String {
        [PREFIX, &self.job, "/", slot].concat()
    }

    fn put(&self, record: &Record, put: pb::PutRequest) -> pb::PutRequest {
        let value = serde_json::to_vec(record).expect("a record is plain data");
        pb::PutRequest { key: self.key(&record.slot).into(), value: value.into(), ..put }
    }

    /// A lease that lasts for as long as a slot is remembered.
    async fn lease(&self) -> Result<i64, SlotsError> {
        let ttl = i64::try_from(self.keep.as_secs()).unwrap_or(i64::MAX);
        let grant = pb::LeaseGrantRequest { ttl, ..Default::default() };
        Ok(self.client.lease().grant(grant).await?.id)
    }

    /// Gives a lease back that was not needed. If that fails it ends by itself.
    async fn drop_lease(&self, lease: i64) {
        let _ = self.client.lease().revoke(lease).await;
    }
}

fn parse(kv: &tenure::api::wire::mvccpb::KeyValue) -> Result<Claimed, SlotsError> {
    let record = serde_json::from_slice(&kv.value).map_err(|cause| SlotsError::Strange {
        key: String::from_utf8_lossy(&kv.key).into_owned(),
        cause,
    })?;
    Ok(Claimed { record, revision: kv.mod_revision })
}

/// A key was last written at that revision; 0 if it does not exist.
fn at_revision(key: String, revision: i64) -> pb::Compare {
    use pb::compare::{CompareResult, CompareTarget, TargetUnion};
    pb::Compare {
        key: key.into(),
        target: CompareTarget::Mod as i32,
        result: CompareResult::Equal as i32,
        target_union: Some(TargetUnion::ModRevision(revision)),
        ..Default::default()
    }
}

fn txn(compare: pb::Compare, put: pb::PutRequest) -> pb::TxnRequest {
    let put = pb::RequestOp { request: Some(pb::request_op::Request::RequestPut(put)) };
    pb::TxnRequest { compare: vec![compare], success: vec![put], failure: vec![] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(outcome: Outcome) -> Record {
        Record {
            slot: "monday".into(),
            outcome,
            identity: "a/1".into(),
            token: 7,
            started_unix_ms: 1,
            ended_unix_ms: None,
            exit_code: None,
            attempts: 0,
        }
    }

    #[test]
    fn record_settles_a_slot_by_its_delivery() {
        use Delivery::{AtLeastOnce, AtMostOnce};
        for (outcome, at_most, at_least) in [
            (Outcome::Running, true, false),
            (Outcome::Failed, true, false),
            (Outcome::Done, true, true),
            (Outcome::Skipped, true, true),
        ] {
            let record = record(outcome);
            assert_eq!(record.settles(AtMostOnce), at_most, "{outcome:?}");
            assert_eq!(record.settles(AtLeastOnce), at_least, "{outcome:?}");
        }
    }

    #[test]
    fn record_is_read_as_it_was_written() {
        let record = record(Outcome::Running);
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(
            text,
            r#"{"slot":"monday","outcome":"running","identity":"a/1","token":7,"started_unix_ms":1}"#
        );
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }

    #[test]
    fn slot_name_is_text_without_slashes() {
        assert!(Slots::check_name("2026-11-18T03:00:00Z").is_ok());
        for bad in ["", "a/b", "a\nb", &"x".repeat(256)] {
            assert!(Slots::check_name(bad).is_err(), "{bad:?}");
        }
    }
}
