//! Asking a person for a password: on the terminal itself, and without showing it.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};

use anyhow::Context;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tenure::grpc::Password;

/// More than any password has.
const PASSWORD_BYTES_MAX: usize = 4096;

/// Asks, with this text before it. None where there is no terminal, and so no person.
pub(crate) fn password(text: &str) -> anyhow::Result<Option<Password>> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    // Standard input may belong to a command, and standard output to a pipe.
    let Ok(mut terminal) = OpenOptions::new().read(true).write(true).open("/dev/tty") else {
        return Ok(None);
    };
    let quiet = Quiet::new(&terminal).context("hide what is typed")?;
    write!(terminal, "{text}")?;
    terminal.flush()?;
    let typed = read_line(&mut terminal);
    drop(quiet);
    writeln!(terminal)?;
    Ok(Some(typed?))
}

/// What is typed is neither shown nor a signal, until this is dropped.
struct Quiet {
    terminal: File,
    before: Termios,
}

impl Quiet {
    fn new(terminal: &File) -> io::Result<Quiet> {
        let terminal = terminal.try_clone()?;
        let before = tcgetattr(&terminal)?;
        let mut quiet = before.clone();
        // An interrupt is read as a byte: a signal would leave the terminal as it is now.
        quiet.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        tcsetattr(&terminal, OptionalActions::Flush, &quiet)?;
        Ok(Quiet { terminal, before })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Flush, &self.before);
    }
}

fn read_line(input: &mut impl Read) -> anyhow::Result<Password> {
    const INTERRUPT: u8 = 3;
    const END_OF_FILE: u8 = 4;
    const ERASE: [u8; 2] = [8, 127];
    let mut typed = Vec::new();
    let mut byte = [0];
    while input.read(&mut byte)? == 1 {
        match byte[0] {
            b'\n' | b'\r' | END_OF_FILE => break,
            INTERRUPT => anyhow::bail!("interrupted"),
            erase if ERASE.contains(&erase) => {
                typed.pop();
            }
            other => typed.push(other),
        }
        anyhow::ensure!(typed.len() < PASSWORD_BYTES_MAX, "that is no password");
    }
    let typed = String::from_utf8(typed).ok().context("the password is not text")?;
    Ok(Password::new(typed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_reads_a_line_with_its_corrections() {
        let read = |typed: &[u8]| read_line(&mut &typed[..]).map(|p| p.reveal().to_owned());
        assert_eq!(read(b"s3cx\x7fret\nmore").unwrap(), "s3cret");
        assert_eq!(read(b"\x7fend").unwrap(), "end");
        assert!(read(b"ab\x03").is_err());
        assert!(read(&[0xff, b'\n']).is_err());
    }
}
