//! Programs that are not ours. One that is missing fails the test and says how to get it.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// The `tenure` binary: `TENURE_BIN`, or the one built beside the tests.
pub fn tenure() -> PathBuf {
    if let Some(path) = env::var_os("TENURE_BIN") {
        return path.into();
    }
    let test = env::current_exe().expect("a test knows its own path");
    let found = test.ancestors().skip(1).take(3).map(|dir| dir.join("tenure")).find(|p| p.exists());
    found.expect(
        "no tenure binary beside the tests: run `cargo build -p tenure-cli`, or set TENURE_BIN",
    )
}

/// The commit that the `tenure` binary says it was built from, and how it was built.
pub fn built_from() -> String {
    let said = run(&tenure(), &["version"]);
    let commit = said.lines().find_map(|line| line.strip_prefix("commit: "));
    commit.unwrap_or("unknown").to_owned()
}

/// An example of the library, built beside the tests.
pub fn example(name: &str) -> PathBuf {
    let test = env::current_exe().expect("a test knows its own path");
    let beside = test.ancestors().skip(1).take(3).map(|dir| dir.join("examples").join(name));
    let found = beside.into_iter().find(|path| path.exists());
    found.unwrap_or_else(|| {
        panic!("no example {name} beside the tests: run `cargo build --workspace --all-targets`")
    })
}

/// A program that scripts/setup-tests put into target/test-tools: `etcd`, `etcdctl`, `python`.
pub fn installed(name: &str) -> PathBuf {
    fetched(&Path::new("bin").join(name))
}

/// Where scripts/setup-tests put packages for Node.
pub fn node_modules() -> PathBuf {
    fetched(Path::new("node/node_modules"))
}

fn fetched(path: &Path) -> PathBuf {
    let tools = env::var_os("TENURE_TEST_TOOLS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools"),
        PathBuf::from,
    );
    let path = tools.join(path);
    assert!(path.exists(), "{} is missing: run scripts/setup-tests", path.display());
    path
}

/// A program of the system.
pub fn system(name: &str, package: &str) -> PathBuf {
    let path = env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let found = path.split(':').map(|dir| Path::new(dir).join(name)).find(|p| p.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "{name} is missing: install the package {package} (scripts/setup-tests does, as root)"
        )
    })
}

/// The library that shows a process another wall clock.
pub fn libfaketime() -> &'static str {
    let places = [
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    ];
    places.into_iter().find(|path| Path::new(path).exists()).expect(
        "libfaketime is missing: install the package faketime (scripts/setup-tests does, as root)",
    )
}

/// The environment of a process whose wall clock shows what this file says (`+5h`), whenever it changes. The wall clock jumps; a
/// monotonic one does not, that is its meaning.
pub fn wall_clock(file: &Path) -> Vec<(OsString, OsString)> {
    fs::write(file, "+0").expect("a file of ours");
    let settings = [
        ("LD_PRELOAD", libfaketime().into()),
        ("FAKETIME_TIMESTAMP_FILE", file.into()),
        ("FAKETIME_NO_CACHE", "1".into()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ("DONT_FAKE_MONOTONIC", "1".into()),
    ];
    settings.map(|(name, value)| (name.into(), value)).to_vec()
}

/// Whether this is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether a process may be traced that is no child of the tracer.
pub fn may_trace() -> bool {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    is_root() || scope.map_or(true, |scope| scope.trim() == "0")
}

/// Fails unless this is root: no other user may do `what`.
pub fn must_be_root(what: &str) {
    assert!(is_root(), "this test must be run as root: {what}");
}

/// Runs a program to its end; fails if that was not a good one.
pub fn run(program: &Path, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let output = output.unwrap_or_else(|cause| panic!("{}: {cause}", program.display()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {}: {errors}", program.display(), args.join(" "));
    text
}

/// Whether the command under test takes faults from its environment (`crates/disk/src/faulty.rs`): builds with debug
/// assertions do, released ones do not.
pub fn takes_faults() -> bool {
    static TAKES: OnceLock<bool> = OnceLock::new();
    *TAKES.get_or_init(|| {
        let binary = std::fs::read(tenure()).expect("the command can be read");
        binary.windows(FAULTS.len()).any(|bytes| bytes == FAULTS.as_bytes())
    })
}

/// The variable that faults are asked for with.
pub const FAULTS: &str = "TENURE_FAULTS";
