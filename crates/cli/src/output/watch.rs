//! Events, as they come.

use std::io::Write;

use serde::Serialize;
use tenure::api::wire::etcdserverpb as pb;

use super::json::{Event, Header};
use super::{Format, Output, fields, no_table};

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Answer<'a> {
    header: Header,
    events: Vec<Event<'a>>,
    compact_revision: i64,
    canceled: bool,
    created: bool,
}

impl<W: Write> Output<W> {
    /// Writes one answer of a watch and lets it be seen at once.
    pub(crate) fn watch(&mut self, response: &pb::WatchResponse) -> anyhow::Result<()> {
        let progress = response.events.is_empty() && !response.canceled;
        match self.format {
            Format::Simple if progress => {
                let revision = response.header.as_ref().map_or(0, |header| header.revision);
                writeln!(self.out, "progress notify: {revision}")?;
            }
            Format::Simple => {
                for event in &response.events {
                    writeln!(self.out, "{}", event.r#type().as_str_name())?;
                    event.prev_kv.iter().try_for_each(|kv| self.simple_kv(kv))?;
                    event.kv.iter().try_for_each(|kv| self.simple_kv(kv))?;
                }
            }
            Format::Fields => {
                fields::header(&mut self.out, response.header.as_ref())?;
                for event in &response.events {
                    fields::field(&mut self.out, "Type", event.r#type().as_str_name())?;
                    if let Some(kv) = &event.prev_kv {
                        fields::kv(&mut self.out, "Prev", kv)?;
                    }
                    if let Some(kv) = &event.kv {
                        fields::kv(&mut self.out, "", kv)?;
                    }
                }
            }
            Format::Json => self.json(&Answer {
                header: Header::of(response.header.as_ref()),
                events: response.events.iter().map(Event::from).collect(),
                compact_revision: response.compact_revision,
                canceled: response.canceled,
                created: response.created,
            })?,
            Format::Table => return Err(no_table()),
        }
        Ok(self.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden::{header, kv, written};
    use super::*;
    use tenure::api::wire::mvccpb;

    fn answer(events: Vec<mvccpb::Event>) -> pb::WatchResponse {
        pb::WatchResponse { header: header(30), events, ..Default::default() }
    }

    fn two_events() -> pb::WatchResponse {
        let gone = mvccpb::KeyValue { key: "wk".into(), mod_revision: 30, ..Default::default() };
        answer(vec![
            mvccpb::Event { r#type: 0, kv: Some(kv("wk", "2", 29)), prev_kv: None },
            mvccpb::Event { r#type: 1, kv: Some(gone), prev_kv: Some(kv("wk", "2", 29)) },
        ])
    }

    #[test]
    fn watch_output_is_the_kind_what_was_before_and_what_is_now() {
        assert_eq!(
            written(Format::Simple, |o| o.watch(&two_events())),
            "PUT\nwk\n2\nDELETE\nwk\n2\nwk\n\n"
        );
        assert_eq!(written(Format::Simple, |o| o.watch(&answer(vec![]))), "progress notify: 30\n");
    }

    #[test]
    fn watch_json_is_one_line_for_each_answer() {
        assert_eq!(
            written(Format::Json, |o| o.watch(&two_events())),
            concat!(
                r#"{"Header":{"cluster_id":7,"member_id":8,"revision":30,"raft_term":2},"Events":["#,
                r#"{"kv":{"key":"d2s=","create_revision":29,"mod_revision":29,"version":1,"value":"Mg=="}},"#,
                r#"{"type":1,"kv":{"key":"d2s=","mod_revision":30},"prev_kv":{"key":"d2s=","#,
                r#""create_revision":29,"mod_revision":29,"version":1,"value":"Mg=="}}],"#,
                r#""CompactRevision":0,"Canceled":false,"Created":false}"#,
                "\n"
            )
        );
    }
}
