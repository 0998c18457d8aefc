//! A reader of HTTP messages that shares no code with the proxy.
//!
//! A line ends with a line feed, with or without a carriage return: what a lenient reader might take for
//! a line must not be hidden in what the proxy writes.

/// A message that is there as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) first_line: String,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// What bytes hold.
#[derive(Debug)]
pub(super) enum Read {
    /// A message, and how long it is.
    Whole(Message, usize),
    /// The beginning of one.
    Part,
    /// Something else.
    Malformed(String),
}

impl Message {
    /// The values of a header.
    pub(super) fn values(&self, name: &str) -> Vec<&str> {
        let found = self.headers.iter().filter(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str()).collect()
    }

    /// A word of the first line.
    pub(super) fn word(&self, index: usize) -> &str {
        self.first_line.split(' ').nth(index).unwrap_or_default()
    }
}

/// All messages in what was read to the end of a connection, and whether part of one is left.
///
/// # Errors
/// If there is anything else.
pub(super) fn all(mut bytes: &[u8]) -> Result<(Vec<Message>, bool), String> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        match read(bytes) {
            Read::Whole(message, length) => {
                messages.push(message);
                bytes = &bytes[length..];
            }
            Read::Part => return Ok((messages, true)),
            Read::Malformed(why) => return Err(format!("{why} in {}", bytes.escape_ascii())),
        }
    }
    Ok((messages, false))
}

/// Reads one message.
pub(super) fn read(bytes: &[u8]) -> Read {
    let mut at = 0;
    let mut lines = Vec::new();
    loop {
        let Some(length) = bytes[at..].iter().position(|byte| *byte == b'\n') else {
            return Read::Part;
        };
        let line = bytes[at..at + length].strip_suffix(b"\r").unwrap_or(&bytes[at..at + length]);
        at += length + 1;
        if line.is_empty() {
            break;
        }
        lines.push(String::from_utf8_lossy(line).into_owned());
    }
    let mut lines = lines.into_iter();
    let Some(first_line) = lines.next() else {
        return Read::Malformed("no first line".to_owned());
    };
    let mut message = Message { first_line, headers: Vec::new(), body: Vec::new() };
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            return Read::Malformed(format!("the line {line:?}"));
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Read::Malformed(format!("the name {name:?}"));
        }
        message.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let (lengths, codings) =
        (message.values("content-length"), message.values("transfer-encoding"));
    let has_no_body =
        message.first_line.starts_with("HTTP/") && matches!(message.word(1), "204" | "304");
    let body = match (&lengths[..], &codings[..]) {
        _ if has_no_body => Ok(Some((Vec::new(), 0))),
        ([], []) => Ok(Some((Vec::new(), 0))),
        ([], ["chunked"]) => chunks(&bytes[at..]),
        ([length], []) => match length.parse::<usize>() {
            Ok(length) => Ok(bytes[at..].get(..length).map(|body| (body.to_vec(), length))),
            Err(_) => Err(format!("the length {length:?}")),
        },
        framing => Err(format!("the framing {framing:?}")),
    };
    match body {
        Ok(Some((body, length))) => {
            message.body = body;
            Read::Whole(message, at + length)
        }
        Ok(None) => Read::Part,
        Err(why) => Read::Malformed(why),
    }
}

/// A body in chunks, and how long it is with its sizes.
fn chunks(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, String> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let Some(length) = bytes[at..].windows(2).position(|end| end == b"\r\n") else {
            return Ok(None);
        };
        let size = String::from_utf8_lossy(&bytes[at..at + length]).into_owned();
        let Ok(size) = usize::from_str_radix(&size, 16) else {
            return Err(format!("the chunk size {size:?}"));
        };
        at += length + 2;
        let Some(rest) = bytes.get(at..) else { return Ok(None) };
        let Some(data) = rest.get(..size) else { return Ok(None) };
        body.extend_from_slice(data);
        at += size;
        // The proxy passes no trailers on that were not asked for, so an empty line ends the body.
        match bytes.get(at..at + 2) {
            None => return Ok(None),
            Some(b"\r\n") => at += 2,
            Some(other) => return Err(format!("{} behind a chunk", other.escape_ascii())),
        }
        if size == 0 {
            return Ok(Some((body, at)));
        }
    }
}

#[test]
fn reader_finds_messages_parts_and_garbage() {
    let sound = b"PUT / HTTP/1.1\r\nA: 1\r\nContent-Length: 2\r\n\r\nokGET / HTTP/1.1\n\n\
                  HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let (messages, part) = all(sound).unwrap();
    let bodies: Vec<_> = messages.iter().map(|message| &message.body[..]).collect();
    assert_eq!((bodies, part), (vec![&b"ok"[..], b"", b"abc"], false));
    assert_eq!((messages[0].word(0), messages[0].values("a")), ("PUT", vec!["1"]));
    for cut in [10, 40, 44, 62, sound.len() - 1] {
        assert!(all(&sound[..cut]).unwrap().1, "{cut}");
    }
    for bad in [
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        "\r\n",
    ] {
        assert!(all(bad.as_bytes()).is_err(), "{bad}");
    }
}
