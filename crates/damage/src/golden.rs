//! Sound bytes that must stay as they are: a file of samples, and what today's code makes of them.
//!
//! A layout that is on somebody's disk cannot be changed by editing a function. If the bytes of a
//! sample are not what the file says, either the change was not meant, or it needs a new version; then
//! the old line stays, because it must still be read, and a new one stands beside it.

use std::{collections::BTreeMap, fmt::Write};

/// Bytes in a line of a file.
const LINE_BYTES: usize = 48;

/// A file of samples: a name at the beginning of a line, and its bytes in hexadecimal in indented lines
/// below it. Other lines are empty or begin with `#`. A name that begins with `old` is of an older version:
/// nobody makes these bytes any more, and they are still read.
#[derive(Debug)]
pub struct Golden {
    samples: BTreeMap<String, Vec<u8>>,
}

impl Golden {
    /// Reads the text of a file.
    pub fn read(text: &str) -> Golden {
        let mut samples = BTreeMap::<String, Vec<u8>>::new();
        let mut name = None;
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if line.starts_with(' ') {
                let bytes = name.as_ref().and_then(|name| samples.get_mut(name));
                bytes.expect("bytes stand below a name").extend(from_hex(line));
            } else {
                let twice = samples.insert(line.to_owned(), Vec::new());
                assert!(twice.is_none(), "{line:?} is there twice");
                name = Some(line.to_owned());
            }
        }
        Golden { samples }
    }

    /// The bytes of a sample.
    pub fn bytes(&self, name: &str) -> &[u8] {
        self.samples.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether a sample's name begins with these words.
    pub fn has(&self, words: &str) -> bool {
        let begins = |name: &String| {
            name.strip_prefix(words).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        self.samples.keys().any(begins)
    }

    /// Holds the file against what is made today, and says what would have to be written into it.
    pub fn is_what_is_made(&self, made: &[(String, Vec<u8>)]) {
        let mut said = String::new();
        for (name, bytes) in made {
            if self.samples.get(name) != Some(bytes) {
                let _ = write!(said, "{name}\n{}", to_hex(bytes));
            }
        }
        for name in self.samples.keys() {
            if !name.starts_with("old ") && !made.iter().any(|(made, _)| made == name) {
                let _ = writeln!(said, "# no longer made: {name}");
            }
        }
        assert!(
            said.is_empty(),
            "bytes are not what they were. If they lie on disks already, this needs a new version \
             (docs/decisions/0012-versions.md). What is made now and differs:\n{said}"
        );
    }
}

fn from_hex(line: &str) -> Vec<u8> {
    let digits: Vec<u32> = line
        .chars()
        .filter(|letter| *letter != ' ')
        .map(|letter| letter.to_digit(16).expect("a hexadecimal digit"))
        .collect();
    assert!(digits.len().is_multiple_of(2), "half a byte in {line:?}");
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    for line in bytes.chunks(LINE_BYTES) {
        out.push_str("    ");
        for byte in line {
            let _ = write!(out, "{byte:02x}");
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# a comment\n\n1 one\n    00ff\n    10\n2 nothing\n";

    #[test]
    fn a_file_is_read() {
        let golden = Golden::read(FILE);
        assert_eq!(golden.bytes("1 one"), [0, 255, 16]);
        assert!(golden.has("1") && golden.has("2 nothing") && !golden.has("1 o"));
        golden.is_what_is_made(&[("1 one".into(), vec![0, 255, 16]), ("2 nothing".into(), vec![])]);
    }

    #[test]
    #[should_panic(expected = "1 one\n    00\n# no longer made: 2 nothing")]
    fn what_differs_is_said_as_the_file_would_have_it() {
        Golden::read(FILE).is_what_is_made(&[("1 one".into(), vec![0])]);
    }
}
