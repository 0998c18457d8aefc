//! `tenure run` at a terminal: keys, window sizes, and a command that wants to read.

use std::process::Command;

use tenure_e2e::{Cluster, Program, Supervised, tools};

/// One process: a shell takes for itself a signal that comes while it starts another.
const READY: &str = "echo ready; exec sleep 1000";
const CTRL_C: &str = "key 03";

/// `tenure run` in a terminal of its own.
fn at_a_terminal(cluster: &Cluster, work: &[&str]) -> Program {
    typed_at_a_terminal(cluster, &[&["run", "--election", "job", "--"], work].concat())
}

fn typed_at_a_terminal(cluster: &Cluster, words: &[&str]) -> Program {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/terminal.py");
    let mut command = Command::new(tools::installed("python"));
    command.arg(script).arg(tools::tenure()).args(["--endpoints", &cluster.endpoints()]);
    Program::start("a terminal", command.args(words))
}

/// On a terminal one line that changes, in a log a line for each change.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_candidate_says_how_the_queue_changes() {
    let cluster = Cluster::start(1).await;
    let in_a_log = |words: &[&str]| Supervised::start(&cluster.endpoints(), words).program;
    let elect = |identity| ["elect", "job", "--ttl", "60s", "--identity", identity];
    let run =
        |identity| ["run", "job", "--ttl", "60s", "--identity", identity, "--", "sh", "-c", READY];
    let first = in_a_log(&run("A"));
    first.says("ready").await;
    let second = in_a_log(&elect("B"));
    second.says("waiting for job: 1 ahead, held by A, token 2").await;
    let mut third = typed_at_a_terminal(&cluster, &elect("C"));
    third.says("[in its place] tenure: waiting for job: 2 ahead, held by A, token 2").await;
    let mut fourth = typed_at_a_terminal(&cluster, &run("D"));
    fourth.says("[in its place] tenure: waiting for job: 3 ahead, held by A, token 2").await;
    let fifth = in_a_log(&elect("E"));
    fifth.says("waiting for job: 4 ahead, held by A, token 2").await;
    first.ask_to_stop();
    first.says("tenure: resigned job; ").await;
    let said = first.lines().join("\n");
    assert!(said.contains("next is B") || said.contains("held by B, token 3"), "{said}");
    second.says("leading job with token 3").await;
    third.says("[in its place] tenure: waiting for job: 1 ahead, held by B, token 3").await;
    fourth.says("[in its place] tenure: waiting for job: 2 ahead, held by B, token 3").await;
    fourth.tell(CTRL_C);
    fourth.says("tenure: not waiting for job any more: held by B, token 3").await;
    // More rarely in a log.
    fifth.says("waiting for job: 2 ahead, held by B, token 3").await;
    second.ask_to_stop();
    second.says("tenure: resigned job; ").await;
    third.says("leading job with token 4").await;
    third.tell(CTRL_C);
    third.says("tenure: resigned job; ").await;
    fifth.says("leading job with token ").await;
    fifth.ask_to_stop();
    fifth.says("tenure: resigned job; no other candidate waits").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_the_command_as_it_would_without_us() {
    let cluster = Cluster::start(1).await;
    let work = "trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 0.02; done";
    let mut terminal = at_a_terminal(&cluster, &["sh", "-c", work]);
    terminal.says("ready").await;
    terminal.tell(CTRL_C);
    terminal.says("interrupted").await;
    terminal.says("[exit 7]").await;
    let said = terminal.lines();
    assert_eq!(said.iter().filter(|line| line.contains("interrupted")).count(), 1, "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_a_command_that_does_not_care_about_it_with_130() {
    let cluster = Cluster::start(1).await;
    let mut terminal = at_a_terminal(&cluster, &["sh", "-c", READY]);
    terminal.says("ready").await;
    terminal.tell(CTRL_C);
    terminal.says("[exit 130]").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_twice_kills() {
    let cluster = Cluster::start(1).await;
    let work = "trap 'echo no' INT TERM; echo ready; while :; do sleep 0.02; done";
    let mut terminal = at_a_terminal(&cluster, &["sh", "-c", work]);
    terminal.says("ready").await;
    terminal.tell(CTRL_C);
    terminal.says("no").await;
    terminal.tell(CTRL_C);
    terminal.says("killing the command").await;
    terminal.says("[exit 137]").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn window_that_is_resized_is_news_to_the_command() {
    let cluster = Cluster::start(1).await;
    let work = "trap 'echo now $(stty size)' WINCH; echo ready; while :; do sleep 0.02; done";
    let mut terminal = at_a_terminal(&cluster, &["sh", "-c", work]);
    terminal.says("ready").await;
    terminal.tell("size 40 111");
    terminal.says("now 40 111").await;
}

/// A shell reads from the terminal and wants it for itself; Ctrl-C does not end it.
#[tokio::test(flavor = "multi_thread")]
async fn command_that_reads_gets_the_terminal() {
    let cluster = Cluster::start(1).await;
    let mut terminal = at_a_terminal(&cluster, &["bash", "--norc", "-i"]);
    terminal.says("leading job").await;
    terminal.tell("type echo token=$TENURE_TOKEN.");
    terminal.says("token=2.").await;
    // What is typed is seen as well; the quotes tell it from what is said. The job itself says it: the terminal is its
    // own by then, while a shell that has yet to start its job takes Ctrl-C and waits for the job all the same.
    terminal.tell("type sh -c 'echo be\"\"gun; exec sleep 1000'");
    terminal.says("begun").await;
    terminal.tell(CTRL_C);
    terminal.says("^C").await;
    terminal.tell("type echo still $((40 + 2))");
    terminal.says("still 42").await;
    terminal.tell("type exit 5");
    terminal.says("[exit 5]").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_cannot_be_suspended() {
    let cluster = Cluster::start(1).await;
    let mut terminal = at_a_terminal(&cluster, &["sh", "-c", READY]);
    terminal.says("ready").await;
    terminal.tell("key 1a");
    terminal.says("cannot be suspended").await;
    terminal.tell(CTRL_C);
    terminal.says("[exit 130]").await;
}
