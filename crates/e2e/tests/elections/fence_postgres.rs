//! Fencing in a real PostgreSQL. One server for all stories: making its data directory takes seconds.

use std::{fs, path::Path};

use tenure::fence::{FencingToken, postgres as fence};
use tenure_e2e::{Cluster, Postgres, eventually, pb};
use tokio_postgres::{Client, Error};

async fn add(client: &Client, resource: &str) {
    client.execute(fence::ADD, &[&resource]).await.unwrap();
}

/// Comes in within the transaction that this connection is in.
async fn enter(client: &Client, resource: &str, token: i64) -> Result<(), Error> {
    client.query_one(fence::ENTER, &[&resource, &token]).await.map(drop)
}

fn code(refused: &Error) -> String {
    refused.code().unwrap_or_else(|| panic!("{refused}")).code().to_owned()
}

fn message(refused: &Error) -> String {
    refused.as_db_error().unwrap().message().to_owned()
}

/// A token from a real cluster: the create revision of a holder's key.
async fn token_of_a_new_holder(cluster: &Cluster, name: &str) -> i64 {
    let put = pb::PutRequest { key: format!("orders/{name}").into(), ..Default::default() };
    let revision = cluster.client().kv().put(put).await.unwrap().header.unwrap().revision;
    FencingToken::from_revision(revision).unwrap().get()
}

async fn state(client: &Client, id: &str) -> String {
    client.query_one("SELECT state FROM orders WHERE id = $1", &[&id]).await.unwrap().get(0)
}

/// One guarded write, as the how-to page shows it.
async fn write(client: &mut Client, token: i64, id: &str, state: &str) -> Result<(), Error> {
    let txn = client.transaction().await?;
    txn.query_one(fence::ENTER, &[&"orders", &token]).await?;
    let sql = "INSERT INTO orders (id, state) VALUES ($1, $2)
               ON CONFLICT (id) DO UPDATE SET state = EXCLUDED.state";
    txn.execute(sql, &[&id, &state]).await?;
    txn.commit().await
}

async fn the_write_of_a_replaced_holder_is_refused(postgres: &Postgres) {
    let cluster = Cluster::start(1).await;
    let mut first = postgres.connect().await;
    let mut second = postgres.connect().await;
    add(&first, "orders").await;
    let old = token_of_a_new_holder(&cluster, "first").await;
    write(&mut first, old, "o1", "paid").await.unwrap();

    // The first holder pauses; the second raises the gate before it reads.
    let new = token_of_a_new_holder(&cluster, "second").await;
    enter(&second, "orders", new).await.unwrap();
    assert_eq!(state(&second, "o1").await, "paid");

    let refused = write(&mut first, old, "o1", "cancelled").await.unwrap_err();
    assert_eq!(code(&refused), fence::STALE);
    let said = format!("fencing token {old} is stale: token {new} is in force");
    assert_eq!(message(&refused), said);
    write(&mut second, new, "o1", "shipped").await.unwrap();
    let refused = write(&mut first, old, "o1", "cancelled").await.unwrap_err();
    assert_eq!(code(&refused), fence::STALE);
    assert_eq!(state(&second, "o1").await, "shipped");
}

/// How many backends wait for a lock.
async fn waiting(client: &Client) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

async fn raising_waits_for_an_older_transaction_and_then_sees_what_it_wrote(postgres: &Postgres) {
    let (older, newer) = (postgres.connect().await, postgres.connect().await);
    let watcher = postgres.connect().await;
    add(&watcher, "slow").await;
    enter(&older, "slow", 5).await.unwrap();
    older.batch_execute("BEGIN").await.unwrap();
    enter(&older, "slow", 5).await.unwrap();
    older.batch_execute("INSERT INTO orders VALUES ('slow', 'by the older')").await.unwrap();

    let raising = tokio::spawn(async move {
        enter(&newer, "slow", 6).await.unwrap();
        state(&newer, "slow").await
    });
    eventually("the newer holder waits", async || match waiting(&watcher).await {
        1 => Ok(()),
        other => Err(format!("{other} wait")),
    })
    .await;
    older.batch_execute("COMMIT").await.unwrap();
    assert_eq!(raising.await.unwrap(), "by the older");
    assert_eq!(code(&enter(&older, "slow", 5).await.unwrap_err()), fence::STALE);
}

async fn waiting_for_an_older_transaction_can_be_bounded(postgres: &Postgres) {
    let (stuck, newer) = (postgres.connect().await, postgres.connect().await);
    add(&stuck, "stuck").await;
    enter(&stuck, "stuck", 5).await.unwrap();
    stuck.batch_execute("BEGIN").await.unwrap();
    enter(&stuck, "stuck", 5).await.unwrap();
    newer.batch_execute("SET lock_timeout = '50ms'").await.unwrap();
    let refused = enter(&newer, "stuck", 6).await.unwrap_err();
    assert_eq!(code(&refused), "55P03", "{refused}");
    stuck.batch_execute("ROLLBACK").await.unwrap();
    enter(&newer, "stuck", 6).await.unwrap();
}

async fn transactions_of_one_holder_do_not_wait_for_each_other(postgres: &Postgres) {
    let (one, two) = (postgres.connect().await, postgres.connect().await);
    add(&one, "shared").await;
    enter(&one, "shared", 7).await.unwrap();
    for client in [&one, &two] {
        client.batch_execute("BEGIN; SET LOCAL lock_timeout = '5s'").await.unwrap();
        enter(client, "shared", 7).await.unwrap();
    }
    for client in [&two, &one] {
        client.batch_execute("COMMIT").await.unwrap();
    }
}

