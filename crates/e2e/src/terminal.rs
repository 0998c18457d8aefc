//! A terminal with a shell in it, as a reader of the docs uses it.
//!
//! `script` gives bash a terminal of its own, so that Ctrl-C, jobs in the background and prompts are as
//! a reader has them. All terminals of a [`Desk`] share a network namespace in which nothing else listens: a page may
//! use the usual ports.

use std::{
    fs,
    io::{Read, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{
    page::{Act, Step, fits},
    tools,
};

/// How long anything on a page may take.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// What bash writes when it wants a line, with the exit code of the one before; or when the line before
/// is not complete. No page has such text.
const PROMPT: &str = "@@";
const MORE: &str = "@@more@@";

/// Some terminals, a directory, and a network of their own.
#[derive(Debug)]
pub struct Desk {
    terminals: Vec<Terminal>,
    space: String,
    home: TempDir,
}

#[derive(Debug)]
struct Terminal {
    script: Child,
    keys: ChildStdin,
    /// Everything that was shown.
    shown: Arc<Mutex<String>>,
    /// How much of it was looked at.
    looked_at: usize,
    /// How much there was when the last line was typed, and the exit code it shall have.
    entered: usize,
    code: i32,
    patience: Duration,
}

impl Desk {
    /// Terminals in which our command is found by its name.
    pub fn with_terminals(count: usize) -> Desk {
        tools::must_be_root("it makes a network namespace");
        let ip = tools::system("ip", "iproute2");
        let space = format!("te{:x}-desk", std::process::id());
        tools::run(&ip, &["netns", "add", &space]);
        let home = TempDir::with_prefix("tenure-e2e-desk-").expect("a temporary directory");
        let mut desk = Desk { terminals: vec![], space, home };
        tools::run(&ip, &["-n", &desk.space, "link", "set", "lo", "up"]);
        for _ in 0..count {
            let terminal = Terminal::open(&desk.space, desk.home.path());
            desk.terminals.push(terminal);
        }
        desk
    }

    /// The same, with less patience.
    pub fn within(mut self, patience: Duration) -> Desk {
        self.terminals.iter_mut().for_each(|terminal| terminal.patience = patience);
        self
    }

    /// A file in the directory that the terminals begin in.
    pub fn file(&self, name: &str, text: &str) {
        fs::write(self.home.path().join(name), text).expect("a file can be written");
    }

    /// Plays a page; fails at the first step that is not as it says.
    pub fn play(&mut self, steps: &[Step]) {
        for (at, step) in steps.iter().enumerate() {
            if let Act::Until(condition) = &step.act {
                self.wait_until(condition);
                continue;
            }
            let mut later = steps[at + 1..].iter().filter(|next| next.terminal == step.terminal);
            // What is looked at, told something or interrupted next need not end by itself.
            let ends = later.next().is_none_or(|next| matches!(next.act, Act::Type(..)));
            let terminal = &mut self.terminals[step.terminal - 1];
            let played = match &step.act {
                Act::Type(lines, code) => terminal.enter(lines, *code, ends),
                Act::See(wanted) => terminal.see(wanted),
                Act::Interrupt => terminal.interrupt(),
                Act::Tell(line) => terminal.press(&format!("{line}\n")),
                Act::Until(_) => unreachable!("it is in no terminal"),
            };
            if let Err(why) = played {
                panic!("{step}\n{why}");
            }
        }
        for (at, terminal) in self.terminals.iter_mut().enumerate() {
            if let Err(why) = terminal.is_free() {
                panic!("at the end, terminal {}: {why}", at + 1);
            }
        }
    }

    /// A reader is slow; this is how slow.
    fn wait_until(&self, condition: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut command = at_home(&self.space, self.home.path());
            let said =
                command.args(["bash", "-c", condition]).output().expect("bash can be started");
            if said.status.success() {
                return;
            }
            assert!(Instant::now() < deadline, "{condition:?} does not come true: {said:?}");
            thread::sleep(LOOK_AGAIN);
        }
    }
}

/// A command in the namespace, with our program on its path and nothing of ours in its environment.
fn at_home(space: &str, home: &Path) -> Command {
    let ours = tools::tenure().parent().map(Path::to_owned).expect("a file is in a directory");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(tools::system("ip", "iproute2"));
    command.args(["netns", "exec", space]).current_dir(home);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["TENURE_", "ETCD_", "ETCDCTL_"].iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
        .env("PATH", format!("{}:{path}", ours.display()))
        .env("HOME", home)
        .env("TMPDIR", home)
        .env("TERM", "dumb")
        .env("NO_COLOR", "1")
        .env_remove("PROMPT_COMMAND");
    command
}

impl Terminal {
    fn open(space: &str, home: &Path) -> Terminal {
        // Keys are not shown, so that only what programs say is seen.
        let settings = format!("stty -echo\nPS1='{PROMPT}$?{PROMPT}'\nPS2='{MORE}'\n");
        fs::write(home.join(".terminal"), settings).expect("a file can be written");
        let mut command = at_home(space, home);
        command
            .arg(tools::system("script", "bsdutils"))
            .args(["-q", "-f", "-c", "bash --rcfile .terminal --noediting", "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut script = command.spawn().expect("script can be started");
        let keys = script.stdin.take().expect("a pipe");
        let mut screen = script.stdout.take().expect("a pipe");
        let shown = Arc::new(Mutex::new(String::new()));
        let seen = Arc::clone(&shown);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            let mut rest = Vec::new();
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                rest.extend_from_slice(&bytes[..count]);
                // A letter may be cut in two.
                let whole = match std::str::from_utf8(&rest) {
                    Ok(_) => rest.len(),
                    Err(error) => error.valid_up_to(),
                };
                let text: Vec<u8> = rest.drain(..whole).filter(|byte| *byte != b'\r').collect();
                let text = String::from_utf8(text).expect("it was checked");
                seen.lock().expect("nobody panics while holding it").push_str(&text);
            }
        });
        let mut terminal =
            Terminal { script, keys, shown, looked_at: 0, entered: 0, code: 0, patience: PATIENCE };
        terminal.is_free().expect("the shell is ready");
        terminal.looked_at = terminal.screen().len();
        terminal
    }

    fn screen(&self) -> String {
        self.shown.lock().expect("nobody panics while holding it").clone()
    }

    fn press(&mut self, keys: &str) -> Result<(), String> {
        let pressed = self.keys.write_all(keys.as_bytes()).and_then(|()| self.keys.flush());
        pressed.map_err(|error| error.to_string())
    }

    /// Types lines into the shell, each when the one before has ended.
    fn enter(&mut self, lines: &[String], code: i32, ends: bool) -> Result<(), String> {
        for (at, line) in lines.iter().enumerate() {
            self.is_free()?;
            if at == 0 {
                self.looked_at = self.screen().len();
            }
            self.entered = self.screen().len();
            self.code = if at + 1 == lines.len() { code } else { 0 };
            self.press(&format!("{line}\n"))?;
        }
        if ends {
            self.is_free()?;
            self.looked_at = self.screen().len();
        }
        Ok(())
    }

    fn interrupt(&mut self) -> Result<(), String> {
        self.press("\x03")?;
        let ended = self.wait("the shell is free", |screen| prompt(&screen[self.entered..]))?;
        // An interrupted command may end as it likes.
        self.code = ended.unwrap_or_default();
        Ok(())
    }

    /// Waits until the last line has ended, as it should.
    fn is_free(&mut self) -> Result<(), String> {
        let ended = self.wait("the shell is free", |screen| prompt(&screen[self.entered..]))?;
        match ended {
            Some(code) if code != self.code => {
                let seen = self.screen()[self.entered..].to_owned();
                Err(format!("the exit code was {code}, not {}\n--- seen\n{seen}", self.code))
            }
            _ => Ok(()),
        }
    }

    /// Waits until all that is new in here is as the page says.
    fn see(&mut self, wanted: &[String]) -> Result<(), String> {
        let from = self.looked_at;
        let seen = self.wait("what the page says", |screen| {
            let until = from + whole_lines(&screen[from..]);
            fits(wanted, &told(&screen[from..until])).then_some(until)
        });
        self.looked_at = seen.map_err(|why| format!("{why}\n--- wanted\n{}", wanted.join("\n")))?;
        Ok(())
    }

    fn wait<T>(&self, what: &str, look: impl Fn(&str) -> Option<T>) -> Result<T, String> {
        let deadline = Instant::now() + self.patience;
        loop {
            let screen = self.screen();
            if let Some(found) = look(&screen) {
                return Ok(found);
            }
            if Instant::now() > deadline {
                let from = self.looked_at.min(screen.len());
                let (patience, seen) = (self.patience, &screen[from..]);
                return Err(format!("{what}: not within {patience:?}\n--- seen\n{seen}"));
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
}

/// The exit code in the first prompt behind a line; nothing inside if the line goes on.
fn prompt(screen: &str) -> Option<Option<i32>> {
    let (_, after) = screen.split_once(PROMPT)?;
    let (inside, _) = after.split_once(PROMPT)?;
    Some(inside.parse().ok())
}

/// How much of it is whole lines. What stands before a prompt is one, too.
fn whole_lines(screen: &str) -> usize {
    let line = screen.rfind('\n').map_or(0, |at| at + 1);
    // Prompts come in pairs of marks; an odd one is not complete.
    let marks: Vec<usize> = screen.match_indices(PROMPT).map(|(at, _)| at + PROMPT.len()).collect();
    let prompt = marks.chunks_exact(2).last().map_or(0, |pair| pair[1]);
    line.max(prompt)
}

/// What programs said: without prompts, and without what bash itself says about its jobs.
fn told(screen: &str) -> Vec<String> {
    let mut plain = screen.replace(MORE, "");
    while let Some(begin) = plain.find(PROMPT) {
        let after = &plain[begin + PROMPT.len()..];
        let end = after.find(PROMPT).map_or(plain.len(), |at| begin + at + 2 * PROMPT.len());
        plain.replace_range(begin..end, "");
    }
    let about_a_job = |line: &str| {
        let rest = line.strip_prefix('[').and_then(|line| line.split_once(']'));
        rest.is_some_and(|(number, _)| number.parse::<u32>().is_ok())
    };
    let lines = plain.lines().filter(|line| !about_a_job(line) && *line != "^C");
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
    lines
}

impl Drop for Desk {
    fn drop(&mut self) {
        let ip = tools::system("ip", "iproute2");
        // All processes left in our namespace were started from here.
        let left = Command::new(&ip).args(["netns", "pids", &self.space]).output();
        let left = left.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
        for pid in left.unwrap_or_default().lines() {
            if let Some(pid) = pid.trim().parse().ok().and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        for terminal in &mut self.terminals {
            let _ = terminal.script.kill();
            let _ = terminal.script.wait();
        }
        let _ = Command::new(&ip).args(["netns", "delete", &self.space]).output();
    }
}
