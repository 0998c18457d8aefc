//! The transcript: 64 checks, each put to a real etcd 3.5.1 and to us.
//!
//! What both must say stands once. Where we are stricter, both answers stand here: etcd must give its own, or the
//! transcript has a mistake, and we ours. Those about JWT and certificates are in rooms of their own.

use std::time::Duration;

use pb::request_op::Request as Op;
use tenure::grpc::{Client, Endpoint, Options};
use tenure_api::wire::authpb::permission::Type;
use tenure_e2e::{Side, eventually, lockpb, pb};

use crate::asking::Asker;
use crate::stage::{self, password, permission, token};

/// What one of the two said, held against what it must say.
struct Transcript {
    is_etcd: bool,
    checks: usize,
    wrong: Vec<String>,
}

impl Transcript {
    fn of(side: &Side) -> Transcript {
        Transcript { is_etcd: matches!(side, Side::Etcd(_)), checks: 0, wrong: vec![] }
    }

    /// Both say this.
    fn same(&mut self, check: &str, said: impl AsRef<str>, expected: &str) {
        self.check(check, said.as_ref(), expected);
    }

    /// etcd says one thing, and we are stricter.
    fn stricter(&mut self, check: &str, said: impl AsRef<str>, etcd: &str, ours: &str) {
        self.check(check, said.as_ref(), if self.is_etcd { etcd } else { ours });
    }

    fn check(&mut self, check: &str, said: &str, expected: &str) {
        self.checks += 1;
        if said != expected {
            self.wrong.push(format!("{check}: said {said}, expected {expected}"));
        }
    }

    fn end(self) {
        let whose = if self.is_etcd { "etcd" } else { "ours" };
        assert!(self.checks > 0);
        assert!(self.wrong.is_empty(), "{whose}:\n{}", self.wrong.join("\n"));
    }
}

fn range(key: &str, end: &str) -> pb::RangeRequest {
    let (key, range_end) = (key.to_owned().into(), end.to_owned().into());
    pb::RangeRequest { key, range_end, ..Default::default() }
}

fn put(key: &str) -> pb::PutRequest {
    pb::PutRequest { key: key.to_owned().into(), value: "v".into(), ..Default::default() }
}

fn op(op: Op) -> pb::RequestOp {
    pb::RequestOp { request: Some(op) }
}

/// Compares the version of a key with 0.
fn compare(key: &str) -> pb::Compare {
    let target_union = Some(pb::compare::TargetUnion::Version(0));
    pb::Compare { key: key.to_owned().into(), target_union, ..Default::default() }
}

fn txn(compares: Vec<pb::Compare>, success: Vec<Op>, failure: Vec<Op>) -> pb::TxnRequest {
    let ops = |all: Vec<Op>| all.into_iter().map(op).collect();
    pb::TxnRequest { compare: compares, success: ops(success), failure: ops(failure) }
}

fn role_of(user: &str, role: &str) -> pb::AuthUserGrantRoleRequest {
    pb::AuthUserGrantRoleRequest { user: user.to_owned(), role: role.to_owned() }
}

fn user(name: &str) -> pb::AuthUserGetRequest {
    pb::AuthUserGetRequest { name: name.to_owned() }
}

fn login(name: &str, password: &str) -> pb::AuthenticateRequest {
    pb::AuthenticateRequest { name: name.to_owned(), password: password.to_owned() }
}

async fn revision(client: &Client) -> u64 {
    client.auth().status(pb::AuthStatusRequest {}).await.unwrap().auth_revision
}

