//! Comparisons: `mod("key") = "0"`.

use tenure::api::{Compare, CompareResult, CompareTarget, LeaseId, Revision, Span};

use super::words::unquote;
use crate::exit::usage;

/// Reads one: a field of a key, `=`, `!=`, `<` or `>`, and what to compare it with.
pub(super) fn read(line: &str) -> anyhow::Result<Compare> {
    parse(line).map_err(|problem| {
        usage(format!(
            "malformed comparison: {line}: {problem}\n\
             for example: mod(\"key\") > \"0\"; fields are version, create, mod, value and lease"
        ))
    })
}

fn parse(line: &str) -> Result<Compare, String> {
    let (field, rest) = line.split_once('(').ok_or("a key in parentheses is expected")?;
    let (key, rest) = unquote(rest.trim_start())?;
    let rest = rest.trim_start().strip_prefix(')').ok_or("the parenthesis is not closed")?;
    let (relation, rest) = relation(rest.trim_start())?;
    let (operand, rest) = unquote(rest.trim_start())?;
    if !rest.trim().is_empty() {
        return Err(format!("nothing is expected after the value, found {rest:?}"));
    }
    Ok(Compare {
        span: Span::One(key.into()),
        result: relation,
        target: target(field.trim(), operand)?,
    })
}

fn relation(text: &str) -> Result<(CompareResult, &str), String> {
    const TABLE: [(&str, CompareResult); 4] = [
        ("=", CompareResult::Equal),
        ("!=", CompareResult::NotEqual),
        (">", CompareResult::Greater),
        ("<", CompareResult::Less),
    ];
    TABLE
        .iter()
        .find_map(|(sign, result)| Some((*result, text.strip_prefix(sign)?)))
        .ok_or_else(|| "one of = != < > is expected".into())
}

fn target(field: &str, operand: Vec<u8>) -> Result<CompareTarget, String> {
    let number = |radix| {
        let text = std::str::from_utf8(&operand).unwrap_or_default();
        i64::from_str_radix(text, radix).map_err(|_| format!("{text:?} is not a number"))
    };
    Ok(match field {
        "ver" | "version" => CompareTarget::Version(number(10)?),
        "c" | "create" => CompareTarget::Create(Revision(number(10)?)),
        "m" | "mod" => CompareTarget::Mod(Revision(number(10)?)),
        "val" | "value" => CompareTarget::Value(operand.into()),
        // Lease ids are shown in hexadecimal everywhere else too.
        "lease" => CompareTarget::Lease(LeaseId::from_wire(number(16)?)),
        _ => return Err(format!("there is no field {field:?}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn txn_compare_reads_every_field_and_relation() {
        let cases = [
            (r#"ver("k") = "1""#, CompareResult::Equal, CompareTarget::Version(1)),
            (r#"c("k") > "0""#, CompareResult::Greater, CompareTarget::Create(Revision(0))),
            (r#"mod("k") != "5""#, CompareResult::NotEqual, CompareTarget::Mod(Revision(5))),
            (r#"value("k")<"a b""#, CompareResult::Less, CompareTarget::Value("a b".into())),
            (r#"lease("k") = "1a""#, CompareResult::Equal, CompareTarget::Lease(Some(LeaseId(26)))),
            (r#"val("k") = `"raw"`"#, CompareResult::Equal, CompareTarget::Value("\"raw\"".into())),
        ];
        for (line, result, target) in cases {
            let expected = Compare { span: Span::One("k".into()), result, target };
            assert_eq!(read(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn txn_compare_says_what_is_wrong() {
        for (line, part) in [
            ("mod", "a key in parentheses"),
            (r#"mod(k) = "0""#, "a quoted string is expected"),
            (r#"mod("k" = "0""#, "the parenthesis is not closed"),
            (r#"mod("k") ~ "0""#, "one of = != < >"),
            (r#"mod("k") = "x""#, "is not a number"),
            (r#"size("k") = "1""#, "there is no field"),
            (r#"mod("k") = "1" x"#, "nothing is expected after"),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
