//! Fault scripts: parsing and printing.

use std::{fmt, str::FromStr, time::Duration};

use thiserror::Error;

use super::{Action, LinkFault, Target, read_span, write_span};

/// The most lines of a script.
const LINES_MAX: usize = 10_000;
/// The most bytes of a line.
const LINE_MAX: usize = 2_000;

/// One line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptStep {
    /// When, since the start of the run.
    pub at: Duration,
    pub action: Action,
    /// For how long; none for the rest of the run.
    pub lasts: Option<Duration>,
}

impl fmt::Display for ScriptStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} {}", write_span(self.at), self.action)?;
        match self.lasts {
            Some(lasts) => write!(f, " for {}", write_span(lasts)),
            None => Ok(()),
        }
    }
}

/// The faults of a run, in the order of the lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultScript {
    pub steps: Vec<ScriptStep>,
}

impl fmt::Display for FaultScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScriptError {
    #[error(
        "line {line}, column {column}: {why}\n  {text}\nexpected: {SCRIPT_LINE}; `tenure lab list` lists the faults"
    )]
    Line {
        line: usize,
        /// Where in the line, in characters from 1 on.
        column: usize,
        text: String,
        why: String,
    },
    #[error("a script has at most {LINES_MAX} lines")]
    TooLong,
}

/// The form of a line, for messages.
pub const SCRIPT_LINE: &str = "at TIME FAULT [for TIME], such as `at 5s pause a for 30s`";

/// A word of a line that cannot be read, and why. The word is a part of that line, so that its place can be told.
struct Unreadable<'a> {
    word: &'a str,
    why: String,
}

impl Unreadable<'_> {
    /// In characters from 1 on.
    fn column(&self, line: &str) -> usize {
        let before = (self.word.as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
        line.get(..before).map_or(0, |before| before.chars().count()) + 1
    }
}

fn unreadable(word: &str, why: impl Into<String>) -> Unreadable<'_> {
    Unreadable { word, why: why.into() }
}

impl FromStr for FaultScript {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<FaultScript, ScriptError> {
        let mut steps = vec![];
        for (number, whole) in text.lines().enumerate() {
            if number >= LINES_MAX {
                return Err(ScriptError::TooLong);
            }
            let line = whole.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let wrong = |wrong: Unreadable<'_>| ScriptError::Line {
                line: number + 1,
                column: wrong.column(whole),
                text: line.chars().take(120).collect(),
                why: wrong.why,
            };
            if line.len() > LINE_MAX {
                let why = format!("it is longer than {LINE_MAX} bytes");
                return Err(wrong(unreadable(line, why)));
            }
            steps.push(step(line).map_err(wrong)?);
        }
        Ok(FaultScript { steps })
    }
}

fn step(line: &str) -> Result<ScriptStep, Unreadable<'_>> {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    if words.first() != Some(&"at") || words.len() < 3 {
        return Err(unreadable(line, "it does not begin with `at TIME`"));
    }
    let at = span(words[1])?;
    let mut lasts = None;
    if let [.., "for", time] = words[..] {
        lasts = Some(span(time)?);
        words.truncate(words.len() - 2);
    }
    let (_, action) = words.split_at(2);
    if action.is_empty() {
        return Err(unreadable(line, "it names no fault"));
    }
    Ok(ScriptStep { at, action: self::action(action)?, lasts })
}

