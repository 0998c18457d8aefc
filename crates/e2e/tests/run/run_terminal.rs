//! `tenure run` at a terminal: keys, window sizes, and a command that wants to read.

use std::process::Command;

use tenure_e2e::{Cluster, Program, tools};

/// One process: a shell takes for itself a signal that comes while it starts another.
const READY: &str = "echo ready; exec sleep 1000";
const CTRL_C: &str = "key 03";

/// `tenure run` in a terminal of its own.
fn at_a_terminal(cluster: &Cluster, work: &[&str]) -> Program {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/terminal.py");
    let mut command = Command::new(tools::installed("python"));
    command.arg(script).arg(tools::tenure()).args(["--endpoints", &cluster.endpoints()]);
    command.args(["run", "--election", "job", "--"]).args(work);
    Program::start("a terminal", &mut command)
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
async fn the_second_ctrl_c_kills() {
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
async fn a_window_that_is_resized_is_news_to_the_command() {
    let cluster = Cluster::start(1).await;
    let work = "trap 'echo now $(stty size)' WINCH; echo ready; while :; do sleep 0.02; done";
    let mut terminal = at_a_terminal(&cluster, &["sh", "-c", work]);
    terminal.says("ready").await;
    terminal.tell("size 40 111");
    terminal.says("now 40 111").await;
}

/// A shell reads from the terminal and wants it for itself; Ctrl-C does not end it.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_reads_gets_the_terminal() {
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
async fn a_leader_cannot_be_suspended() {
    let cluster = Cluster::start(1).await;
    let mut terminal = at_a_terminal(&cluster, &["sh", "-c", READY]);
    terminal.says("ready").await;
    terminal.tell("key 1a");
    terminal.says("cannot be suspended").await;
    terminal.tell(CTRL_C);
    terminal.says("[exit 130]").await;
}