/// Two transactions of the same new holder, neither of which finds the gate raised.
async fn one_holder_may_raise_the_gate_twice_at_once(postgres: &Postgres) {
    let (one, two) = (postgres.connect().await, postgres.connect().await);
    let watcher = postgres.connect().await;
    add(&watcher, "twice").await;
    one.batch_execute("BEGIN").await.unwrap();
    enter(&one, "twice", 3).await.unwrap();
    let second = tokio::spawn(async move { enter(&two, "twice", 3).await });
    eventually("the second waits", async || match waiting(&watcher).await {
        1 => Ok(()),
        other => Err(format!("{other} wait")),
    })
    .await;
    one.batch_execute("COMMIT").await.unwrap();
    second.await.unwrap().unwrap();
}

async fn a_refused_transaction_holds_up_nobody(postgres: &Postgres) {
    let (stale, newer) = (postgres.connect().await, postgres.connect().await);
    add(&newer, "refused").await;
    enter(&newer, "refused", 9).await.unwrap();
    stale.batch_execute("BEGIN").await.unwrap();
    assert_eq!(code(&enter(&stale, "refused", 8).await.unwrap_err()), fence::STALE);
    // The stale holder's transaction is still open, and blocks no other.
    newer.batch_execute("SET lock_timeout = '5s'").await.unwrap();
    enter(&newer, "refused", 10).await.unwrap();
}

async fn raising_in_a_snapshot_is_refused_and_entering_is_not(postgres: &Postgres) {
    let client = postgres.connect().await;
    add(&client, "snapshot").await;
    for isolation in ["REPEATABLE READ", "SERIALIZABLE"] {
        let begin = format!("BEGIN ISOLATION LEVEL {isolation}");
        client.batch_execute(&begin).await.unwrap();
        let refused = enter(&client, "snapshot", 4).await.unwrap_err();
        assert_eq!(code(&refused), fence::WRONG_ISOLATION, "{isolation}");
        client.batch_execute("ROLLBACK").await.unwrap();
    }
    enter(&client, "snapshot", 4).await.unwrap();
    client.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE").await.unwrap();
    enter(&client, "snapshot", 4).await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
}

async fn a_resource_without_a_gate_is_refused(postgres: &Postgres) {
    let client = postgres.connect().await;
    assert_eq!(code(&enter(&client, "unheard of", 1).await.unwrap_err()), fence::NO_GATE);
}

async fn a_table_can_insist_on_a_token(postgres: &Postgres) {
    let client = postgres.connect().await;
    add(&client, "ledger").await;
    client
        .batch_execute(
            "CREATE TABLE ledger (line text);
             CREATE TRIGGER ledger_is_fenced
                 BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON ledger
                 FOR EACH STATEMENT EXECUTE FUNCTION fencing_required('ledger')",
        )
        .await
        .unwrap();
    let insert = "INSERT INTO ledger VALUES ('x')";
    for statement in
        [insert, "UPDATE ledger SET line = ''", "DELETE FROM ledger", "TRUNCATE ledger"]
    {
        let refused = client.batch_execute(statement).await.unwrap_err();
        assert_eq!(code(&refused), fence::NO_TOKEN, "{statement}");
    }
    let with = |token: i64| format!("BEGIN; SET LOCAL fencing.token = '{token}'; {insert}; COMMIT");
    client.batch_execute(&with(21)).await.unwrap();
    client.batch_execute(&with(22)).await.unwrap();
    let refused = client.batch_execute(&with(21)).await.unwrap_err();
    assert_eq!(code(&refused), fence::STALE);
    client.batch_execute("ROLLBACK").await.unwrap();
    // The token does not outlive its transaction.
    assert_eq!(code(&client.batch_execute(insert).await.unwrap_err()), fence::NO_TOKEN);
    let count: i64 = client.query_one("SELECT count(*) FROM ledger", &[]).await.unwrap().get(0);
    assert_eq!(count, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_refuses_older_tokens() {
    let postgres = Postgres::start().await;
    let client = postgres.connect().await;
    client.batch_execute(fence::SCHEMA).await.unwrap();
    client.batch_execute(fence::SCHEMA).await.expect("it may be run again");
    client.batch_execute("CREATE TABLE orders (id text PRIMARY KEY, state text)").await.unwrap();
    the_write_of_a_replaced_holder_is_refused(&postgres).await;
    raising_waits_for_an_older_transaction_and_then_sees_what_it_wrote(&postgres).await;
    waiting_for_an_older_transaction_can_be_bounded(&postgres).await;
    transactions_of_one_holder_do_not_wait_for_each_other(&postgres).await;
    one_holder_may_raise_the_gate_twice_at_once(&postgres).await;
    a_refused_transaction_holds_up_nobody(&postgres).await;
    raising_in_a_snapshot_is_refused_and_entering_is_not(&postgres).await;
    a_resource_without_a_gate_is_refused(&postgres).await;
    a_table_can_insist_on_a_token(&postgres).await;
}

#[test]
fn postgres_page_shows_the_sql_that_is_tested() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/postgresql.md");
    let page = fs::read_to_string(page).unwrap();
    for sql in [fence::SCHEMA, fence::ADD] {
        assert!(page.contains(sql.trim()), "not on the page as it is:\n{sql}");
    }
    for code in [fence::STALE, fence::NO_GATE, fence::WRONG_ISOLATION, fence::NO_TOKEN] {
        assert!(page.contains(code), "{code}");
    }
}