fn action<'a>(words: &[&'a str]) -> Result<Action, Unreadable<'a>> {
    Ok(match *words {
        ["crash", target] => Action::Crash(name(target)?),
        ["restart", target] => Action::Restart(name(target)?),
        ["pause", target] => Action::Pause(name(target)?),
        ["slow", target, "by", by] => Action::Slow(name(target)?, span(by)?),
        ["cut", from, "->", to] => Action::CutOneWay(name(from)?, name(to)?),
        ["cut", a, b] => Action::Cut(name(a)?, name(b)?),
        ["isolate", target] => Action::Isolate(name(target)?),
        ["split", ref groups @ ..] => Action::Split(split(words[0], groups)?),
        ["flap", a, b] => Action::Flap(name(a)?, name(b)?),
        ["reset", from, "->", to] => Action::ResetOneWay(name(from)?, name(to)?),
        ["reset", a, b] => Action::Reset(name(a)?, name(b)?),
        [what @ ("lose" | "duplicate" | "reorder" | "delay"), much] => {
            Action::Network(link_fault(what, much)?)
        }
        [what @ ("lose" | "duplicate" | "reorder"), from, "->", to, much]
        | [what @ "delay", from, "->", to, "by", much] => {
            Action::Link(name(from)?, name(to)?, link_fault(what, much)?)
        }
        ["clock", target, "jumps", by] => {
            let (sign, span_text) = match by.split_at_checked(1) {
                Some(("+", by)) => (1, by),
                Some(("-", by)) => (-1, by),
                _ => return Err(unreadable(by, format!("{by} needs a + or a -"))),
            };
            Action::ClockJumps(name(target)?, sign * span(span_text)?.as_micros() as i64)
        }
        ["clock", target, "drifts", share] => {
            let ppm = fraction(share, 4)?;
            if !(-900_000..=9_000_000).contains(&ppm) {
                let why = format!("{share} is not a rate that a clock can have");
                return Err(unreadable(share, why));
            }
            Action::ClockDrifts(name(target)?, ppm)
        }
        ["disk", target, "slows"] => Action::DiskSlows(name(target)?),
        ["disk", target, "slows", "by", range] => {
            Action::DiskSlowsBy(name(target)?, span_range(range)?)
        }
        ["disk", target, "stalls"] => Action::DiskStalls(name(target)?),
        ["disk", target, "fills"] => Action::DiskFills(name(target)?),
        ["disk", target, "fails"] => Action::DiskFails(name(target)?),
        ["disk", target, "rots"] => Action::DiskRots(name(target)?),
        ["power", target, "fails"] => Action::PowerFails(name(target)?),
        ["disk", target, "misplaces"] => Action::DiskMisplaces(name(target)?),
        ["snapshots", "fail"] => Action::SnapshotsFail,
        ["hand", "over"] => Action::HandOver,
        ["heal"] => Action::Heal,
        _ => {
            let why = format!("there is no such fault: {}", words.join(" "));
            return Err(unreadable(words.first().copied().unwrap_or_default(), why));
        }
    })
}

fn link_fault<'a>(what: &str, much: &'a str) -> Result<LinkFault, Unreadable<'a>> {
    Ok(match what {
        "lose" => LinkFault::Lose(per_mille(much)?),
        "duplicate" => LinkFault::Duplicate(per_mille(much)?),
        "reorder" => LinkFault::Reorder(per_mille(much)?),
        _ => {
            let (low, high) = span_range(much)?;
            LinkFault::Delay(low, high)
        }
    })
}

fn span(text: &str) -> Result<Duration, Unreadable<'_>> {
    let why = || unreadable(text, format!("{text} is not a time, such as 30s, 1.5s or 250ms"));
    read_span(text).ok_or_else(why)
}

/// A time, or a range of times.
fn span_range(range: &str) -> Result<(Duration, Duration), Unreadable<'_>> {
    let (low, high) = range.split_once("..").unwrap_or((range, range));
    let (low, high) = (span(low)?, span(high)?);
    if low > high {
        return Err(unreadable(range, format!("{range} ends before it begins")));
    }
    Ok((low, high))
}

fn name(text: &str) -> Result<Target, Unreadable<'_>> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match text {
        "leader" => Ok(Target::Leader),
        "all" => Ok(Target::All),
        _ if !text.is_empty() && text.chars().all(plain) => Ok(Target::Named(text.into())),
        _ => Err(unreadable(text, format!("{text} is not a name"))),
    }
}

fn split<'a>(verb: &'a str, words: &[&'a str]) -> Result<Vec<Vec<String>>, Unreadable<'a>> {
    let mut groups: Vec<Vec<String>> = vec![vec![]];
    for word in words {
        match *word {
            "|" => groups.push(vec![]),
            word => match name(word)? {
                Target::Named(name) => groups.last_mut().expect("there is one").push(name),
                target => {
                    let why = format!("{target} cannot be split: name the members");
                    return Err(unreadable(word, why));
                }
            },
        }
    }
    if groups.len() < 2 || groups.iter().any(Vec::is_empty) {
        return Err(unreadable(verb, "a split has groups, such as `a b | c`"));
    }
    Ok(groups)
}

/// A share as `20%` or `0.5%`.
fn per_mille(text: &str) -> Result<u64, Unreadable<'_>> {
    let share = fraction(text, 1)?;
    let share = u64::try_from(share).ok().filter(|share| *share <= 1000);
    share.ok_or_else(|| unreadable(text, format!("{text} is not a share")))
}

