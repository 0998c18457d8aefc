//! The head of the upstream's answer: where its body ends, and what the client gets of it.

use std::io::Write;
use std::ops::Range;

use httparse::{EMPTY_HEADER, Header, Response, Status};

use super::super::pool::HEAD_BYTES_MAX;
use super::body::{Body, Chunks};

/// How many headers a head may have. As many as hyper takes, on the other way.
const HEADERS_MAX: usize = 100;

/// An answer that has begun.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) head: Head,
    /// How long its head is, as the upstream sent it.
    pub(super) bytes: usize,
    pub(super) body: Body,
    /// Whether the connection can be used again.
    pub(super) keeps: bool,
}

/// What the client gets of a head.
#[derive(Debug)]
pub(super) struct Head {
    status: u16,
    reason: Range<usize>,
    /// Whole lines of the upstream's head that go on as they are.
    lines: Vec<Range<usize>>,
    /// A length that was said more than once.
    length: Option<u64>,
    /// Whether the end of the connection is the end of the body.
    closes: bool,
}

/// Reads a head, once it is there as a whole. What comes before the real answer is taken out.
///
/// # Errors
/// If it cannot be understood: then nobody knows where it ends.
pub(super) fn read(inbox: &mut Vec<u8>, head_only: bool) -> Result<Option<Answer>, String> {
    loop {
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut response = Response::new(&mut headers);
        let bytes = match response.parse(inbox) {
            Ok(Status::Complete(bytes)) if bytes <= HEAD_BYTES_MAX => bytes,
            Ok(Status::Partial) if inbox.len() < HEAD_BYTES_MAX => return Ok(None),
            Ok(_) => return Err("the answer's head is too long".to_owned()),
            Err(error) => return Err(format!("the answer's head cannot be read: {error}")),
        };
        match response.code {
            // Without its zeros it would be another one, and with them the client may stumble.
            Some(0..100) => return Err("the answer has no sound status".to_owned()),
            Some(101) => return Err("it wants to leave HTTP unasked".to_owned()),
            // Not the answer yet (RFC 9110, 15.2).
            Some(100..200) => drop(inbox.drain(..bytes)),
            _ => return understood(&response, inbox, bytes, head_only).map(Some),
        }
    }
}

fn understood(
    response: &Response<'_, '_>,
    inbox: &[u8],
    bytes: usize,
    head_only: bool,
) -> Result<Answer, String> {
    let status = response.code.unwrap_or_default();
    let at_most_one = |name: &str| {
        let mut found = response.headers.iter().filter(|it| it.name.eq_ignore_ascii_case(name));
        match (found.next(), found.next()) {
            (first, None) => Ok(first.map(|header| header.value)),
            _ => Err(format!("the answer has more than one {name}")),
        }
    };
    let (length, coding) = (length(response.headers)?, at_most_one("transfer-encoding")?);
    let connection =
        || response.headers.iter().filter(|it| it.name.eq_ignore_ascii_case("connection"));
    let any_listed = connection().next().is_some();
    let listed = |name: &str| any_listed && connection().any(|it| lists(it.value, name));
    let body = match (length, coding) {
        _ if head_only || status == 204 || status == 304 => Body::Bytes(0),
        (_, Some(coding))
            if coding.eq_ignore_ascii_case(b"chunked") && response.version == Some(1) =>
        {
            Body::Chunks(Chunks::START)
        }
        (_, Some(_)) => return Err("the answer's coding is not known here".to_owned()),
        (Some(length), None) => Body::Bytes(length.bytes),
        (None, None) => Body::Endless,
    };
    let ends_here = |name: &str| {
        let hop =
            ["connection", "keep-alive", "proxy-connection", "proxy-authenticate", "upgrade", "te"];
        // Of two lengths the chunks count (RFC 9112, 6.3).
        let repeated = length.is_some_and(|length| length.repeated);
        let lie = (coding.is_some() || repeated) && name.eq_ignore_ascii_case("content-length");
        let frames = ["content-length", "transfer-encoding"];
        let is_frame = frames.iter().any(|frame| name.eq_ignore_ascii_case(frame));
        lie || hop.iter().any(|hop| name.eq_ignore_ascii_case(hop)) || (!is_frame && listed(name))
    };
    let mut lines = Vec::with_capacity(8);
    for header in response.headers.iter().filter(|header| !ends_here(header.name)) {
        let start = within(inbox, header.name.as_bytes()).start;
        let length = inbox[start..].iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        join(&mut lines, start..start + length.unwrap_or_default(), inbox);
    }
    let closes = body == Body::Endless;
    let keeps = response.version == Some(1) && !closes && !listed("close");
    let reason = within(inbox, response.reason.unwrap_or_default().as_bytes());
    let length = length.filter(|length| length.repeated && coding.is_none());
    let length = length.map(|length| length.bytes);
    Ok(Answer { head: Head { status, reason, lines, length, closes }, bytes, body, keeps })
}

/// Adds a line. One that follows right behind the last becomes part of it: one copy for both.
fn join(lines: &mut Vec<Range<usize>>, line: Range<usize>, inbox: &[u8]) {
    match lines.last_mut() {
        Some(last) if inbox.get(last.end..line.start) == Some(b"\r\n") => last.end = line.end,
        _ => lines.push(line),
    }
}