/// Before users count: 1 to 11.
async fn setting_up(t: &mut Transcript, anybody: &Asker, client: &Client) {
    t.same(" 1 enable, no users", anybody.enable(pb::AuthEnableRequest {}).await, "RU");
    stage::add_user(client, "root").await;
    t.same(" 2 enable, root lacks its role", anybody.enable(pb::AuthEnableRequest {}).await, "RR");
    let before = revision(client).await;
    t.same(" 3 grant root root", anybody.grant_role(role_of("root", "root")).await, "OK");
    let granted = revision(client).await;
    t.same(" 3 moves the revision", (granted - before).to_string(), "1");
    t.same(" 4 again", anybody.grant_role(role_of("root", "root")).await, "OK");
    t.same(" 4 does not", (revision(client).await - granted).to_string(), "0");
    t.same(" 5 user \"\"", anybody.user_add(Default::default()).await, "UE");
    t.same(" 6 role \"\"", anybody.role_add(Default::default()).await, "RE");
    let grant =
        |name: &str, perm| pb::AuthRoleGrantPermissionRequest { name: name.to_owned(), perm };
    t.same(" 7 no permission, no role", anybody.role_grant(grant("none", None)).await, "PV");
    let role = pb::AuthRoleAddRequest { name: "odd".into() };
    t.same(" 8 add a role", anybody.role_add(role).await, "OK");
    let reversed = grant("odd", permission(Type::Read, "z", "a"));
    t.stricter(" 8 key z, end a", anybody.role_grant(reversed).await, "OK", "IM");
    let empty = grant("odd", permission(Type::Read, "", ""));
    t.stricter(" 9 key \"\"", anybody.role_grant(empty).await, "OK", "IM");
    let off = anybody.authenticate(login("root", &password("root"))).await;
    t.same("10 login, users off", off, "NE");
    t.stricter("11 x range, users off", anybody.token("abc").get("k1").await, "IT", "OK");
    stage::add_users(client).await;
    t.same("12 enable", anybody.enable(pb::AuthEnableRequest {}).await, "OK");
}

/// The Auth service itself: 12 to 21.
async fn administering(t: &mut Transcript, anybody: &Asker, root: &Asker, alice: &Asker) {
    t.same("12 root enable", root.enable(pb::AuthEnableRequest {}).await, "OK");
    t.same("13 - enable", anybody.enable(pb::AuthEnableRequest {}).await, "UE");
    t.same("14 - status", anybody.auth_status(pb::AuthStatusRequest {}).await, "UE");
    t.same("15 alice status", alice.auth_status(pb::AuthStatusRequest {}).await, "PD");
    t.same("16 alice get alice", alice.user_get(user("alice")).await, "OK");
    t.same("16 alice get bob", alice.user_get(user("bob")).await, "PD");
    t.same("16 alice get nobody", alice.user_get(user("nobody")).await, "PD");
    t.stricter("17 - get \"\"", anybody.user_get(user("")).await, "UN", "UE");
    let change = pb::AuthUserChangePasswordRequest {
        name: "alice".into(),
        password: "other".into(),
        ..Default::default()
    };
    t.same("18 alice passwd alice", alice.change_password(change).await, "PD");
    let gone = pb::AuthUserDeleteRequest { name: "root".into() };
    t.same("19 root delete root", root.user_delete(gone).await, "IM");
    let gone = pb::AuthRoleDeleteRequest { role: "root".into() };
    t.same("19 root delete role root", root.role_delete(gone).await, "IM");
    let gone = pb::AuthUserRevokeRoleRequest { name: "root".into(), role: "root".into() };
    t.same("19 root revoke root root", root.revoke_role(gone).await, "IM");
    t.same("20 login nopw", anybody.authenticate(login("nopw", "x")).await, "NP");
    t.same("21 login unknown", anybody.authenticate(login("nobody", "x")).await, "AF");
    t.same("21 login wrong", anybody.authenticate(login("bob", "x")).await, "AF");
}

/// Which token counts: 22 to 29.
async fn tokens(t: &mut Transcript, anybody: &Asker, bob: &str) {
    t.same("22 - range", anybody.get("k1").await, "UE");
    t.same("23 x range", anybody.token("abc").get("k1").await, "IT");
    t.same("24 \"\" range", anybody.token("").get("k1").await, "IT");
    t.same("25 - put \"\"", anybody.put(put("")).await, "3 key is not provided");
    t.same("26 authorization T", anybody.with("authorization", bob).get("k1").await, "OK");
    let bearer = anybody.with("authorization", format!("Bearer {bob}"));
    t.stricter("27 Bearer T", bearer.get("k1").await, "IT", "OK");
    let both = anybody.token("abc").with("authorization", bob);
    t.same("28 token x, authorization T", both.get("k1").await, "IT");
    let both = anybody.token(bob).with("authorization", "abc");
    t.same("29 token T, authorization x", both.get("k1").await, "OK");
}

