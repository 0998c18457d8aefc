//! Pages that are played from top to bottom in terminals: the README, the tutorial, starting a cluster, the doctor.

use std::{fs, panic};

use tenure_e2e::{Desk, page, tools};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tutorials/first-cluster.md");

#[test]
fn tutorial_blocks_do_what_the_page_says() {
    let steps = page::steps(&fs::read_to_string(PAGE).unwrap());
    let typed = steps.iter().filter(|step| matches!(step.act, page::Act::Type(..))).count();
    assert!(typed > 10, "{typed} blocks were found");
    Desk::with_terminals(2).play(&steps);
}

/// What a newcomer types first. A checkout builds the command, and stderr goes to the same terminal; the test has both apart.
#[test]
fn readme_blocks_do_what_the_page_says() {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let page = fs::read_to_string(PAGE).unwrap().replace("make run", "tenure serve 2>serve.log");
    let steps = page::steps(&page.replace("target/release/tenure", "tenure"));
    let typed = steps.iter().filter(|step| matches!(step.act, page::Act::Type(..))).count();
    assert!(typed > 4, "{typed} blocks were found");
    Desk::with_terminals(3).play(&steps);
}

/// The program is an example of the library; a server runs before.
#[test]
fn first_singleton_blocks_do_what_the_page_says() {
    const PAGE: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tutorials/first-singleton.md");
    let program = tools::example("first_singleton").display().to_string();
    let page = fs::read_to_string(PAGE).unwrap().replace("cargo run -q", &program);
    let server = "```sh terminal=3\ntenure serve 2>serve.log\n```\n```text\n…\n  try      …\n```\n";
    let end = "<!-- terminal 3: Ctrl-C -->\n";
    let steps = page::steps(&[server, &page, end].concat());
    Desk::with_terminals(3).play(&steps);
}

#[test]
fn starting_a_cluster_blocks_do_what_the_page_says() {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-to/start-a-cluster.md");
    let steps = page::steps(&fs::read_to_string(PAGE).unwrap());
    assert_eq!(steps.len(), 4, "{steps:?}");
    Desk::with_terminals(1).play(&steps);
}

/// What a server says when it was started without a word: where it listens, and what to paste next.
#[test]
fn server_says_what_to_type_next_and_that_shows_a_leader() {
    let page = "```sh terminal=1\ntenure serve 2>serve.log\n```\n\
                ```text\ntenure … is ready: one durable node\n  clients  http://127.0.0.1:2379  …\n  browse   http://127.0.0.1:2379/ui/\n  data     …\n  \
                try      tenure elect nightly-job\n```\n\
                ```sh terminal=2\ntenure elect nightly-job --identity me &\n```\n\
                ```text\nwaiting to lead nightly-job\nleading nightly-job with token …\n```\n\
                ```sh terminal=2\ncurl -s http://127.0.0.1:2379/health\n```\n\
                ```text\n{\"health\":\"true\",\"reason\":\"\"}\n```\n\
                <!-- terminal 1: Ctrl-C -->\n";
    Desk::with_terminals(2).play(&page::steps(page));
}

/// The page begins with a cluster, a leader, and the status file of another process.
#[test]
fn doctor_says_what_its_page_says() {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/doctor.md");
    let before = "```sh terminal=1\ntenure up 2>up.log &\n```\n```text\n…\nexport …\n```\n\
                  ```sh terminal=1\ntenure elect jobs --identity bob &\n```\n\
                  ```text\nwaiting to lead jobs\nleading jobs with token …\n```\n";
    let mut desk = Desk::with_terminals(1);
    let until = std::time::SystemTime::now() + std::time::Duration::from_secs(600);
    let until = until.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    desk.file(
        "jobs.json",
        &format!(
            r#"{{"name":"alice","election":"jobs","identity":"alice","is_leader":true,"token":1,
            "expires_in_ms":600000,"valid_until_unix_ms":{until}}}"#
        ),
    );
    let mut steps = page::steps(before);
    steps.extend(page::steps(&fs::read_to_string(PAGE).unwrap()));
    desk.play(&steps);
}

/// A page that does not say the truth must fail, or the test above is worth nothing.
#[test]
fn page_runner_notices_a_page_that_is_wrong() {
    let fails = |page: &str| {
        let steps = page::steps(page);
        let hasty = std::time::Duration::from_secs(2);
        let played = panic::catch_unwind(|| Desk::with_terminals(1).within(hasty).play(&steps));
        *played.expect_err(page).downcast::<String>().unwrap()
    };
    let said = fails("```sh terminal=1\necho one\n```\n```text\ntwo\n```\n");
    assert!(said.contains("line 4") && said.contains("one") && said.contains("two"), "{said}");
    let said = fails("```sh terminal=1\ntrue\nfalse\n```\n");
    assert!(said.contains("the exit code was 1, not 0"), "{said}");
}

#[test]
fn page_runner_has_the_terminal_of_a_reader() {
    let page = "```sh terminal=1\nfor n in 1 2; do\n  echo line $n\ndone\n```\n\
                ```text\nline 1\nline 2\n```\n\
                ```sh terminal=1\ncat\n```\n\
                <!-- terminal 1: type hello -->\n```text\nhello\n```\n\
                <!-- terminal 1: Ctrl-C -->\n\
                ```sh terminal=1 exit=3\nsh -c 'exit 3'\n```\n\
                ```sh terminal=2\ntest ! -e /proc/net/none && echo apart\n```\n```text\napart\n```\n";
    Desk::with_terminals(2).play(&page::steps(page));
}
