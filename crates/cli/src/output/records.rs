//! Records of our own: a line each for people, one JSON object a line, and from the same JSON fields and tables.

use std::fmt;
use std::io::Write;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Format, Output, fields, table, text::visible};

/// The members of a JSON object in the order in which they were written.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl<W: Write> Output<W> {
    /// Writes records; `line` is how people read one.
    pub(crate) fn records<T: Serialize>(
        &mut self,
        records: impl IntoIterator<Item = T>,
        line: impl Fn(&T) -> String,
    ) -> anyhow::Result<()> {
        let mut rows: Vec<Members> = Vec::new();
        for record in records {
            match self.format {
                Format::Simple => writeln!(self.out, "{}", line(&record))?,
                Format::Json => self.json(&record)?,
                Format::Fields | Format::Table => {
                    rows.push(serde_json::from_str(&serde_json::to_string(&record)?)?);
                }
            }
        }
        match self.format {
            Format::Fields => {
                for Members(members) in rows {
                    for (name, value) in members {
                        fields::field(&mut self.out, &name, value)?;
                    }
                    writeln!(self.out)?;
                }
                Ok(())
            }
            Format::Table if !rows.is_empty() => Ok(draw(&mut self.out, &rows)?),
            _ => Ok(()),
        }
    }
}

/// Some records leave out what others have.
fn draw(out: &mut impl Write, rows: &[Members]) -> std::io::Result<()> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|Members(members)| members) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let row = |Members(members): &Members| -> Vec<String> {
        let value = |name: &&str| members.iter().find(|(known, _)| known == name);
        names
            .iter()
            .map(|name| value(name).map(|(_, value)| cell(value)).unwrap_or_default())
            .collect()
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    let heads: Vec<String> =
        names.iter().map(|name| name.to_uppercase().replace('_', " ")).collect();
    table::draw(out, heads, &rows)
}

/// A value in a table. Of a candidate inside another record its identity is shown.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => visible(text).into_owned(),
        Value::Array(values) => values.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Object(members) => match members.get("identity") {
            Some(identity) => cell(identity),
            None => visible(&value.to_string()).into_owned(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::golden::written;
    use super::*;

    #[derive(Serialize)]
    struct Record {
        name: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        from_unix_ms: Option<u64>,
        leader: Value,
    }

    fn records() -> [Record; 2] {
        [
            Record { name: "a", from_unix_ms: None, leader: Value::Null },
            Record { name: "b\n", from_unix_ms: Some(7), leader: json!({ "identity": "x" }) },
        ]
    }

    #[test]
    fn records_are_the_same_in_every_format() {
        let write =
            |format| written(format, |o| o.records(records(), |one| one.name.trim().into()));
        assert_eq!(write(Format::Simple), "a\nb\n");
        assert_eq!(
            write(Format::Json),
            "{\"name\":\"a\",\"leader\":null}\n{\"name\":\"b\\n\",\"from_unix_ms\":7,\"leader\":{\"identity\":\"x\"}}\n"
        );
        assert_eq!(
            write(Format::Fields),
            "\"name\" : \"a\"\n\"leader\" : null\n\n\"name\" : \"b\\n\"\n\"from_unix_ms\" : 7\n\"leader\" : {\"identity\":\"x\"}\n\n"
        );
        let table = write(Format::Table);
        assert!(table.lines().nth(1).unwrap().contains("NAME | LEADER | FROM UNIX MS"), "{table}");
        assert_eq!(table.lines().count(), 6, "{table}");
    }
}
