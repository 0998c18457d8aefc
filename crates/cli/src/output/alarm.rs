//! Alarms.

use std::io::Write;

use serde::Serialize;
use tenure::api::wire::etcdserverpb as pb;

use super::json::{Header, is_zero};
use super::{Format, Output, fields, no_table};

#[derive(Serialize)]
struct Alarms {
    header: Header,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    alarms: Vec<Alarm>,
}

#[derive(Serialize)]
struct Alarm {
    #[serde(rename = "memberID", skip_serializing_if = "is_zero")]
    member_id: u64,
    #[serde(skip_serializing_if = "is_zero")]
    alarm: i32,
}

impl<W: Write> Output<W> {
    /// Writes alarms.
    pub(crate) fn alarms(&mut self, response: &pb::AlarmResponse) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => {
                for alarm in &response.alarms {
                    let kind = alarm.alarm().as_str_name();
                    // The space at the end is Go's, and scripts have seen it for years.
                    writeln!(self.out, "memberID:{} alarm:{kind} ", alarm.member_id)?;
                }
            }
            Format::Fields => {
                fields::header(&mut self.out, response.header.as_ref())?;
                for alarm in &response.alarms {
                    fields::field(&mut self.out, "MemberID", alarm.member_id)?;
                    fields::field(&mut self.out, "AlarmType", alarm.alarm().as_str_name())?;
                    writeln!(self.out)?;
                }
            }
            Format::Json => self.json(&Alarms {
                header: Header::of(response.header.as_ref()),
                alarms: response
                    .alarms
                    .iter()
                    .map(|alarm| Alarm { member_id: alarm.member_id, alarm: alarm.alarm })
                    .collect(),
            })?,
            Format::Table => return Err(no_table()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden::{header, written};
    use super::*;

    #[test]
    fn alarm_output_is_in_etcdctls_words() {
        let alarms = pb::AlarmResponse {
            header: header(9),
            alarms: vec![pb::AlarmMember { member_id: 8, alarm: pb::AlarmType::Nospace.into() }],
        };
        assert_eq!(written(Format::Simple, |o| o.alarms(&alarms)), "memberID:8 alarm:NOSPACE \n");
        assert_eq!(
            written(Format::Json, |o| o.alarms(&alarms)),
            concat!(
                r#"{"header":{"cluster_id":7,"member_id":8,"revision":9,"raft_term":2},"#,
                r#""alarms":[{"memberID":8,"alarm":1}]}"#,
                "\n"
            )
        );
    }
}
