//! A script: its lines, read and written.

use std::{fmt, str::FromStr, time::Duration};

use thiserror::Error;

use super::{Action, Who, read_span, write_span};

/// So many lines and no more.
const LINES_MAX: usize = 10_000;
/// A line is not longer.
const LINE_MAX: usize = 2_000;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When, since the start of the run.
    pub at: Duration,
    pub action: Action,
    /// For how long; for ever, if not said.
    pub lasts: Option<Duration>,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} {}", write_span(self.at), self.action)?;
        match self.lasts {
            Some(lasts) => write!(f, " for {}", write_span(lasts)),
            None => Ok(()),
        }
    }
}

/// What goes wrong in a run, in the order of the lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    pub steps: Vec<Step>,
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScriptError {
    #[error(
        "line {line}: {why}\n  {text}\nexpected: at TIME BLOW [for TIME], such as `at 5s pause a for 30s`; `tenure lab list` names the blows"
    )]
    Line { line: usize, text: String, why: String },
    #[error("a script has at most {LINES_MAX} lines")]
    TooLong,
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Script, ScriptError> {
        let mut steps = vec![];
        for (number, line) in text.lines().enumerate() {
            if number >= LINES_MAX {
                return Err(ScriptError::TooLong);
            }
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let shown = line.chars().take(120).collect();
            let wrong = |why| ScriptError::Line { line: number + 1, text: shown, why };
            if line.len() > LINE_MAX {
                return Err(wrong(format!("it is longer than {LINE_MAX} bytes")));
            }
            steps.push(step(line).map_err(wrong)?);
        }
        Ok(Script { steps })
    }
}

fn step(line: &str) -> Result<Step, String> {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    if words.first() != Some(&"at") || words.len() < 3 {
        return Err("it does not begin with `at TIME`".into());
    }
    let at = span(words[1])?;
    let mut lasts = None;
    if let [.., "for", time] = words[..] {
        lasts = Some(span(time)?);
        words.truncate(words.len() - 2);
    }
    Ok(Step { at, action: action(&words[2..])?, lasts })
}

fn action(words: &[&str]) -> Result<Action, String> {
    Ok(match *words {
        ["crash", who] => Action::Crash(name(who)?),
        ["restart", who] => Action::Restart(name(who)?),
        ["pause", who] => Action::Pause(name(who)?),
        ["slow", who, "by", by] => Action::Slow(name(who)?, span(by)?),
        ["cut", from, "->", to] => Action::CutOneWay(name(from)?, name(to)?),
        ["cut", a, b] => Action::Cut(name(a)?, name(b)?),
        ["isolate", who] => Action::Isolate(name(who)?),
        ["split", ref groups @ ..] => Action::Split(split(groups)?),
        ["flap", a, b] => Action::Flap(name(a)?, name(b)?),
        ["reset", a, b] => Action::Reset(name(a)?, name(b)?),
        ["lose", share] => Action::Lose(per_mille(share)?),
        ["duplicate", share] => Action::Duplicate(per_mille(share)?),
        ["reorder", share] => Action::Reorder(per_mille(share)?),
        ["delay", range] => {
            let (low, high) = range.split_once("..").unwrap_or((range, range));
            let (low, high) = (span(low)?, span(high)?);
            if low > high {
                return Err(format!("{range} ends before it begins"));
            }
            Action::Delay(low, high)
        }
        ["clock", who, "jumps", by] => {
            let (sign, by) = match by.split_at_checked(1) {
                Some(("+", by)) => (1, by),
                Some(("-", by)) => (-1, by),
                _ => return Err(format!("{by} needs a + or a -")),
            };
            Action::ClockJumps(name(who)?, sign * span(by)?.as_micros() as i64)
        }
        ["clock", who, "drifts", share] => {
            let ppm = fraction(share, 4)?;
            if !(-900_000..=9_000_000).contains(&ppm) {
                return Err(format!("{share} is no rate that a clock could have"));
            }
            Action::ClockDrifts(name(who)?, ppm)
        }
        ["disk", who, "slows"] => Action::DiskSlows(name(who)?),
        ["disk", who, "stalls"] => Action::DiskStalls(name(who)?),
        ["disk", who, "fills"] => Action::DiskFills(name(who)?),
        ["disk", who, "fails"] => Action::DiskFails(name(who)?),
        ["snapshots", "fail"] => Action::SnapshotsFail,
        ["hand", "over"] => Action::HandOver,
        ["heal"] => Action::Heal,
        _ => return Err(format!("there is no such blow: {}", words.join(" "))),
    })
}