/// A percentage, times ten to the power of `digits`.
fn fraction(text: &str, digits: usize) -> Result<i64, Unreadable<'_>> {
    let wrong = || {
        let why =
            format!("{text} is not a percentage with at most {digits} digits after the point");
        unreadable(text, why)
    };
    let number = text.strip_suffix('%').ok_or_else(wrong)?;
    let (sign, number) = match number.strip_prefix('-') {
        Some(number) => (-1, number),
        None => (1, number),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |text: &str| text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(part) || part.len() > digits {
        return Err(wrong());
    }
    let padded = format!("{whole}{part:0<digits$}");
    padded.parse::<i64>().map(|number| sign * number).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERYTHING: &str = "\
at 5s pause a for 30s
at 1.5s crash leader for 2s
at 2s restart all
at 2s slow b by 20ms for 5s
at 3s cut a b for 1s
at 3s cut a -> b
at 3s isolate leader for 4s
at 4s split a b | c d e for 10s
at 4s flap a c for 3s
at 5s reset a b
at 5s reset a -> leader
at 6s lose 12.5% for 10s
at 6s duplicate 10% for 10s
at 6s reorder 100% for 10s
at 6s delay 50ms..200ms for 10s
at 6s lose a -> b 30% for 10s
at 6s duplicate leader -> all 0.5% for 10s
at 6s reorder b -> a 100%
at 6s delay a -> b by 40ms..60ms for 10s
at 6s delay all -> all by 1ms..1ms
at 7s clock a jumps +1h
at 7s clock a jumps -1.5s
at 7s clock a drifts -0.02%
at 7s clock a drifts 5%
at 8s disk a slows for 1s
at 8s disk a slows by 30ms..80.5ms for 1s
at 8s disk a stalls for 1s
at 8s disk a fills for 1s
at 8s disk a fails
at 8s disk a rots for 1s
at 8s disk a misplaces for 1s
at 8s power a fails for 1s
at 9s snapshots fail for 2s
at 9s hand over
at 10s heal
";

    #[test]
    fn script_survives_reading_and_writing() {
        let script: FaultScript = EVERYTHING.parse().unwrap();
        assert_eq!(script.steps.len(), 35);
        assert_eq!(script.to_string(), EVERYTHING);
    }

    #[test]
    fn script_takes_one_time_for_a_range_of_that_length() {
        let short: FaultScript =
            "at 1s delay a -> b by 40ms\nat 1s disk a slows by 30ms".parse().unwrap();
        let long = "at 1s delay a -> b by 40ms..40ms\nat 1s disk a slows by 30ms..30ms\n";
        assert_eq!(short.to_string(), long);
    }

    #[test]
    fn script_ignores_comments_and_empty_lines() {
        let script: FaultScript = "\n# a story\n  at 1s heal # at last\n\n".parse().unwrap();
        assert_eq!(script.to_string(), "at 1s heal\n");
    }

    #[test]
    fn script_errors_name_their_line_and_column() {
        for (text, column) in [
            ("at 5 pause a", 4),
            ("  at 5s  explode a", 10),
            ("at 5s pause a for ever", 19),
            ("at 5s clock a jumps 5s", 21),
            ("at 5s # cut a b", 1),
        ] {
            let error = text.parse::<FaultScript>().unwrap_err();
            assert!(
                matches!(error, ScriptError::Line { column: at, .. } if at == column),
                "{error}"
            );
        }
        for (text, expected) in [
            ("at 1s explode a", "no such fault: explode a"),
            ("pause a", "does not begin with `at TIME`"),
            ("at 5 pause a", "5 is not a time"),
            ("at 5s pause a for ever", "ever is not a time"),
            ("at 5s lose 200%", "200% is not a share"),
            ("at 5s split a b", "a split has groups"),
            ("at 5s clock a jumps 5s", "needs a + or a -"),
            ("at 5s delay 9s..1s", "ends before it begins"),
            ("at 5s cut a", "no such fault: cut a"),
            ("at 5s delay a -> b 5ms..9ms", "no such fault: delay a -> b 5ms..9ms"),
            ("at 5s delay a -> b by 9ms..5ms", "ends before it begins"),
            ("at 5s delay a -> b by 5", "5 is not a time"),
            ("at 5s lose a -> b 101%", "101% is not a share"),
            ("at 5s lose a -> b/c 10%", "b/c is not a name"),
            ("at 5s reset a -> b c", "no such fault: reset a -> b c"),
            ("at 5s disk a slows by 50", "50 is not a time"),
        ] {
            let error =
                format!("at 1s heal\n{text}").parse::<FaultScript>().unwrap_err().to_string();
            assert!(error.starts_with("line 2, column ") && error.contains(expected), "{error}");
        }
    }
}