/// Keys and watches: 30 to 40. `lease` has the key z.
async fn keys(t: &mut Transcript, anybody: &Asker, bob: &Asker, lease: i64) {
    t.same("30 m..o", bob.get_range("m", "o").await, "OK");
    t.same("30 m..p", bob.get_range("m", "p").await, "PD");
    t.same("30 n..m", bob.get_range("n", "m").await, "PD");
    t.same("30 k1..k2", bob.get_range("k1", "k2").await, "PD");
    t.same("31 range w1", bob.get("w1").await, "PD");
    t.same("32 put w1", bob.put(put("w1")).await, "OK");
    let prev = || pb::PutRequest { prev_kv: true, ..put("w1") };
    t.same("32 put w1 prev_kv", bob.put(prev()).await, "PD");
    let delete = pb::DeleteRangeRequest { key: "w1".into(), prev_kv: true, ..Default::default() };
    t.same("33 delete w1 prev_kv", bob.delete(delete).await, "PD");
    t.same("34 txn compare k2", bob.txn(txn(vec![compare("k2")], vec![], vec![])).await, "PD");
    let unreadable = txn(vec![compare("w1")], vec![Op::RequestPut(put("w1"))], vec![]);
    t.same("34 txn compare w1, put w1", bob.txn(unreadable).await, "PD");
    let other = txn(vec![], vec![], vec![Op::RequestPut(put("k2"))]);
    t.same("34 txn else put k2", bob.txn(other).await, "PD");
    let with_prev = txn(vec![], vec![Op::RequestPut(prev())], vec![]);
    t.stricter("35 txn put w1 prev_kv", bob.txn(with_prev).await, "OK", "PD");
    for (what, inner) in
        [("put k2", Op::RequestPut(put("k2"))), ("range z", Op::RequestRange(range("z", "")))]
    {
        let nested = Op::RequestTxn(txn(vec![], vec![inner], vec![]));
        let said = bob.txn(txn(vec![], vec![nested], vec![])).await;
        t.stricter(&format!("36 nested txn {what}"), said, "OK", "PD");
    }
    let leased = || pb::PutRequest { lease, ..put("w1") };
    t.same("37 put w1 lease", bob.put(leased()).await, "PD");
    let in_txn = txn(vec![], vec![Op::RequestPut(leased())], vec![]);
    t.stricter("38 the same in txn", bob.txn(in_txn).await, "OK", "PD");
    t.stricter("39 watch k2", bob.watch("k2", "", 7).await, "7 PD", "-1 PD");
    t.stricter("39 - watch k2", anybody.watch("k2", "", 7).await, "7 PD", "-1 UE");
    t.stricter("39 x watch k2", anybody.token("abc").watch("k2", "", 7).await, "7 PD", "-1 IT");
    t.stricter("40 watch [k1,\\0)", bob.watch("k1", "\0", 0).await, "OK", "-1 PD");
}

