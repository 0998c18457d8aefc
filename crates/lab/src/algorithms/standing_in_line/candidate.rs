//! One who stands in line.

use std::time::Duration;

use tenure_replica::Moment;

use crate::{
    algorithms::{
        Setup,
        store::{Answer, Ask, Entry, Line, Rules, STORE, Say, Store, When},
    },
    engine::ms,
    stage::{Gate, NodeId, Part, Play, Program, Scene, Stage, View},
};

const ELECTION: &str = "/election/";

/// News may be lost: whoever waits looks again after this time.
const LOOK_AGAIN: Duration = ms(10_000);
/// A client counts its session as shorter by this share: clocks do not run equally fast.
const MARGIN: u32 = 100;
/// Between the opening of a session and standing in line: an application has more to do at its start.
const WARM_UP: Duration = ms(1000);
/// Those with higher numbers are ready so much sooner than the one before.
const WARM_UP_LESS: Duration = ms(100);
/// They come one after the other.
const COME_AFTER: Duration = ms(10);

/// What a leader shows to the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Nothing,
    /// The revision in which its key was made.
    Created,
    /// The revision at the time when its session was opened.
    Opened,
}

/// In what the recipes differ.
#[derive(Debug)]
pub(super) struct Recipe {
    pub(super) session: Duration,
    /// It waits for any change, or for the one before it only.
    pub(super) herd: bool,
    /// It looks for its own key before it believes to lead.
    pub(super) looks_for_itself: bool,
    pub(super) token: Token,
    pub(super) gate: Gate,
    /// Between the opening of their session and standing in line they have other things to do.
    pub(super) warms_up: bool,
    /// One of them is to note down in the store who they are.
    pub(super) notes_down: bool,
    /// A new server gives all sessions their whole time again.
    pub(super) sessions_anew: bool,
    /// Judged at each write: see the stories of tokens.
    pub(super) may_write: Option<&'static str>,
}

#[derive(Debug)]
pub(super) struct Candidate {
    recipe: &'static Recipe,
    /// One for the line, one for the session.
    line: Line,
    pulse: Line,
    part: Part,
    leader: Option<NodeId>,
    session: Option<u64>,
    opened: u64,
    key: Option<Entry>,
    asked: Moment,
    lasts_until: Moment,
}

impl Candidate {
    fn new(recipe: &'static Recipe) -> Candidate {
        Candidate {
            recipe,
            line: Line::default(),
            pulse: Line::default(),
            part: Part::Idle,
            leader: None,
            session: None,
            opened: 0,
            key: None,
            asked: Moment::ZERO,
            lasts_until: Moment::ZERO,
        }
    }

    fn ask(&mut self, purpose: &'static str, what: Ask, scene: &mut Scene<'_, Say>) {
        self.line.ask(scene.named(STORE), purpose, what, scene);
    }

    fn open(&mut self, scene: &mut Scene<'_, Say>) {
        self.part = Part::Candidate;
        self.asked = scene.now();
        self.ask("open", Ask::OpenSession { ttl: self.recipe.session }, scene);
    }

    /// The session lasts from when the last sign of life was *sent*.
    fn alive(&mut self, scene: &mut Scene<'_, Say>) {
        let lasts = self.recipe.session - self.recipe.session / MARGIN;
        self.lasts_until = self.asked + lasts;
        scene.alarm("over", self.lasts_until.since(scene.now()));
        scene.alarm("pulse", self.recipe.session / 3);
    }

    fn keep_alive(&mut self, scene: &mut Scene<'_, Say>) {
        let Some(session) = self.session else { return };
        self.asked = scene.now();
        let what = Ask::KeepAlive { session };
        self.pulse.ask_once(scene.named(STORE), "keep alive", what, scene);
        scene.alarm("pulse", self.recipe.session / 3);
    }

    fn enter(&mut self, scene: &mut Scene<'_, Say>) {
        let Some(session) = self.session else { return };
        self.part = Part::Waiting;
        self.ask("enter", Ask::Enter { under: ELECTION, session }, scene);
    }

    fn list(&mut self, purpose: &'static str, scene: &mut Scene<'_, Say>) {
        self.ask(purpose, Ask::List { under: ELECTION, watch: self.recipe.herd }, scene);
    }

    fn listed(&mut self, purpose: &'static str, entries: &[Entry], scene: &mut Scene<'_, Say>) {
        let Some(mine) = self.key.clone() else { return };
        self.leader = entries.first().map(|entry| entry.writer);
        let is_there = entries.iter().any(|entry| entry.created == mine.created);
        if self.recipe.looks_for_itself && !is_there {
            scene.say("does not find its own key: its session is over");
            return self.start_over(scene);
        }
        match entries.iter().rfind(|entry| entry.created < mine.created) {
            None => self.win(&mine, scene),
            Some(_) if self.recipe.herd => scene.alarm("again", LOOK_AGAIN),
            Some(before) => {
                let purpose = if purpose == "poll" { "poll" } else { "wait" };
                self.ask(purpose, Ask::Look { key: before.key.clone(), watch: true }, scene);
            }
        }
    }

