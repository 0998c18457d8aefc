//! What each RPC needs: the table of `docs/reference/permissions.md`, held against what a member does.
//!
//! Every RPC of every service that is served is asked by six callers. One that is not in the table fails the test.

mod walk;

use std::{collections::BTreeSet, fmt::Write};

use prost_reflect::DescriptorPool;
use tenure_api::wire::DESCRIPTORS;

pub(super) use self::walk::alone;

/// What is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    User,
    Root,
    /// Root, or the one that it is about.
    Own,
    Read,
    Write,
    /// To read and to write.
    Both,
    Rule,
}

/// The callers, and what each has in the tests: a stranger; a user without a role; one with READ, with WRITE and with
/// `campaign` on what the requests are about; one with the role root.
const CALLERS: [&str; 6] = ["stranger", "user", "reader", "writer", "holder", "root"];

impl Needs {
    /// Whether each of the callers has it. None of them is the one that a request is about.
    fn allows(self) -> [bool; 6] {
        match self {
            Needs::Nothing => [true; 6],
            Needs::User => [false, true, true, true, true, true],
            Needs::Root | Needs::Own | Needs::Rule => [false, false, false, false, false, true],
            Needs::Read => [false, false, true, false, true, true],
            Needs::Write => [false, false, false, true, true, true],
            Needs::Both => [false, false, false, false, true, true],
        }
    }
}

use Needs::{Both, Nothing, Own, Read, Root, Rule, User, Write as Writing};