fn span(text: &str) -> Result<Duration, String> {
    read_span(text).ok_or_else(|| format!("{text} is no time, such as 30s, 1.5s or 250ms"))
}

fn name(text: &str) -> Result<Who, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match text {
        "leader" => Ok(Who::Leader),
        "all" => Ok(Who::All),
        _ if !text.is_empty() && text.chars().all(plain) => Ok(Who::Named(text.into())),
        _ => Err(format!("{text} is no name")),
    }
}

fn split(words: &[&str]) -> Result<Vec<Vec<String>>, String> {
    let mut groups: Vec<Vec<String>> = vec![vec![]];
    for word in words {
        match *word {
            "|" => groups.push(vec![]),
            word => match name(word)? {
                Who::Named(name) => groups.last_mut().expect("there is one").push(name),
                who => return Err(format!("{who} cannot be split: name the members")),
            },
        }
    }
    if groups.len() < 2 || groups.iter().any(Vec::is_empty) {
        return Err("a split has groups, such as `a b | c`".into());
    }
    Ok(groups)
}

/// A share as `20%` or `0.5%`.
fn per_mille(text: &str) -> Result<u64, String> {
    let share = fraction(text, 1)?;
    u64::try_from(share).ok().filter(|share| *share <= 1000).ok_or(format!("{text} is no share"))
}

/// A percentage, times ten to the power of `digits`.
fn fraction(text: &str, digits: usize) -> Result<i64, String> {
    let wrong = || format!("{text} is no percentage with at most {digits} digits after the point");
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
at 6s lose 12.5% for 10s
at 6s duplicate 10% for 10s
at 6s reorder 100% for 10s
at 6s delay 50ms..200ms for 10s
at 7s clock a jumps +1h
at 7s clock a jumps -1.5s
at 7s clock a drifts -0.02%
at 7s clock a drifts 5%
at 8s disk a slows for 1s
at 8s disk a stalls for 1s
at 8s disk a fills for 1s
at 8s disk a fails
at 9s snapshots fail for 2s
at 9s hand over
at 10s heal
";

    #[test]
    fn what_is_read_is_written_as_it_was() {
        let script: Script = EVERYTHING.parse().unwrap();
        assert_eq!(script.steps.len(), 25);
        assert_eq!(script.to_string(), EVERYTHING);
    }

    #[test]
    fn comments_and_empty_lines_say_nothing() {
        let script: Script = "\n# a story\n  at 1s heal # at last\n\n".parse().unwrap();
        assert_eq!(script.to_string(), "at 1s heal\n");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, expected) in [
            ("at 1s explode a", "no such blow: explode a"),
            ("pause a", "does not begin with `at TIME`"),
            ("at 5 pause a", "5 is no time"),
            ("at 5s pause a for ever", "ever is no time"),
            ("at 5s lose 200%", "200% is no share"),
            ("at 5s split a b", "a split has groups"),
            ("at 5s clock a jumps 5s", "needs a + or a -"),
            ("at 5s delay 9s..1s", "ends before it begins"),
            ("at 5s cut a", "no such blow: cut a"),
        ] {
            let error = format!("at 1s heal\n{text}").parse::<Script>().unwrap_err().to_string();
            assert!(error.starts_with("line 2: ") && error.contains(expected), "{error}");
        }
    }
}
