//! At which times a job is due.
//!
//! A time at which a job is due names the slot, so all hosts must compute the same ones: from the same settings and from
//! clocks that roughly agree. A period counts from 1970-01-01T00:00:00Z, and a crontab's pattern is read in one time
//! zone, UTC unless another is named, whatever the host's own is.

use std::time::Duration;

use croner::Cron;
use croner::parser::{CronParser, Seconds};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Shorter ones could not be kept: claiming a slot takes several round trips.
const PERIOD_MIN: Duration = Duration::from_secs(1);
/// A host's clock may be so much behind the moment at which it was woken, unless another limit is set.
const SKEW_MAX: Duration = Duration::from_secs(30);

/// The times at which a job is due.
#[derive(Clone, Debug)]
pub(crate) enum Timetable {
    /// Once in each period.
    Every(Duration),
    /// As a crontab says.
    Cron { pattern: Box<Cron>, zone: TimeZone },
}

impl Timetable {
    /// Once in each period.
    pub(crate) fn every(period: Duration) -> Result<Timetable, String> {
        if period < PERIOD_MIN || period.subsec_nanos() != 0 {
            return Err(format!("{period:?} is not a period of whole seconds, one at least"));
        }
        Ok(Timetable::Every(period))
    }

    /// A crontab's five fields (or six, with seconds first), or `@daily` and the like.
    pub(crate) fn cron(pattern: &str, zone: Option<&str>) -> Result<Timetable, String> {
        let parser = CronParser::builder().seconds(Seconds::Optional).build();
        let cron = parser.parse(pattern).map_err(|error| {
            format!("{pattern:?} is no crontab pattern such as \"0 3 * * *\": {error}")
        })?;
        let zone = match zone {
            None => TimeZone::UTC,
            Some(name) => TimeZone::get(name)
                .map_err(|_| format!("there is no time zone {name:?}; try Europe/Berlin or UTC"))?,
        };
        let timetable = Timetable::Cron { pattern: Box::new(cron), zone };
        match timetable.next(Timestamp::now()) {
            Some(_) => Ok(timetable),
            None => Err(format!("{pattern:?} names a time that never comes")),
        }
    }

    /// The last time, by `now`, at which the job was due.
    pub(crate) fn latest(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Timetable::Every(period) => {
                let period = i64::try_from(period.as_secs()).ok()?;
                Timestamp::from_second(now.as_second().div_euclid(period) * period).ok()
            }
            Timetable::Cron { pattern, zone } => {
                let now: Zoned = now.to_zoned(zone.clone());
                Some(pattern.find_previous_occurrence(&now, true).ok()?.timestamp())
            }
        }
    }

    /// The first time after a moment at which the job is due.
    pub(crate) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Timetable::Every(period) => {
                let period = i64::try_from(period.as_secs()).ok()?;
                let turn = after.as_second().div_euclid(period).checked_add(1)?;
                Timestamp::from_second(turn.checked_mul(period)?).ok()
            }
            Timetable::Cron { pattern, zone } => {
                let after: Zoned = after.to_zoned(zone.clone());
                Some(pattern.find_next_occurrence(&after, false).ok()?.timestamp())
            }
        }
    }

    /// How far this host's clock may be behind, if nothing else is said: a tenth of the time between two slots, and no more
    /// than half a minute.
    pub(crate) fn usual_skew(&self, now: Timestamp) -> Duration {
        let between = || {
            let next = self.next(now)?;
            Duration::try_from(self.next(next)?.duration_since(next)).ok()
        };
        between().map_or(SKEW_MAX, |between| SKEW_MAX.min(between / 10))
    }
}

/// A time as all hosts write it.
pub(crate) fn utc(time: Timestamp) -> String {
    format!("{time:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn latest(timetable: &Timetable, now: &str) -> String {
        utc(timetable.latest(at(now)).unwrap())
    }

    #[test]
    fn period_begins_at_the_same_time_on_every_host() {
        let quarter = Timetable::every(Duration::from_secs(900)).unwrap();
        assert_eq!(latest(&quarter, "2026-11-18T03:14:59Z"), "2026-11-18T03:00:00Z");
        assert_eq!(latest(&quarter, "2026-11-18T03:15:00Z"), "2026-11-18T03:15:00Z");
        let day = Timetable::every(Duration::from_secs(86400)).unwrap();
        assert_eq!(latest(&day, "2026-11-18T23:59:59.9Z"), "2026-11-18T00:00:00Z");
        assert_eq!(utc(day.next(at("2026-11-18T00:00:00Z")).unwrap()), "2026-11-19T00:00:00Z");
        assert!(Timetable::every(Duration::from_millis(1500)).is_err());
    }

    #[test]
    fn pattern_is_read_in_its_time_zone() {
        let utc_night = Timetable::cron("0 3 * * *", None).unwrap();
        assert_eq!(latest(&utc_night, "2026-11-18T02:59:59Z"), "2026-11-17T03:00:00Z");
        assert_eq!(latest(&utc_night, "2026-11-18T03:00:00Z"), "2026-11-18T03:00:00Z");
        let night = Timetable::cron("0 3 * * *", Some("Europe/Berlin")).unwrap();
        assert_eq!(latest(&night, "2026-11-18T03:00:00Z"), "2026-11-18T02:00:00Z");
        assert_eq!(latest(&night, "2026-07-18T03:00:00Z"), "2026-07-18T01:00:00Z");
    }

    #[test]
    fn pattern_in_an_hour_that_is_left_out_or_comes_twice_is_due_once() {
        // Clocks went from 02:00 to 03:00 on 2026-03-29, and from 03:00 back to 02:00 on 2026-10-25.
        let night = Timetable::cron("30 2 * * *", Some("Europe/Berlin")).unwrap();
        for (from, to) in [
            ("2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z"),
            ("2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z"),
        ] {
            let mut due = Vec::new();
            let mut time = at(from);
            while let Some(next) = night.next(time).filter(|next| *next <= at(to)) {
                due.push(utc(next));
                time = next;
            }
            assert_eq!(due.len(), 1, "{due:?}");
            assert_eq!(latest(&night, to), due[0], "forwards and backwards are the same slot");
        }
    }

    #[test]
    fn pattern_that_cannot_be_read_is_refused_with_its_reason() {
        for bad in ["", "0 3 * *", "61 * * * *", "0 0 30 2 *"] {
            assert!(Timetable::cron(bad, None).is_err(), "{bad}");
        }
        assert!(Timetable::cron("@daily", None).is_ok());
        assert!(Timetable::cron("0 3 * * *", Some("Mars/Olympus")).is_err());
    }

    #[test]
    fn usual_skew_is_a_tenth_of_the_period_or_half_a_minute() {
        let now = at("2026-11-18T03:00:00Z");
        let every = |secs| Timetable::every(Duration::from_secs(secs)).unwrap().usual_skew(now);
        assert_eq!(every(10), Duration::from_secs(1));
        assert_eq!(every(86400), Duration::from_secs(30));
    }
}
