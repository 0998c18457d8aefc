//! etcd's election recipe (`clientv3/concurrency`), and what is known to be wrong with it.
//!
//! - `etcd-recipe`: as it is. A waiting candidate does not check whether its own key exists: when all before it are gone
//!   it leads, even if its own key went long ago (etcd-io/etcd#11456 for locks, still so for elections).
//! - `etcd-recipe-checked`: looks for its own key first.
//! - `etcd-recipe-shortest`: with the shortest lease that etcd grants, 2 s: one and a half of its default election timeout,
//!   in whole seconds.
//! - `etcd-recipe-grant-token`: takes the revision in the header of its *lease's grant* for its fencing token, as some
//!   texts advise. That says when the candidate came, not when its turn came: tokens go back, and the storage refuses the
//!   present leader. A grant changes nothing in the store, so where nothing is written meanwhile
//!   (`etcd-recipe-grant-token-quiet`) all tokens are the same, and the storage refuses none. The key's create revision
//!   is the one that grows from leader to leader.

use std::time::Duration;

use super::{
    LEADER_WRITES, LEADER_WRITES_TEXT, SESSION_TOKEN_PROMISES,
    candidate::{Recipe, TokenSource, build},
};
use crate::{
    algorithms::{Algorithm, Story},
    engine::ms,
    stage::{Promise, StorageGate},
};

/// etcd's election: TTL 10 s.
const TTL: Duration = ms(10_000);

const SHIPPED: Recipe = Recipe {
    session: TTL,
    herd: false,
    looks_for_itself: false,
    token: TokenSource::Created,
    gate: StorageGate::Tokens,
    warms_up: false,
    notes_down: false,
    sessions_anew: true,
    may_write: None,
};
const SHORTEST: Recipe = Recipe { session: ms(2000), ..SHIPPED };
const CHECKED: Recipe = Recipe { looks_for_itself: true, ..SHIPPED };
const GRANT_TOKEN: Recipe = Recipe {
    token: TokenSource::Opened,
    warms_up: true,
    notes_down: true,
    may_write: Some(LEADER_WRITES_TEXT),
    ..CHECKED
};
const QUIET_GRANT_TOKEN: Recipe = Recipe { notes_down: false, ..GRANT_TOKEN };

/// The TTL, and the time of messages; without a restart of the server.
const EXPIRED_WITHIN: Promise = Promise::VacantAtMost(ms(10_100));

pub(in crate::algorithms) const ETCD_RECIPE: Algorithm = Algorithm {
    name: "etcd-recipe",
    about: "a lease, a key under the election's name, lowest create revision leads, watch the one before",
    origin: "etcd clientv3/concurrency",
    promises: &[
        Promise::OneBeliever,
        Promise::OneWriter,
        Promise::TokensGrow,
        EXPIRED_WITHIN,
        Promise::LeaderAtEnd,
    ],
    contenders: 3,
    patience: Some(ms(12_000)),
    build: |setup| build(setup, &SHIPPED),
};

pub(in crate::algorithms) const ETCD_RECIPE_SHORTEST: Algorithm = Algorithm {
    name: "etcd-recipe-shortest",
    about: "etcd's recipe with the shortest lease that it grants by default, 2 s",
    promises: &[
        Promise::OneBeliever,
        Promise::OneWriter,
        Promise::TokensGrow,
        Promise::VacantAtMost(ms(2100)),
        Promise::LeaderAtEnd,
    ],
    patience: Some(ms(4000)),
    build: |setup| build(setup, &SHORTEST),
    ..ETCD_RECIPE
};

pub(in crate::algorithms) const ETCD_RECIPE_CHECKED: Algorithm = Algorithm {
    name: "etcd-recipe-checked",
    about: "etcd's recipe, looking for its own key before it believes to lead",
    origin: "etcd clientv3/concurrency, as its locks do since 2020",
    build: |setup| build(setup, &CHECKED),
    ..ETCD_RECIPE
};