/// Where a part stands that was found inside the whole.
fn within(whole: &[u8], part: &[u8]) -> Range<usize> {
    if part.is_empty() {
        return 0..0;
    }
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

/// Whether a list of names, divided by commas, has this one.
fn lists(list: &[u8], name: &str) -> bool {
    let mut names = list.split(|byte| *byte == b',');
    names.any(|it| it.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
}

/// How long a body is.
#[derive(Clone, Copy)]
struct Length {
    bytes: u64,
    repeated: bool,
}

/// What all lengths say. Two that are equal are one (RFC 9110, 8.6).
fn length(headers: &[Header<'_>]) -> Result<Option<Length>, String> {
    let lines = headers.iter().filter(|it| it.name.eq_ignore_ascii_case("content-length"));
    let said = lines.flat_map(|it| it.value.split(|byte| *byte == b','));
    let mut length = None;
    for text in said {
        let bytes = number(text.trim_ascii()).ok_or("the answer has no sound length")?;
        length = match length {
            None => Some(Length { bytes, repeated: false }),
            Some(Length { bytes: before, .. }) if before == bytes => {
                Some(Length { bytes, repeated: true })
            }
            Some(_) => return Err("the answer has more than one length".to_owned()),
        };
    }
    Ok(length)
}

/// A number in nothing but digits.
fn number(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

impl Head {
    /// Writes what the client gets. `inbox` is still as it was read.
    pub(super) fn write(&self, inbox: &[u8], to_send: &mut Vec<u8>) {
        let _ = write!(to_send, "HTTP/1.1 {} ", self.status);
        to_send.extend_from_slice(&inbox[self.reason.clone()]);
        to_send.extend_from_slice(b"\r\n");
        for lines in &self.lines {
            to_send.extend_from_slice(&inbox[lines.clone()]);
            to_send.extend_from_slice(b"\r\n");
        }
        if let Some(length) = self.length {
            let _ = write!(to_send, "content-length: {length}\r\n");
        }
        if self.closes {
            to_send.extend_from_slice(b"connection: close\r\n");
        }
        to_send.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str, head_only: bool) -> Result<Option<(String, Body, bool)>, String> {
        let mut inbox = text.as_bytes().to_vec();
        let Some(answer) = read(&mut inbox, head_only)? else { return Ok(None) };
        let mut written = Vec::new();
        answer.head.write(&inbox, &mut written);
        Ok(Some((String::from_utf8(written).unwrap(), answer.body, answer.keeps)))
    }

    fn read_whole(text: &str) -> (String, Body, bool) {
        answer(text, false).unwrap().unwrap()
    }

    #[test]
    fn the_client_gets_what_is_meant_for_it() {
        let (head, body, keeps) = read_whole(
            "HTTP/1.1 200 Very Good\r\nA: 1\r\nKeep-Alive: timeout=5\r\nB:  2 \r\nConnection: \
             keep-alive, x-hop\r\nX-Hop: 3\r\nContent-Length: 5\r\nEmpty:\r\nC: 4\r\n\r\nhello",
        );
        let expected = "HTTP/1.1 200 Very Good\r\nA: 1\r\nB:  2 \r\nContent-Length: 5\r\nEmpty:\r\nC: 4\r\n\r\n";
        assert_eq!(head, expected);
        assert_eq!((body, keeps), (Body::Bytes(5), true));
    }

    #[test]
    fn a_body_ends_where_its_head_says() {
        let chunks = Body::Chunks(Chunks::START);
        for (fields, body, keeps) in [
            ("Content-Length: 0\r\n", Body::Bytes(0), true),
            ("Content-Length: 7\r\nConnection: close\r\n", Body::Bytes(7), false),
            ("Transfer-Encoding: chunked\r\n", chunks, true),
            ("Transfer-Encoding: Chunked\r\nContent-Length: 3\r\n", chunks, true),
            ("Connection: content-length\r\nContent-Length: 3\r\n", Body::Bytes(3), true),
            ("", Body::Endless, false),
        ] {
            let (head, found, kept) = read_whole(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
            assert_eq!((found, kept), (body, keeps), "{fields}");
            assert_eq!(head.contains("connection: close"), body == Body::Endless);
            let frames = ["Content-Length", "Transfer-Encoding"];
            let framed = frames.iter().filter(|frame| head.contains(*frame)).count();
            assert_eq!(framed, usize::from(body != Body::Endless), "{head}");
        }
        for twice in
            ["Content-Length: 3, 3\r\n", "Content-Length: 3\r\nA: b\r\ncontent-length: 3\r\n"]
        {
            let (head, body, _) = read_whole(&format!("HTTP/1.1 200 OK\r\n{twice}\r\n"));
            assert_eq!(body, Body::Bytes(3));
            assert_eq!(head.to_lowercase().matches("content-length: 3\r\n").count(), 1, "{head}");
        }
        let (_, body, keeps) = read_whole("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n");
        assert_eq!((body, keeps), (Body::Bytes(3), false));
        for (status, head_only) in [("204 No", false), ("304 Not", false), ("200 OK", true)] {
            let text = format!("HTTP/1.1 {status}\r\nContent-Length: 9\r\n\r\n");
            let (head, body, _) = answer(&text, head_only).unwrap().unwrap();
            assert!(head.contains("Content-Length: 9") && body == Body::Bytes(0));
        }
    }

    #[test]
    fn what_comes_before_the_answer_is_left_out() {
        let early = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n";
        let (head, ..) =
            read_whole(&format!("{early}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!(head, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(answer(early, false), Ok(None));
    }

    #[test]
    fn what_has_no_certain_end_is_refused() {
        for bad in [
            "HTTP/1.1 101 Switching\r\n\r\n",
            "HTTP/1.1 003 Early\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "SSH-2.0-OpenSSH\r\n\r\n",
            "\0\0\0\0",
        ] {
            assert!(answer(bad, false).is_err(), "{bad}");
        }
        let long = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(HEAD_BYTES_MAX));
        assert!(answer(&long, false).is_err());
        assert_eq!(answer("HTTP/1.1 200 OK\r\nContent-Le", false), Ok(None));
    }
}
