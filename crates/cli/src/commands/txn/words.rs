//! Words and quotes.

/// Splits a line at blanks. A word in double quotes has Go's escapes, one in single quotes none.
pub(super) fn split(line: &str) -> Result<Vec<Vec<u8>>, &'static str> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '"' => unquote(rest)?,
            '\'' => {
                let (word, after) = rest[1..].split_once('\'').ok_or("a quote is not closed")?;
                (word.as_bytes().to_vec(), after)
            }
            _ => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (rest.as_bytes()[..end].to_vec(), &rest[end..])
            }
        };
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

/// Reads a string in double quotes, or in backquotes, from the start of `text`; answers with its
/// bytes and what comes after it.
pub(super) fn unquote(text: &str) -> Result<(Vec<u8>, &str), &'static str> {
    if let Some(raw) = text.strip_prefix('`') {
        let (word, after) = raw.split_once('`').ok_or("a quote is not closed")?;
        return Ok((word.as_bytes().to_vec(), after));
    }
    let mut word = Vec::new();
    let mut rest = text.strip_prefix('"').ok_or("a quoted string is expected")?.chars();
    loop {
        match rest.next().ok_or("a quote is not closed")? {
            '"' => return Ok((word, rest.as_str())),
            '\\' => escape(&mut rest, &mut word)?,
            c => push(&mut word, c),
        }
    }
}

fn escape(rest: &mut std::str::Chars<'_>, word: &mut Vec<u8>) -> Result<(), &'static str> {
    match rest.next().ok_or("a quote is not closed")? {
        'a' => word.push(0x07),
        'b' => word.push(0x08),
        'f' => word.push(0x0c),
        'n' => word.push(b'\n'),
        'r' => word.push(b'\r'),
        't' => word.push(b'\t'),
        'v' => word.push(0x0b),
        c @ ('\\' | '"' | '\'') => push(word, c),
        'x' => word.push(number(rest, 2, 16)? as u8),
        'u' => push(word, character(number(rest, 4, 16)?)?),
        'U' => push(word, character(number(rest, 8, 16)?)?),
        c @ '0'..='3' => word.push((c as u32 * 64 - '0' as u32 * 64 + number(rest, 2, 8)?) as u8),
        _ => return Err("an escape is unknown"),
    }
    Ok(())
}

fn number(rest: &mut std::str::Chars<'_>, digits: usize, radix: u32) -> Result<u32, &'static str> {
    let text = rest.as_str().get(..digits).ok_or("an escape is too short")?;
    if !text.chars().all(|c| c.is_digit(radix)) {
        return Err("an escape is not a number");
    }
    let number = u32::from_str_radix(text, radix).map_err(|_| "an escape is not a number")?;
    rest.nth(digits - 1);
    Ok(number)
}

fn character(code: u32) -> Result<char, &'static str> {
    char::from_u32(code).ok_or("an escape is no character")
}

fn push(word: &mut Vec<u8>, c: char) {
    word.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        split(line).unwrap().into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn txn_words_are_split_at_blanks_outside_quotes() {
        assert_eq!(words("put  k v"), ["put", "k", "v"]);
        assert_eq!(words(r#"put "a key" 'it "is"' x"y"#), ["put", "a key", "it \"is\"", "x\"y"]);
        assert_eq!(words(r#"put k """#), ["put", "k", ""]);
    }

    #[test]
    fn txn_escapes_are_gos() {
        assert_eq!(split(r#""a\n\x41\u00e9\101\"""#).unwrap(), ["a\nAéA\"".as_bytes()]);
        assert_eq!(split(r#""\xff""#).unwrap(), [b"\xff"]);
    }

    #[test]
    fn txn_refuses_broken_quotes() {
        for line in [r#""open"#, "'open", r#""\x4""#, r#""\q""#, r#""\ud800""#] {
            assert!(split(line).is_err(), "{line}");
        }
    }
}