pub(in crate::algorithms) const ETCD_RECIPE_GRANT_TOKEN: Algorithm = Algorithm {
    name: "etcd-recipe-grant-token",
    about: "etcd's recipe with the revision of the lease's grant as its fencing token",
    origin: "a wrong but common reading of etcd's headers",
    promises: SESSION_TOKEN_PROMISES,
    build: |setup| build(setup, &GRANT_TOKEN),
    ..ETCD_RECIPE
};

pub(in crate::algorithms) const ETCD_RECIPE_GRANT_TOKEN_QUIET: Algorithm = Algorithm {
    name: "etcd-recipe-grant-token-quiet",
    about: "the revision of the lease's grant as a token, where nothing was written in between",
    build: |setup| build(setup, &QUIET_GRANT_TOKEN),
    ..ETCD_RECIPE_GRANT_TOKEN
};

/// The second candidate is paused until its lease is over, and meanwhile the first dies.
const EXPIRES_IN_LINE: &str = "at 2s pause b for 30s\nat 15s crash a\n";

pub(in crate::algorithms) const STORIES: &[Story] = &[
    Story {
        name: "etcd-recipe-crash",
        algorithm: &ETCD_RECIPE,
        about: "The leader dies. Its key goes with its lease within 10 s, and only the next candidate is told.",
        lasts: Duration::from_secs(40),
        script: "at 20s crash leader\n",
        breaks: &[],
    },
    Story {
        name: "etcd-recipe-shortest-crash",
        algorithm: &ETCD_RECIPE_SHORTEST,
        about: "The leader dies. Its key goes with its lease within 2 s, and the next candidate leads.",
        lasts: Duration::from_secs(20),
        script: "at 10s crash leader\n",
        breaks: &[],
    },
    Story {
        name: "etcd-recipe-pause",
        algorithm: &ETCD_RECIPE,
        about: "The leader is paused for longer than its lease. What it writes then has a lower token than the storage has seen.",
        lasts: Duration::from_secs(60),
        script: "at 11s pause leader for 30s\n",
        breaks: &[Promise::OneBeliever],
    },
    Story {
        name: "etcd-recipe-server-change",
        algorithm: &ETCD_RECIPE,
        about: "The leader dies, and then the server changes hands. The new one gives every lease its whole time again, the dead leader's too.",
        lasts: Duration::from_secs(60),
        script: "at 20s crash leader\nat 25s crash store for 1s\n",
        breaks: &[EXPIRED_WITHIN],
    },
    Story {
        name: "etcd-recipe-expires-in-line",
        algorithm: &ETCD_RECIPE,
        about: "A waiting candidate is paused until its lease is over and its key gone. Then the leader dies. The candidate resumes, finds no key before its own, and leads beside the one whose turn it is, with an old token. Only the storage knows better.",
        lasts: Duration::from_secs(60),
        script: EXPIRES_IN_LINE,
        breaks: &[Promise::OneBeliever, Promise::TokensGrow],
    },
    Story {
        name: "etcd-recipe-checked-expires-in-line",
        algorithm: &ETCD_RECIPE_CHECKED,
        about: "The same, but it looks for its own key, does not find it, and becomes the last candidate.",
        lasts: Duration::from_secs(60),
        script: EXPIRES_IN_LINE,
        breaks: &[],
    },
    Story {
        name: "etcd-recipe-grant-revision",
        algorithm: &ETCD_RECIPE_GRANT_TOKEN,
        about: "The last to open its lease is the first candidate and leads. It dies, and the next has an older lease: its token is lower, and the storage refuses the only leader there is.",
        lasts: Duration::from_secs(40),
        script: "at 20s crash leader\n",
        breaks: &[Promise::TokensGrow, LEADER_WRITES],
    },
    Story {
        name: "etcd-recipe-grant-revision-equal",
        algorithm: &ETCD_RECIPE_GRANT_TOKEN_QUIET,
        about: "All have opened their leases before the first write, and have the same token. The leader is paused for longer than its lease, and what it writes then is taken.",
        lasts: Duration::from_secs(60),
        script: "at 11s pause leader for 30s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter, Promise::TokensGrow],
    },
];