    fn win(&mut self, mine: &Entry, scene: &mut Scene<'_, Say>) {
        if self.part == Part::Leader {
            return;
        }
        self.part = Part::Leader;
        self.leader = Some(scene.me);
        scene.cancel("again");
        scene.lead(match self.recipe.token {
            Token::Nothing => None,
            Token::Created => Some(mine.created),
            Token::Opened => Some(self.opened),
        });
    }

    fn start_over(&mut self, scene: &mut Scene<'_, Say>) {
        scene.step_down();
        ["pulse", "over", "again"].into_iter().for_each(|alarm| scene.cancel(alarm));
        let (line, pulse) = (std::mem::take(&mut self.line), std::mem::take(&mut self.pulse));
        *self = Candidate { line, pulse, ..Candidate::new(self.recipe) };
        self.open(scene);
    }

    /// The server does not know the session any more. Who only waits for its turn does not look at that,
    /// if it does not look for itself at all.
    fn session_over(&mut self, scene: &mut Scene<'_, Say>) {
        if self.part == Part::Leader || self.recipe.looks_for_itself {
            scene.say("learns that its session is over");
            self.start_over(scene);
        }
    }

    fn opened(&mut self, session: u64, revision: u64, scene: &mut Scene<'_, Say>) {
        (self.session, self.opened) = (Some(session), revision);
        self.alive(scene);
        if self.recipe.notes_down {
            let me = scene.name(scene.me).to_owned();
            let when = When::Always;
            let note = Ask::Put { key: "/members", value: me, when, ttl: None, stamp: None };
            self.ask("note", note, scene);
        }
        if self.recipe.warms_up {
            scene.alarm("ready", WARM_UP.saturating_sub(WARM_UP_LESS * scene.me as u32));
        } else {
            self.enter(scene);
        }
    }
}

impl Program<Say> for Candidate {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        *self = Candidate::new(self.recipe);
        scene.alarm("come", COME_AFTER * scene.me as u32);
    }

    fn receive(&mut self, _from: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        match word {
            Say::Answer { number, purpose: "keep alive", answer } => {
                match (self.pulse.hears(number, scene), answer) {
                    (true, Answer::Kept) => self.alive(scene),
                    (true, Answer::Gone) => self.session_over(scene),
                    _ => {}
                }
            }
            Say::Answer { number, purpose, answer } if self.line.hears(number, scene) => {
                match (purpose, answer) {
                    ("open", Answer::Session { id, revision }) => self.opened(id, revision, scene),
                    ("enter", Answer::Done { now, .. }) => {
                        self.key = now;
                        self.list("list", scene);
                    }
                    ("enter", _) => self.start_over(scene),
                    ("list" | "poll", Answer::Listed(entries)) => {
                        self.listed(purpose, &entries, scene)
                    }
                    ("wait" | "poll", Answer::Found(None)) => self.list("list", scene),
                    ("wait" | "poll", Answer::Found(_)) => scene.alarm("again", LOOK_AGAIN),
                    _ => {}
                }
            }
            // News for the key that it had before would make it forget that it asks for another.
            Say::Changed { .. } if self.part == Part::Waiting && self.key.is_some() => {
                scene.detect();
                self.list("list", scene);
            }
            _ => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, scene: &mut Scene<'_, Say>) {
        match alarm {
            "come" => self.open(scene),
            "ready" => self.enter(scene),
            "pulse" => self.keep_alive(scene),
            "over" => self.session_over(scene),
            "again" => self.list("poll", scene),
            "answer" => match self.line.waits_for() {
                "enter" => self.enter(scene),
                "list" | "poll" | "wait" => self.list("list", scene),
                "note" => {}
                _ => self.open(scene),
            },
            _ => {}
        }
    }

    fn written(&mut self, taken: bool, scene: &mut Scene<'_, Say>) {
        match (self.recipe.may_write, taken) {
            (Some(promise), true) => scene.kept(promise),
            (Some(promise), false) if self.part == Part::Leader => {
                let how = format!("what {} writes is refused, and it leads", scene.name(scene.me));
                scene.broke(promise, how);
            }
            _ => {}
        }
    }

    fn stops_at(&self) -> Option<&'static str> {
        Some("over")
    }

    fn view(&self) -> View {
        let key = self.key.as_ref().map(|key| key.created);
        View::new(self.part).leader(self.leader).fact("session", self.session).fact("key", key)
    }
}

pub(super) fn cast(setup: &Setup, recipe: &'static Recipe) -> Box<dyn Play> {
    let mut stage = Stage::new(setup.seed, recipe.gate);
    for _ in 0..setup.contenders {
        stage.contender(Candidate::new(recipe));
    }
    let rules = Rules { sessions_anew: recipe.sessions_anew, ..Rules::default() };
    stage.server(STORE, Store::new(rules));
    Box::new(stage)
}
