//! What happened, line by line. The lines are built only when somebody wants to read them; a checksum
//! of the bare numbers is always kept.

use std::fmt::Write as _;

use tenure_replica::Moment;

#[derive(Debug, Default)]
pub struct Trace {
    /// All lines so far, if they are wanted.
    pub text: Option<String>,
    pub checksum: u64,
}

impl Trace {
    /// `TENURE_TRACE` asks for the lines.
    pub fn from_environment() -> Trace {
        Trace { text: std::env::var_os("TENURE_TRACE").map(|_| String::new()), checksum: 0 }
    }

    pub fn line(&mut self, now: Moment, line: impl FnOnce() -> String) {
        if let Some(text) = &mut self.text {
            let micros = now.since_start().as_micros();
            let line = line();
            let _ = writeln!(text, "{:>6}.{:03} {line}", micros / 1000, micros % 1000);
        }
    }

    pub fn number(&mut self, number: u64) {
        self.checksum = (self.checksum.rotate_left(5) ^ number).wrapping_mul(0x0100_0000_01b3);
    }
}

impl Drop for Trace {
    /// A run that fails leaves its story behind, if one was asked for.
    fn drop(&mut self) {
        if let Some(text) = self.text.as_ref().filter(|_| std::thread::panicking()) {
            eprintln!("{text}");
        }
    }
}
