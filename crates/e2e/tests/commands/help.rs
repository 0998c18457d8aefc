//! Help, completions and man pages, as shells and man(1) take them.

use std::process::{Command, Output};

use tenure_e2e::tools;

fn tenure(args: &[&str]) -> Output {
    Command::new(tools::tenure()).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The verbs, as the overview lists them.
fn verbs() -> Vec<String> {
    let help = text(&tenure(&["help"]).stdout);
    let groups = help.split("\nStart a server:").nth(1).unwrap();
    let groups = groups.split("\nOptions:").next().unwrap();
    let line = |line: &str| Some(line.strip_prefix("  ")?.split_whitespace().next()?.to_owned());
    groups.lines().filter_map(line).collect()
}

#[test]
fn help_shows_the_first_two_commands_and_every_verb() {
    let verbs = verbs();
    assert!(verbs.len() > 30, "{verbs:?}");
    for asked in [&[][..], &["help"], &["--help"], &["-h"]] {
        let said = tenure(asked);
        assert_eq!(said.status.code(), Some(0), "{asked:?}");
        let help = text(&said.stdout);
        assert!(help.contains("tenure up ") && help.contains("tenure elect nightly-job"), "{help}");
        for verb in &verbs {
            assert!(help.contains(&format!("\n  {verb} ")), "{verb} is not in {asked:?}");
        }
    }
}

/// A file of the repository.
fn source(path: &str) -> String {
    std::fs::read_to_string(format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn command_page_names_every_verb() {
    let page = source("docs/reference/command.md");
    let missing: Vec<_> =
        verbs().into_iter().filter(|verb| !page.contains(&format!("`{verb}`"))).collect();
    assert!(missing.is_empty(), "not in docs/reference/command.md: {missing:?}");
}

#[test]
fn command_page_has_every_exit_code() {
    let (page, table) = (source("docs/reference/command.md"), source("crates/cli/src/exit.rs"));
    let codes: Vec<u8> = table
        .lines()
        .filter_map(|line| {
            line.trim().strip_prefix("Exit::")?.strip_suffix(',')?.split_once(" => ")
        })
        .filter_map(|(_, code)| code.parse().ok())
        .collect();
    assert!(codes.len() > 10, "{codes:?}");
    let missing: Vec<_> =
        codes.iter().filter(|code| !page.contains(&format!("\n| {code} |"))).collect();
    assert!(missing.is_empty(), "not in docs/reference/command.md: {missing:?}");
}

#[test]
fn help_explains_every_verb() {
    for verb in verbs() {
        let said = tenure(&["help", &verb]);
        assert_eq!(said.status.code(), Some(0), "{verb}");
        assert!(text(&said.stdout).contains("Usage: tenure"), "{verb}");
    }
    assert!(text(&tenure(&["help", "elect"]).stdout).contains("Examples:"));
    let unknown = tenure(&["electt"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("elect"), "a slip is recognised");
}

/// Runs a script in a bash that has our completions.
fn in_bash(script: &str) -> String {
    let whole = format!("set -eu\nsource <(\"$TENURE\" completions bash)\n{script}");
    let bash = tools::system("bash", "bash");
    let said = Command::new(bash)
        .args(["--norc", "-c", &whole])
        .env("TENURE", tools::tenure())
        .output()
        .unwrap();
    assert!(said.status.success(), "{}", text(&said.stderr));
    text(&said.stdout)
}

#[test]
fn bash_completes_verbs_flags_and_values() {
    let script = text(&tenure(&["completions", "bash"]).stdout);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &script).unwrap();
    let bash = tools::system("bash", "bash");
    tools::run(&bash, &["-n", file.path().to_str().unwrap()]);

    // As bash itself does when the tabulator key is pressed.
    let complete = |words: &[&str]| {
        let list: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let last = words.len() - 1;
        let said = in_bash(&format!(
            "COMP_WORDS=({}); COMP_CWORD={last}; COMPREPLY=()\n\
             _tenure tenure '{}' '{}' || true\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            list.join(" "),
            words[last],
            words[last - 1],
        ));
        said.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(complete(&["tenure", "ele"]), ["elect"]);
    assert_eq!(complete(&["tenure", "elect", "--ident"]), ["--identity"]);
    assert_eq!(complete(&["tenure", "lease", "gra"]), ["grant"]);
    assert_eq!(complete(&["tenure", "completions", "z"]), ["zsh"]);
    assert_eq!(complete(&["tenure", "get", "-w", "j"]), ["json"]);
    let every: Vec<String> = complete(&["tenure", ""]);
    for verb in verbs() {
        assert!(every.contains(&verb), "{verb} is not completed");
    }
    let registered = in_bash("complete -p tenure");
    assert!(registered.contains("_tenure"), "{registered}");
}

/// A closed pipe is no error, as in `tenure completions zsh | head -1`.
#[test]
fn help_ends_quietly_when_its_reader_is_gone() {
    let bash = tools::system("bash", "bash");
    let script =
        "set -o pipefail; \"$TENURE\" man | head -1; \"$TENURE\" completions zsh | head -1";
    let said =
        Command::new(bash).args(["-c", script]).env("TENURE", tools::tenure()).output().unwrap();
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    assert_eq!(text(&said.stderr), "");
}

#[test]
fn man_pages_of_every_verb_have_no_fault() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("man1");
    let said = tenure(&["man", "--dir", dir.to_str().unwrap()]);
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    for verb in verbs() {
        assert!(dir.join(format!("tenure-{verb}.1")).exists(), "{verb}");
    }
    assert!(dir.join("tenure.1").exists() && dir.join("tenure-lease-grant.1").exists());
    let groff = tools::system("groff", "groff-base");
    let mut pages = 0;
    for page in std::fs::read_dir(&dir).unwrap() {
        let page = page.unwrap().path();
        // All warnings but those about lines that cannot be filled nicely.
        let said = Command::new(&groff)
            .args(["-man", "-Tutf8", "-ww", "-Wbreak", "-z"])
            .arg(&page)
            .output()
            .unwrap();
        assert!(said.status.success(), "{}", page.display());
        assert_eq!(text(&said.stderr), "", "{}", page.display());
        pages += 1;
    }
    assert!(pages > 50, "{pages}");
    let main = tenure(&["man"]);
    assert_eq!(main.stdout, std::fs::read(dir.join("tenure.1")).unwrap());
    let shown = Command::new(&groff)
        .args(["-man", "-Tascii", "-P-c"])
        .arg(dir.join("tenure-elect.1"))
        .output()
        .unwrap();
    let shown = text(&shown.stdout);
    assert!(shown.contains("--identity") && shown.contains("tenure elect nightly-job"), "{shown}");
}
