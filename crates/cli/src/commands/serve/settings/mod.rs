//! The server's settings: where each may come from, and which one wins.
//!
//! [`table`] has a row for every setting. Flags, environment variables, keys of the configuration
//! file, `--help` and `--print-config` are all made from it. [`foreign`] has a row for every flag of
//! etcd's that this server does not need or must refuse. A value is text until [`read`] turns it into
//! a [`tenure_server::Config`], so that whatever is wrong, anywhere, is told at once.

mod environment;
mod file;
mod foreign;
mod given;
mod print;
mod read;
mod table;

use std::collections::BTreeMap;

pub(crate) use self::table::Flags;
use self::{
    foreign::{FOREIGN, Fate},
    given::{Given, Origin},
    table::{SETTINGS, Setting},
};
pub(super) use self::{
    print::print,
    read::{LogFormat, Logging, Serving},
};

/// Every setting that was given, with where it came from.
#[derive(Debug, Default)]
pub(super) struct Settings {
    given: BTreeMap<&'static str, Given>,
    /// What is to be said once at start.
    pub(super) warnings: Vec<String>,
    /// What makes starting impossible.
    pub(super) problems: Vec<String>,
}

impl Settings {
    /// Collects from file, environment and flags; each wins over the one before.
    pub(super) fn collect(
        flags: &Flags,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Settings {
        let mut settings = Settings::default();
        let environment: BTreeMap<String, String> =
            environment.filter(|(_, value)| !value.is_empty()).collect();
        let file = flags.config_file.clone().or_else(|| environment::config_file(&environment));
        if let Some(path) = file {
            file::collect(&path, &mut settings);
        }
        environment::collect(&environment, &mut settings);
        for (flag, text) in &flags.given {
            settings.take(flag, Given { text: text.clone(), origin: Origin::Flag });
        }
        settings.judge_foreign();
        settings
    }

    /// Takes a value under any of a setting's names. False if there is no such setting.
    fn take(&mut self, name: &str, given: Given) -> bool {
        let ours = SETTINGS.iter().find(|setting| setting.is_called(name)).map(|s| s.flag);
        let theirs = || FOREIGN.iter().find(|foreign| foreign.flag == name).map(|f| f.flag);
        let Some(flag) = ours.or_else(theirs) else { return false };
        self.given.insert(flag, given);
        true
    }

    /// Flags of etcd's that this server has no use for are named once; some must not be ignored.
    fn judge_foreign(&mut self) {
        for foreign in FOREIGN {
            let Some(given) = self.given.get(foreign.flag) else { continue };
            let place = given.origin.place(foreign.flag);
            match foreign.fate {
                Fate::Ignored => {
                    self.warnings.push(format!("{place} has no effect: {}", foreign.why));
                }
                Fate::Refused { unless } if !unless.contains(&&given.text[..]) => {
                    self.problems.push(format!("{place}: {}", foreign.why));
                }
                Fate::Refused { .. } => {}
            }
        }
    }

    /// The value in force, and where it came from.
    fn effective(&self, setting: &Setting) -> Given {
        match self.given.get(setting.flag) {
            Some(given) => given.clone(),
            None => Given { text: setting.default.text(self), origin: Origin::Default },
        }
    }

    /// The value in force of a setting that stands in the table.
    fn text(&self, flag: &str) -> String {
        self.effective(table::find(flag)).text
    }

    /// How a value's place is named to a person.
    fn place(&self, flag: &str) -> String {
        self.given.get(flag).map_or_else(|| format!("--{flag}"), |given| given.origin.place(flag))
    }
}

/// The known name that is most like this one, if any is.
fn similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const LIKE_ENOUGH: f64 = 0.8;
    known
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness > LIKE_ENOUGH)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// Every name that a setting may be given by.
fn all_names() -> impl Iterator<Item = &'static str> {
    let ours =
        SETTINGS.iter().flat_map(|s| std::iter::once(s.flag).chain(s.aliases.iter().copied()));
    ours.chain(FOREIGN.iter().map(|foreign| foreign.flag))
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;
