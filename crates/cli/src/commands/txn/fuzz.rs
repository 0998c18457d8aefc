//! Transactions as people may type them.

use proptest::prelude::*;
use tenure::api::wire::convert;
use tenure_damage::{damaged, damaged_text, frugally, hold};

use super::{read, words};

const SOUND: &str = "mod(\"job\") = \"0\"\nvalue(`k`) > \"a\\x41\\u00e9\\101\"\n\nput job \"it's mine\" \
                     --lease=1a\ndel old --prefix\n\nget job --limit 2\nput 'a b' \"\\\"\"\n\n";

#[test]
fn txn_text_that_is_damaged_is_refused_or_read() {
    hold(600, damaged(Just(SOUND.as_bytes().to_vec())), |text| {
        let Ok(request) = frugally(text.len(), || read(&mut &text[..], |_| ())) else {
            return Ok(());
        };
        // The server may refuse it, which is for the server to say.
        let _ = convert::txn(request);
        Ok(())
    });
}

#[test]
fn txn_lines_that_are_damaged_are_refused_or_read() {
    let line = r#"put "a\n\x41\u00e9\U0001f600\101\"" 'b c' `d` e"f"#;
    hold(1000, damaged_text(Just(line.to_owned())), |line| {
        let Ok(words) = frugally(line.len(), || words::split(&line)) else { return Ok(()) };
        prop_assert!(words.iter().map(Vec::len).sum::<usize>() <= line.len());
        let _ = words::unquote(&line);
        Ok(())
    });
}