/// Leases and what looks after a cluster: 41 to 49.
async fn leases_and_upkeep(
    t: &mut Transcript,
    anybody: &Asker,
    root: &Asker,
    carol: &Asker,
    lease: i64,
) {
    let x = anybody.token("abc");
    let grant = |id| pb::LeaseGrantRequest { ttl: 60, id };
    t.stricter("41 - grant", anybody.grant(grant(0)).await, "OK", "UE");
    t.same("41 x grant", x.grant(grant(0)).await, "IT");
    let revoke = |id| pb::LeaseRevokeRequest { id };
    t.same("42 carol revoke L", carol.revoke(revoke(lease)).await, "PD");
    t.same("42 - revoke L", anybody.revoke(revoke(lease)).await, "UE");
    t.same("43 grant", root.grant(grant(99)).await, "OK");
    t.stricter("43 - revoke", anybody.revoke(revoke(99)).await, "OK", "UE");
    let left = || pb::LeaseTimeToLiveRequest { id: lease, keys: true };
    t.stricter("44 - time to live", anybody.time_to_live(left()).await, "OK", "UE");
    t.stricter("44 carol time to live", carol.time_to_live(left()).await, "OK", "PD");
    t.stricter("45 - leases", anybody.leases(Default::default()).await, "OK", "UE");
    t.stricter("45 - keep alive", anybody.keep_alive(lease).await, "OK", "UE");
    t.stricter("46 - members", anybody.members(Default::default()).await, "OK", "UE");
    t.stricter("46 - status", anybody.status(Default::default()).await, "OK", "UE");
    t.stricter("46 - alarms", anybody.alarm(Default::default()).await, "OK", "UE");
    let said = carol.defragment(Default::default()).await;
    t.stricter("47 carol defragment", said, "2 auth: permission denied", "PD");
    let compact = || pb::CompactionRequest { revision: 2, physical: false };
    t.same("48 x compact", x.compact(compact()).await, "IT");
    t.stricter("48 - compact", anybody.compact(compact()).await, "OK", "UE");
    let remove = || pb::MemberRemoveRequest { id: 77 };
    t.same("49 - remove", anybody.member_remove(remove()).await, "UE");
    t.same("49 x remove", x.member_remove(remove()).await, "IT");
    t.same("49 carol remove", carol.member_remove(remove()).await, "PD");
}

/// Locks and elections of etcd: 50 and 51.
async fn locks(t: &mut Transcript, anybody: &Asker, alice: &Asker, carol: &Asker) {
    const LEASE: i64 = 0x1a2b;
    t.same("50 grant", alice.grant(pb::LeaseGrantRequest { ttl: 60, id: LEASE }).await, "OK");
    let lock = || lockpb::LockRequest { name: "foo/l".into(), lease: LEASE };
    let refused = |text: &str| format!("2 {text}");
    t.same("50 - lock", anybody.lock(lock()).await, &refused("user name is empty"));
    t.same("50 carol lock", carol.lock(lock()).await, &refused("permission denied"));
    t.same("50 x lock", anybody.token("abc").lock(lock()).await, &refused("invalid auth token"));
    let mut locks = tenure::grpc::stubs::LockClient::new(alice.channel());
    let key = locks.lock(alice.shown(lock())).await.map(|locked| locked.into_inner().key);
    let key = key.map(|key| String::from_utf8_lossy(&key).into_owned());
    t.same("50 alice lock", key.unwrap_or_else(|status| status.to_string()), "foo/l/1a2b");
    t.same("51 carol observe", carol.observe("foo/l").await, "ends OK");
}

/// What ends a token: 52 and 54.
async fn ends_of_tokens(t: &mut Transcript, anybody: &Asker, root: &Asker, client: &Client) {
    let old = token(anybody, "bob", &password("bob")).await.unwrap();
    let gone = pb::AuthUserDeleteRequest { name: "bob".into() };
    t.same("52 delete bob", root.user_delete(gone).await, "OK");
    t.same("52 T of the deleted", anybody.token(&old).get("k1").await, "IT");
    stage::add_user(client, "bob").await;
    t.same("52 grant", root.grant_role(role_of("bob", "bob")).await, "OK");
    t.same("52 T of the one before", anybody.token(&old).get("k1").await, "IT");
    let old = token(anybody, "alice", &password("alice")).await.unwrap();
    let before = revision(client).await;
    t.same("54 disable", root.disable(pb::AuthDisableRequest {}).await, "OK");
    t.same("54 enable", anybody.enable(pb::AuthEnableRequest {}).await, "OK");
    t.same("54 old token", anybody.token(&old).get("foo/a").await, "IT");
    t.same("54 revision", (revision(client).await - before).to_string(), "1");
}

