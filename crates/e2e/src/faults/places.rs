//! The files that tests of ours are named by, below `crates`.

pub(super) const CASES_ELECTIONS: &str = "e2e/src/recipes/elections.rs";
pub(super) const CASES_ELECTORS: &str = "e2e/src/recipes/electors.rs";
pub(super) const CASES_SESSIONS: &str = "e2e/src/recipes/sessions.rs";
pub(super) const RECIPES_CLUSTER: &str = "e2e/tests/elections/recipes_cluster.rs";
pub(super) const RECIPES_PROCESSES: &str = "e2e/tests/elections/recipes_processes.rs";
pub(super) const STOCK_CLIENTS: &str = "e2e/tests/elections/stock_clients.rs";
pub(super) const SESSIONS: &str = "e2e/tests/elections/sessions.rs";
pub(super) const LEASE: &str = "e2e/tests/api/lease.rs";
pub(super) const LIMITS: &str = "e2e/tests/api/limits.rs";
pub(super) const MEMBERSHIP: &str = "e2e/tests/cluster/membership.rs";
pub(super) const COMMANDS: &str = "e2e/tests/commands/commands.rs";
pub(super) const CRASH: &str = "e2e/tests/cluster/crash.rs";
pub(super) const ELECT_COMMANDS: &str = "e2e/tests/commands/elect_commands.rs";
pub(super) const RUN: &str = "e2e/tests/run/run.rs";
pub(super) const RUN_BAD_DAYS: &str = "e2e/tests/run/run_bad_days.rs";
pub(super) const EXCHANGE: &str = "client/src/backend/native/exchange/tests.rs";
pub(super) const RETRY: &str = "client/src/grpc/retry.rs";
pub(super) const LAB_CANARIES: &str = "lab/tests/cluster/canaries.rs";
pub(super) const LAB_LEASES: &str = "lab/tests/cluster/leases.rs";
pub(super) const LAB_RECIPES: &str = "lab/tests/cluster/recipes.rs";
pub(super) const ELECTION_SCRIPTS: &str = "replica/tests/scripts.rs";
