//! A disk in memory that forgets what was not flushed, and can fail or stop at any step.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

use super::super::disk::Disk;

/// The steps of one replacement, in order.
pub(super) const STEPS: [Op; 4] = [Op::Write, Op::FlushFile, Op::Rename, Op::FlushDirectory];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Write,
    FlushFile,
    Rename,
    FlushDirectory,
}

/// Bytes as the machine sees them, and as the platter has them.
#[derive(Clone, Debug, Default)]
struct Content {
    cached: Vec<u8>,
    flushed: Vec<u8>,
}

/// A directory with two names. Each name is bound to one of the contents ever written.
#[derive(Debug, Default)]
struct Inside {
    contents: Vec<Content>,
    /// The names as the machine sees them: (file, beside).
    cached: (Option<usize>, Option<usize>),
    flushed: (Option<usize>, Option<usize>),
    log: Vec<Op>,
    /// Which operation, counted from 0, fails from now on, and whether it still takes effect.
    fails_at: Option<(usize, bool)>,
    /// This kind of operation says that it was done, and was not.
    lies: Option<Op>,
    /// Does not answer for now.
    stalls: bool,
    /// Panics instead of answering.
    panics: bool,
}

/// Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Simulated(Arc<Mutex<Inside>>, Arc<Condvar>);

/// What of the unflushed survived a crash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Survived {
    /// The directory as the machine saw it, not as it was flushed.
    pub(super) names: bool,
    /// How many of the unflushed bytes, in percent.
    pub(super) bytes_percent: usize,
}

impl Survived {
    pub(super) fn all() -> Vec<Survived> {
        let percents = [0, 1, 50, 99, 100];
        let both = |names| percents.map(|bytes_percent| Survived { names, bytes_percent });
        [both(false), both(true)].concat()
    }
}

impl Simulated {
    /// From now on the `n`th next operation fails, and everything after it: the process is as good
    /// as dead. With `late`, the operation that fails has taken effect all the same.
    pub(super) fn fail_at(&self, n: usize, late: bool) {
        let mut inside = self.0.lock().unwrap();
        inside.fails_at = Some((inside.log.len() + n, late));
    }

    /// Works again.
    pub(super) fn repair(&self) {
        self.0.lock().unwrap().fails_at = None;
    }

    /// Does not answer, from now on or no longer.
    pub(super) fn stall(&self, stalls: bool) {
        self.0.lock().unwrap().stalls = stalls;
        self.1.notify_all();
    }

    /// Panics at the next operation.
    pub(super) fn panic(&self) {
        self.0.lock().unwrap().panics = true;
    }

    pub(super) fn lie(&self, op: Op) {
        self.0.lock().unwrap().lies = Some(op);
    }

    /// Everything that was done, in order.
    pub(super) fn log(&self) -> Vec<Op> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).log.clone()
    }

    /// The machine loses power; this is what it finds afterwards.
    pub(super) fn after_crash(&self, survived: Survived) -> Simulated {
        let inside = self.0.lock().unwrap();
        let (file, beside) = if survived.names { inside.cached } else { inside.flushed };
        let mut contents = Vec::new();
        let mut keep = |at: Option<usize>| {
            at.map(|at| {
                let Content { cached, flushed } = &inside.contents[at];
                let bytes = if cached == flushed {
                    cached.clone()
                } else {
                    cached[..cached.len() * survived.bytes_percent / 100].to_vec()
                };
                contents.push(Content { cached: bytes.clone(), flushed: bytes });
                contents.len() - 1
            })
        };
        let names = (keep(file), keep(beside));
        let found = Inside { contents, cached: names, flushed: names, ..Inside::default() };
        Simulated(Arc::new(Mutex::new(found)), Arc::default())
    }

    fn act(&self, op: Op, effect: impl FnOnce(&mut Inside)) -> io::Result<()> {
        let inside = self.0.lock().unwrap();
        let mut inside = self.1.wait_while(inside, |inside| inside.stalls).unwrap();
        assert!(!inside.panics, "a bug in the disk");
        let number = inside.log.len();
        inside.log.push(op);
        let failed = match inside.fails_at {
            Some((at, late)) if number == at => Some(late),
            Some((at, _)) if number > at => Some(false),
            _ => None,
        };
        if failed != Some(false) && inside.lies != Some(op) {
            effect(&mut inside);
        }
        match failed {
            Some(_) => Err(io::Error::other(format!("{op:?} failed"))),
            None => Ok(()),
        }
    }
}

impl Disk for Simulated {
    fn name(&self) -> String {
        "simulated".to_owned()
    }

    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let inside = self.0.lock().unwrap();
        Ok(inside.cached.0.map(|at| inside.contents[at].cached.clone()))
    }

    fn write_beside(&self, bytes: &[u8]) -> io::Result<()> {
        self.act(Op::Write, |inside| {
            inside.contents.push(Content { cached: bytes.to_vec(), flushed: Vec::new() });
            inside.cached.1 = Some(inside.contents.len() - 1);
        })
    }

    fn flush_beside(&self) -> io::Result<()> {
        self.act(Op::FlushFile, |inside| {
            let at = inside.cached.1.unwrap();
            let content = &mut inside.contents[at];
            content.flushed = content.cached.clone();
        })
    }

    fn rename(&self) -> io::Result<()> {
        self.act(Op::Rename, |inside| {
            inside.cached = (inside.cached.1.or(inside.cached.0), None);
        })
    }

    fn flush_directory(&self) -> io::Result<()> {
        self.act(Op::FlushDirectory, |inside| inside.flushed = inside.cached)
    }
}
