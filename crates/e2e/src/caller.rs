//! A client that campaigns and locks by the plain calls of etcd's API, with no policy at all.

use std::time::Duration;

use tenure::grpc::{
    Client, ClientError,
    stubs::{ElectionClient, LockClient},
};
use tokio::task::JoinHandle;
use tonic::{Request, Status, Streaming, transport::Channel};

use crate::{electionpb, eventually, lockpb, mvccpb::KeyValue, pb};

/// How long any answer that must come may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client of one member, by the plain calls.
#[derive(Clone, Debug)]
pub struct Caller {
    client: Client,
}

impl Caller {
    /// Calls go where this client's go.
    pub fn new(client: Client) -> Caller {
        Caller { client }
    }

    /// The client for everything else.
    pub fn client(&self) -> &Client {
        &self.client
    }

    fn election(&self) -> ElectionClient<Channel> {
        ElectionClient::new(self.client.channel())
    }

    fn locks(&self) -> LockClient<Channel> {
        LockClient::new(self.client.channel())
    }

    /// A lease that is never renewed.
    pub async fn lease(&self, ttl: i64) -> i64 {
        let grant = pb::LeaseGrantRequest { ttl, id: 0 };
        self.client.lease().grant(grant).await.expect("a lease").id
    }

    /// Ends a lease and with it all that hangs on it.
    pub async fn revoke(&self, lease: i64) {
        self.client.lease().revoke(lease).await.expect("the lease ends");
    }

    /// How many seconds a lease has left; -1 if it is gone.
    pub async fn seconds_left(&self, lease: i64) -> i64 {
        let ask = pb::LeaseTimeToLiveRequest { id: lease, keys: false };
        self.client.lease().time_to_live(ask).await.expect("an answer").ttl
    }

    /// Campaigns, and waits for the answer for as long as it takes.
    pub fn campaign(
        &self,
        name: &str,
        lease: i64,
        value: &str,
    ) -> Waiting<electionpb::CampaignResponse> {
        let request = electionpb::CampaignRequest {
            name: name.to_owned().into(),
            lease,
            value: value.to_owned().into(),
        };
        let mut stub = self.election();
        Waiting::for_answer(async move { stub.campaign(request).await.map(|r| r.into_inner()) })
    }

    /// Campaigns and must be elected.
    pub async fn elected(&self, name: &str, lease: i64, value: &str) -> electionpb::LeaderKey {
        let elected = self.campaign(name, lease, value).answer().await;
        elected.expect("elected").leader.expect("a leader key")
    }

    /// Changes a leader's value.
    pub async fn proclaim(
        &self,
        leader: electionpb::LeaderKey,
        value: &str,
    ) -> Result<electionpb::ProclaimResponse, Status> {
        let value = value.to_owned().into();
        let request = electionpb::ProclaimRequest { leader: Some(leader), value };
        self.election().proclaim(request).await.map(|response| response.into_inner())
    }

    /// Ends a tenure.
    pub async fn resign(
        &self,
        leader: electionpb::LeaderKey,
    ) -> Result<electionpb::ResignResponse, Status> {
        let request = electionpb::ResignRequest { leader: Some(leader) };
        self.election().resign(request).await.map(|response| response.into_inner())
    }

    /// The leader.
    pub async fn leader(&self, name: &str) -> Result<electionpb::LeaderResponse, Status> {
        let request = electionpb::LeaderRequest { name: name.to_owned().into() };
        self.election().leader(request).await.map(|response| response.into_inner())
    }

    /// Observes the leader.
    pub async fn observe(&self, name: &str) -> Observer {
        let request = electionpb::LeaderRequest { name: name.to_owned().into() };
        let mut stub = self.election();
        // etcd answers the opening of a stream only with its first message.
        let opening = tokio::spawn(async move { stub.observe(Request::new(request)).await });
        Observer { opening: Some(opening), answers: None }
    }

    /// Locks, and waits for the answer for as long as it takes.
    pub fn lock(&self, name: &str, lease: i64) -> Waiting<lockpb::LockResponse> {
        let request = lockpb::LockRequest { name: name.to_owned().into(), lease };
        let mut stub = self.locks();
        Waiting::for_answer(async move { stub.lock(request).await.map(|r| r.into_inner()) })
    }

    /// Locks and must get it.
    pub async fn locked(&self, name: &str, lease: i64) -> lockpb::LockResponse {
        self.lock(name, lease).answer().await.expect("locked")
    }

    /// Unlocks; a token other than 0 names the hold that is meant.
    pub async fn unlock(
        &self,
        key: impl Into<tonic::codegen::Bytes>,
        fencing_token: i64,
    ) -> Result<lockpb::UnlockResponse, Status> {
        let request = lockpb::UnlockRequest { key: key.into(), fencing_token };
        self.locks().unlock(request).await.map(|response| response.into_inner())
    }