/// Method, what it is about if that makes a difference, a request as JSON, what is needed, the same in words.
const TABLE: &[(&str, &str, &str, Needs, &str)] = &[
    ("etcdserverpb.KV.Range", "", r#"{"key":"dC9r"}"#, Read, "READ on the range"),
    ("etcdserverpb.KV.Put", "", r#"{"key":"dC9r"}"#, Writing, "WRITE on the key"),
    (
        "etcdserverpb.KV.Put",
        "`prev_kv`",
        r#"{"key":"dC9r","prev_kv":true}"#,
        Both,
        "and READ on the key",
    ),
    (
        "etcdserverpb.KV.Put",
        "a lease",
        r#"{"key":"dC9r","lease":"77"}"#,
        Writing,
        "and WRITE on every key on the lease; that of a session is its owner's",
    ),
    ("etcdserverpb.KV.DeleteRange", "", r#"{"key":"dC9h"}"#, Writing, "WRITE on the range"),
    (
        "etcdserverpb.KV.DeleteRange",
        "`prev_kv`",
        r#"{"key":"dC9h","prev_kv":true}"#,
        Both,
        "and READ on the range",
    ),
    (
        "etcdserverpb.KV.Txn",
        "",
        r#"{"compare":[{"key":"dC9r","target":"VERSION"}],"failure":[{"requestPut":{"key":"dC9r"}}]}"#,
        Both,
        "READ on what is compared; for the operations of both branches, and of transactions in them, what each needs by itself",
    ),
    ("etcdserverpb.KV.Txn", "empty", "{}", User, "a user"),
    ("etcdserverpb.KV.Compact", "", r#"{"revision":"1"}"#, Root, "the role root"),
    (
        "etcdserverpb.Watch.Watch",
        "",
        r#"{"create_request":{"key":"dC9r"}}"#,
        Read,
        "READ on the range; it ends when that is withdrawn",
    ),
    ("etcdserverpb.Lease.LeaseGrant", "", r#"{"TTL":"60"}"#, User, "a user"),
    (
        "etcdserverpb.Lease.LeaseRevoke",
        "",
        r#"{"ID":"77"}"#,
        Writing,
        "WRITE on every key on the lease; that of a session is its owner's",
    ),
    ("etcdserverpb.Lease.LeaseKeepAlive", "", r#"{"ID":"77"}"#, Writing, "the same"),
    ("etcdserverpb.Lease.LeaseTimeToLive", "", r#"{"ID":"77"}"#, User, "a user"),
    (
        "etcdserverpb.Lease.LeaseTimeToLive",
        "`keys`",
        r#"{"ID":"77","keys":true}"#,
        Read,
        "READ on every key on the lease",
    ),
    ("etcdserverpb.Lease.LeaseLeases", "", "{}", Read, "READ on every key on any lease"),
    ("etcdserverpb.Cluster.MemberList", "", "{}", User, "a user"),
    (
        "etcdserverpb.Cluster.MemberAdd",
        "",
        r#"{"peerURLs":["http://127.0.0.1:0"]}"#,
        Root,
        "the role root",
    ),
    ("etcdserverpb.Cluster.MemberRemove", "", r#"{"ID":"5"}"#, Root, "the role root"),
    (
        "etcdserverpb.Cluster.MemberUpdate",
        "",
        r#"{"ID":"5","peerURLs":["http://127.0.0.1:1"]}"#,
        Root,
        "the role root",
    ),
    ("etcdserverpb.Cluster.MemberPromote", "", r#"{"ID":"5"}"#, Root, "the role root"),
    ("etcdserverpb.Maintenance.Status", "", "{}", User, "a user"),
    ("etcdserverpb.Maintenance.Alarm", "GET", "{}", User, "a user"),
    (
        "etcdserverpb.Maintenance.Alarm",
        "others",
        r#"{"action":"DEACTIVATE"}"#,
        Root,
        "the role root",
    ),
    ("etcdserverpb.Maintenance.Defragment", "", "{}", Root, "the role root"),
    ("etcdserverpb.Maintenance.Hash", "", "{}", Root, "the role root"),
    ("etcdserverpb.Maintenance.HashKV", "", "{}", Root, "the role root"),
    ("etcdserverpb.Maintenance.Snapshot", "", "{}", Root, "the role root"),
    ("etcdserverpb.Maintenance.MoveLeader", "", r#"{"targetID":"5"}"#, Root, "the role root"),
    ("etcdserverpb.Maintenance.Downgrade", "", "{}", Root, "the role root"),
    ("etcdserverpb.Auth.AuthEnable", "", "{}", Root, "the role root"),
    ("etcdserverpb.Auth.AuthStatus", "", "{}", Root, "the role root"),
    (
        "etcdserverpb.Auth.Authenticate",
        "",
        r#"{"name":"reader","password":"wrong"}"#,
        Nothing,
        "nothing",
    ),
    (
        "etcdserverpb.Auth.UserAdd",
        "",
        r#"{"name":"spare","options":{"no_password":true}}"#,
        Root,
        "the role root",
    ),
    (
        "etcdserverpb.Auth.UserGet",
        "",
        r#"{"name":"spare"}"#,
        Own,
        "the role root, or to be that user",
    ),
    ("etcdserverpb.Auth.UserList", "", "{}", Root, "the role root"),
    ("etcdserverpb.Auth.UserDelete", "", r#"{"name":"none"}"#, Root, "the role root"),
    ("etcdserverpb.Auth.UserChangePassword", "", r#"{"name":"none"}"#, Root, "the role root"),
    (
        "etcdserverpb.Auth.UserGrantRole",
        "",
        r#"{"user":"none","role":"spare"}"#,
        Root,
        "the role root",
    ),
    (
        "etcdserverpb.Auth.UserRevokeRole",
        "",
        r#"{"name":"none","role":"spare"}"#,
        Root,
        "the role root",
    ),
    ("etcdserverpb.Auth.RoleAdd", "", r#"{"name":"spare"}"#, Root, "the role root"),
    (
        "etcdserverpb.Auth.RoleGet",
        "",
        r#"{"role":"spare"}"#,
        Own,
        "the role root, or to have that role",
    ),
    ("etcdserverpb.Auth.RoleList", "", "{}", Root, "the role root"),
    ("etcdserverpb.Auth.RoleDelete", "", r#"{"role":"none"}"#, Root, "the role root"),
    (
        "etcdserverpb.Auth.RoleGrantPermission",
        "",
        r#"{"name":"none","perm":{"key":"YQ=="}}"#,
        Root,
        "the role root",
    ),
    (
        "etcdserverpb.Auth.RoleRevokePermission",
        "",
        r#"{"role":"none","key":"YQ=="}"#,
        Root,
        "the role root",
    ),
    (
        "v3electionpb.Election.Campaign",
        "",
        r#"{"name":"dC9j","lease":"78","value":"dg=="}"#,
        Both,
        "READ and WRITE on the keys below the name; without a lease, a user",
    ),
    (
        "v3electionpb.Election.Proclaim",
        "",
        r#"{"leader":{"name":"dC9j","key":"dC9jLzRl","rev":"1"}}"#,
        Both,
        "READ and WRITE on the key",
    ),
    (
        "v3electionpb.Election.Leader",
        "",
        r#"{"name":"dC9j"}"#,
        Read,
        "READ on the keys below the name",
    ),
    (
        "v3electionpb.Election.Observe",
        "",
        r#"{"name":"dC9j"}"#,
        Read,
        "the same; without it the stream ends at once, as in etcd",
    ),
    (
        "v3electionpb.Election.Resign",
        "",
        r#"{"leader":{"name":"dC9j","key":"dC9jLzRl","rev":"1"}}"#,
        Both,
        "READ and WRITE on the key",
    ),
    (
        "v3lockpb.Lock.Lock",
        "",
        r#"{"name":"dC9s","lease":"78"}"#,
        Both,
        "READ and WRITE on the keys below the name; without a lease, a user",
    ),
    ("v3lockpb.Lock.Unlock", "", r#"{"key":"dC9sLzRl"}"#, Writing, "WRITE on the key"),
    (
        "tenure.v1.Sessions.Session",
        "",
        r#"{"open":{"ttl_ms":"5000","identity":"i"}}"#,
        User,
        "a user, to open one; to attach, and for all requests, to be the user that opened it, or the role root; `campaign` on what it joins",
    ),
    (
        "tenure.v1.Sessions.End",
        "",
        r#"{"session":"88"}"#,
        Own,
        "the role root, or to be the user that opened it",
    ),
    ("tenure.v1.Sessions.List", "", "{}", User, "a user, who sees its own; the role root sees all"),
    ("tenure.v1.Elections.Candidates", "", r#"{"name":"t/e"}"#, Read, "`observe` on the election"),
    (
        "tenure.v1.Elections.Observe",
        "",
        r#"{"name":"t/e"}"#,
        Read,
        "`observe` on the election; it ends when that is withdrawn",
    ),
    ("tenure.v1.Elections.History", "", r#"{"name":"t/e"}"#, Read, "`observe` on the election"),
    (
        "tenure.v1.Elections.List",
        "",
        "{}",
        User,
        "a user, who sees the elections on which it has `observe`",
    ),
    ("tenure.v1.Elections.Follow", "", "{}", User, "the same"),
    (
        "tenure.v1.Elections.Transfer",
        "",
        r#"{"name":"t/e","identity":"i"}"#,
        Rule,
        "`rule` on the election",
    ),
    ("tenure.v1.Elections.Evict", "", r#"{"name":"t/e"}"#, Rule, "`rule` on the election"),
    ("tenure.v1.Elections.Freeze", "", r#"{"name":"t/f"}"#, Rule, "`rule` on the election"),
    ("tenure.v1.Elections.Resume", "", r#"{"name":"t/f"}"#, Rule, "`rule` on the election"),
    ("tenure.v1.Members.Health", "", "{}", User, "a user"),
    ("grpc.health.v1.Health.Check", "", "{}", Nothing, "nothing"),
    ("grpc.health.v1.Health.Watch", "", "{}", Nothing, "nothing"),
    // The last one: nothing is judged after it.
    ("etcdserverpb.Auth.AuthDisable", "", "{}", Root, "the role root"),
];

/// The rows as the docs have them.
fn page() -> String {
    let mut page = String::new();
    for (method, about, _, _, words) in TABLE {
        let about = if about.is_empty() { String::new() } else { format!(", {about}") };
        let _ = writeln!(page, "| `{method}`{about} | {words} |");
    }
    page
}

#[test]
fn permissions_table_names_every_rpc() {
    let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
    let served: BTreeSet<String> = pool
        .services()
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .map(|method| method.full_name().to_owned())
        .collect();
    let named: BTreeSet<String> = TABLE.iter().map(|row| row.0.to_owned()).collect();
    let missing: Vec<_> = served.symmetric_difference(&named).collect();
    assert!(missing.is_empty(), "no row, or no RPC: {missing:?}");
}

#[test]
fn permissions_page_is_that_of_the_docs() {
    let docs = include_str!("../../../../docs/reference/permissions.md");
    let page = page();
    assert!(docs.contains(&page), "print these in docs/reference/permissions.md:\n{page}");
}
