//! A program that says what it does, line by line.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::eventually;

/// A running program, and every line it has said on its standard output.
#[derive(Debug)]
pub struct Program {
    name: String,
    process: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Program {
    /// Starts it. What it says on standard error goes where the test's does.
    pub fn start(name: &str, command: &mut Command) -> Program {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|cause| panic!("cannot start {command:?}: {cause}"));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&lines);
        let output = process.stdout.take().expect("a pipe");
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                heard.lock().expect("nobody panics while holding it").push(line);
            }
        });
        Program { name: name.to_owned(), process, lines }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Everything it has said so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("nobody panics while holding it").clone()
    }

    /// Waits for a line with this text in it.
    pub async fn says(&self, text: &str) -> String {
        self.says_after(0, text).await
    }

    /// Waits for a line with this text in it, behind the first so many lines.
    pub async fn says_after(&self, lines: usize, text: &str) -> String {
        eventually(&format!("{} says {text:?}", self.name), async || {
            let said = self.lines();
            let line = said.iter().skip(lines).find(|line| line.contains(text)).cloned();
            line.ok_or_else(|| said.join("\n"))
        })
        .await
    }

    /// Gives it a line on its standard input.
    pub fn tell(&mut self, line: &str) {
        let input = self.process.stdin.as_mut().expect("a pipe");
        writeln!(input, "{line}").expect("the program reads");
    }

    /// SIGSTOP: it neither runs nor dies.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGTERM.
    pub fn ask_to_stop(&self) {
        self.signal(Signal::TERM);
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.process.wait();
    }

    /// Waits until it ends by itself.
    pub async fn ends(&mut self) -> ExitStatus {
        let (name, lines) = (self.name.clone(), Arc::clone(&self.lines));
        eventually(&format!("{name} ends"), async || {
            let ended = self.process.try_wait().map_err(|error| error.to_string())?;
            ended.ok_or_else(|| format!("{:?}", lines.lock()))
        })
        .await
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id() as i32).expect("a process id is not 0");
        kill_process(pid, signal).expect("our own child can be signalled");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if thread::panicking() {
            eprintln!("--- {} said\n{}", self.name, self.lines().join("\n"));
        }
    }
}