    /// All candidates, oldest first: the keys under `<name>/` by create revision.
    pub async fn candidates(&self, name: &str) -> Vec<KeyValue> {
        self.try_candidates(name).await.expect("a range")
    }

    async fn try_candidates(&self, name: &str) -> Result<Vec<KeyValue>, ClientError> {
        let range = pb::RangeRequest {
            key: format!("{name}/").into(),
            range_end: format!("{name}0").into(),
            ..Default::default()
        };
        let mut found = self.client.kv().range(range).await?.kvs;
        found.sort_by_key(|kv| kv.create_revision);
        Ok(found)
    }

    /// Waits until there are so many candidates, also if there is no raft leader for a while.
    pub async fn has_candidates(&self, name: &str, count: usize) -> Vec<KeyValue> {
        eventually(&format!("{count} candidates for {name}"), async || {
            let queue = self.try_candidates(name).await.map_err(|error| error.to_string())?;
            if queue.len() == count { Ok(queue) } else { Err(format!("{queue:?}")) }
        })
        .await
    }

    /// Puts a key.
    pub async fn put(&self, key: &str, value: &str) -> i64 {
        let (key, value) = (key.to_owned().into(), value.to_owned().into());
        let put = pb::PutRequest { key, value, ..Default::default() };
        self.client.kv().put(put).await.expect("a put").header.expect("a header").revision
    }

    /// Deletes a key.
    pub async fn delete(&self, key: impl Into<tonic::codegen::Bytes>) {
        let delete = pb::DeleteRangeRequest { key: key.into(), ..Default::default() };
        self.client.kv().delete_range(delete).await.expect("a delete");
    }

    /// Writes something, and compacts everything before it.
    pub async fn compact(&self) {
        let revision = self.put("compact", "everything before this").await;
        let compact = pb::CompactionRequest { revision, physical: false };
        self.client.kv().compact(compact).await.expect("a compaction");
    }
}

/// A call under way. Dropping it hangs up.
#[derive(Debug)]
pub struct Waiting<T> {
    call: JoinHandle<Result<T, Status>>,
}

impl<T: Send + 'static> Waiting<T> {
    fn for_answer(call: impl Future<Output = Result<T, Status>> + Send + 'static) -> Waiting<T> {
        Waiting { call: tokio::spawn(call) }
    }

    /// The answer, which must come.
    pub async fn answer(self) -> Result<T, Status> {
        self.answer_within(PATIENCE).await
    }

    /// The answer, which must come in time.
    pub async fn answer_within(mut self, time: Duration) -> Result<T, Status> {
        self.within(time).await.unwrap_or_else(|| panic!("no answer within {time:?}"))
    }

    /// The answer if it comes in time.
    pub async fn within(&mut self, time: Duration) -> Option<Result<T, Status>> {
        let answer = tokio::time::timeout(time, &mut self.call).await.ok()?;
        Some(answer.expect("a call does not panic"))
    }

    /// Whether there is an answer already.
    pub fn is_answered(&self) -> bool {
        self.call.is_finished()
    }

    /// Hangs up before the answer came.
    pub fn hang_up(self) {}
}

impl<T> Drop for Waiting<T> {
    fn drop(&mut self) {
        self.call.abort();
    }
}

type Opened = Result<tonic::Response<Streaming<electionpb::LeaderResponse>>, Status>;

/// An observer of an election.
#[derive(Debug)]
pub struct Observer {
    opening: Option<JoinHandle<Opened>>,
    answers: Option<Streaming<electionpb::LeaderResponse>>,
}

impl Observer {
    /// What is heard next, which must come; or why nothing more will.
    pub async fn next(&mut self) -> Result<electionpb::LeaderResponse, Status> {
        let next = self.within(PATIENCE).await;
        next.unwrap_or_else(|| panic!("nothing was heard within {PATIENCE:?}"))
    }

    /// What is heard next if it comes in time.
    pub async fn within(
        &mut self,
        time: Duration,
    ) -> Option<Result<electionpb::LeaderResponse, Status>> {
        tokio::time::timeout(time, self.hear()).await.ok()
    }

    /// The value of the leader that is heard of next.
    pub async fn next_value(&mut self) -> String {
        let kv = self.next().await.expect("the stream goes on").kv.expect("a leader");
        String::from_utf8_lossy(&kv.value).into_owned()
    }

    async fn hear(&mut self) -> Result<electionpb::LeaderResponse, Status> {
        if let Some(opening) = &mut self.opening {
            let opened = opening.await.expect("opening does not panic");
            self.opening = None;
            self.answers = Some(opened?.into_inner());
        }
        let answers = self.answers.as_mut().expect("it is open");
        answers.message().await?.ok_or_else(|| Status::ok("the stream ended without a word"))
    }
}