async fn play(side: Side) {
    let mut t = Transcript::of(&side);
    let anybody = stage::asker(&side, 0).await;
    let endpoints = Endpoint::list(&side.endpoints()).unwrap();
    setting_up(&mut t, &anybody, &Client::new(endpoints, Options::default())).await;
    let mut askers = Vec::new();
    for user in ["root", "alice", "bob", "carol"] {
        askers.push(token(&anybody, user, &password(user)).await.unwrap());
    }
    let [root, alice, bob, carol] = [0, 1, 2, 3].map(|at: usize| anybody.token(&askers[at]));
    let lease = 1234;
    t.same("   grant L", root.grant(pb::LeaseGrantRequest { ttl: 600, id: lease }).await, "OK");
    t.same("   put z on L", root.put(pb::PutRequest { lease, ..put("z") }).await, "OK");
    administering(&mut t, &anybody, &root, &alice).await;
    tokens(&mut t, &anybody, &askers[2]).await;
    keys(&mut t, &anybody, &bob, lease).await;
    leases_and_upkeep(&mut t, &anybody, &root, &carol, lease).await;
    locks(&mut t, &anybody, &alice, &carol).await;
    ends_of_tokens(&mut t, &anybody, &root, &stage::client(&side, "root")).await;
    t.end();
}

/// 53: what is used lives on, and what is idle ends.
async fn idle(side: Side) {
    let side = stage::with_users(side).await;
    let mut t = Transcript::of(&side);
    let anybody = stage::asker(&side, 0).await;
    let idle = token(&anybody, "bob", &password("bob")).await.unwrap();
    let used = token(&anybody, "bob", &password("bob")).await.unwrap();
    // For twice as long as a token lives, and used all the time.
    let until = tokio::time::Instant::now() + 2 * TOKEN_TTL + Duration::from_secs(1);
    let mut said = String::from("OK");
    while said == "OK" && tokio::time::Instant::now() < until {
        said = anybody.token(&used).get("k1").await;
        tokio::time::sleep(TOKEN_TTL / 20).await;
    }
    t.same("53 used", said, "OK");
    t.same("53 idle", anybody.token(&idle).get("k1").await, "IT");
    t.end();
}

const TOKEN_TTL: Duration = Duration::from_secs(2);
const TOKEN_TTL_FLAG: &str = "--auth-token-ttl=2";

/// 55: a token is good at every member, until one of them is restarted.
async fn restart(mut side: Side) {
    side = stage::with_users(side).await;
    let mut t = Transcript::of(&side);
    let first = stage::asker(&side, 0).await;
    let token = token(&first, "bob", &password("bob")).await.unwrap();
    for member in 0..3 {
        let said = stage::asker(&side, member).await.token(&token).get("k1").await;
        t.same(&format!("55 at member {}", member + 1), said, "OK");
    }
    match &mut side {
        Side::Etcd(etcd) => {
            etcd.kill(1);
            etcd.start_member(1);
        }
        Side::Tenure(cluster) => {
            cluster.members[1].kill();
            cluster.members[1].start();
        }
    }
    let address = side.address(1);
    eventually("the restarted member listens", async || {
        tokio::net::TcpStream::connect(&address).await.map(drop).map_err(|e| e.to_string())
    })
    .await;
    // It answers when it knows a raft leader again.
    let said = eventually("the restarted member answers", async || {
        match stage::asker(&side, 1).await.token(&token).get("k1").await {
            said if said.starts_with("14 ") => Err(said),
            said => Ok(said),
        }
    })
    .await;
    // An etcd that is killed before it has written its store, which it does every 100 ms, applies the login again.
    if !t.is_etcd || said != "OK" {
        t.same("55 at the restarted", said, "IT");
    }
    for member in [0, 2] {
        let said = stage::asker(&side, member).await.token(&token).get("k1").await;
        t.same(&format!("55 then at member {}", member + 1), said, "OK");
    }
    t.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_transcript_of_a_real_etcd() {
    play(stage::etcd(1, &[]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_transcript_of_tenure() {
    play(stage::tenure(1, &[]).await).await;
    play(stage::tenure(3, &[]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_token_that_is_used_lives_on_a_real_etcd() {
    idle(stage::etcd(1, &[TOKEN_TTL_FLAG]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_token_that_is_used_lives_on_tenure() {
    idle(stage::tenure(1, &[TOKEN_TTL_FLAG]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_token_is_lost_by_a_restarted_member_of_a_real_etcd() {
    restart(stage::etcd(3, &[]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_token_is_lost_by_a_restarted_member_of_tenure() {
    restart(stage::tenure(3, &[]).await).await;
}
