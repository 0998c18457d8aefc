//! The lane's connections to the upstream.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::pool::{IDLE_CONNECTIONS_MAX, IDLE_MAX};
use super::{PIECE, response};

/// A worker's connections that nobody on its lane uses.
#[derive(Debug, Default)]
pub(in super::super) struct Stock {
    idle: Mutex<Vec<(Instant, Line)>>,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Line {
    stream: TcpStream,
    /// What the upstream has sent, and nobody has read yet.
    pub(super) inbox: Vec<u8>,
}

impl Line {
    pub(super) fn new(stream: TcpStream) -> Line {
        Line { stream, inbox: Vec::with_capacity(PIECE) }
    }

    /// Sends a request and reads the head of its answer, which stays in the inbox.
    pub(super) async fn ask(
        &mut self,
        request: &[u8],
        head_only: bool,
    ) -> Result<response::Answer, String> {
        self.stream.write_all(request).await.map_err(|cause| cause.to_string())?;
        loop {
            match self.read().await {
                Err(cause) => return Err(cause.to_string()),
                Ok(0) => return Err("it was closed".to_owned()),
                Ok(_) => {}
            }
            if let Some(answer) = response::read(&mut self.inbox, head_only)? {
                return Ok(answer);
            }
        }
    }

    /// Reads more into the inbox; 0 bytes are the end.
    pub(super) async fn read(&mut self) -> std::io::Result<usize> {
        self.inbox.reserve(PIECE);
        self.stream.read_buf(&mut self.inbox).await
    }

    /// Whether the upstream has neither closed it nor said anything unasked.
    fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let read = self.stream.try_read(&mut byte);
        matches!(read, Err(cause) if cause.kind() == std::io::ErrorKind::WouldBlock)
    }
}

impl Stock {
    /// The connection that came back last, if one is left.
    pub(super) fn take(&self) -> Option<Line> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((since, line)) = idle.pop() {
            if since.elapsed() > IDLE_MAX {
                // All below it are older.
                idle.clear();
            } else if line.is_quiet() {
                return Some(line);
            }
        }
        None
    }

    /// Closes those that nobody used for long.
    pub(in super::super) fn sweep(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(since, _)| since.elapsed() <= IDLE_MAX);
    }

    /// Keeps a connection whose answer was read to its end.
    pub(super) fn give_back(&self, mut line: Line) {
        line.inbox.clear();
        line.inbox.shrink_to(2 * PIECE);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_CONNECTIONS_MAX {
            idle.push((Instant::now(), line));
        }
    }
}
