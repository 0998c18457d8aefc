//! A candidate of the recipe.

use std::time::Duration;

use tenure_replica::Moment;

use crate::{
    algorithms::{
        Setup,
        store::{
            Condition, STORE, SimStore, StoreClient, StoreEntry, StoreMessage, StoreOptions,
            StoreRequest, StoreResponse,
        },
    },
    engine::ms,
    stage::{
        Actor, AlgorithmRun, Context, ProcessId, ProcessRole, ProcessView, Stage, StorageGate,
    },
};

const ELECTION: &str = "/election/";

/// A notification may be lost: a waiting candidate looks again after this time.
const LOOK_AGAIN: Duration = ms(10_000);
/// The share by which a client counts its session as shorter: clocks do not run at the same rate.
const MARGIN: u32 = 100;
/// The time between the opening of a session and the creation of the key: an application has more to do at its start.
const WARM_UP: Duration = ms(1000);
/// By how much sooner each higher number is ready.
const WARM_UP_LESS: Duration = ms(100);
/// The time between the starts of two candidates.
const COME_AFTER: Duration = ms(10);

/// The token that a leader sends to the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenSource {
    Nothing,
    /// The revision in which its key was created.
    Created,
    /// The revision when its session was opened.
    Opened,
}

/// What differs between the recipes.
#[derive(Debug)]
pub(super) struct Recipe {
    pub(super) session: Duration,
    /// Whether it watches all keys, or the one before its own only.
    pub(super) herd: bool,
    /// Whether it looks for its own key before it believes to lead.
    pub(super) looks_for_itself: bool,
    pub(super) token: TokenSource,
    pub(super) gate: StorageGate,
    /// Whether there is other work between the opening of the session and the creation of the key.
    pub(super) warms_up: bool,
    /// Whether part of that work is a write to the store.
    pub(super) notes_down: bool,
    /// Whether a new server gives all sessions their whole TTL again.
    pub(super) sessions_anew: bool,
    /// A promise that is checked at each write: see the stories of tokens.
    pub(super) may_write: Option<&'static str>,
}

#[derive(Debug)]
pub(super) struct RecipeCandidate {
    recipe: &'static Recipe,
    /// One client for the keys, one for the session.
    client: StoreClient,
    session_client: StoreClient,
    role: ProcessRole,
    leader: Option<ProcessId>,
    session: Option<u64>,
    opened: u64,
    key: Option<StoreEntry>,
    asked: Moment,
    lasts_until: Moment,
}

impl RecipeCandidate {
    fn new(recipe: &'static Recipe) -> RecipeCandidate {
        RecipeCandidate {
            recipe,
            client: StoreClient::default(),
            session_client: StoreClient::default(),
            role: ProcessRole::Idle,
            leader: None,
            session: None,
            opened: 0,
            key: None,
            asked: Moment::ZERO,
            lasts_until: Moment::ZERO,
        }
    }

    fn ask(
        &mut self,
        purpose: &'static str,
        what: StoreRequest,
        context: &mut Context<'_, StoreMessage>,
    ) {
        self.client.request(context.named(STORE), purpose, what, context);
    }

    fn open(&mut self, context: &mut Context<'_, StoreMessage>) {
        self.role = ProcessRole::Candidate;
        self.asked = context.now();
        self.ask("open", StoreRequest::OpenSession { ttl: self.recipe.session }, context);
    }

    /// The session lasts from when the last keep-alive was *sent*.
    fn alive(&mut self, context: &mut Context<'_, StoreMessage>) {
        let lasts = self.recipe.session - self.recipe.session / MARGIN;
        self.lasts_until = self.asked + lasts;
        context.alarm("over", self.lasts_until.since(context.now()));
        context.alarm("session_client", self.recipe.session / 3);
    }

    fn keep_alive(&mut self, context: &mut Context<'_, StoreMessage>) {
        let Some(session) = self.session else { return };
        self.asked = context.now();
        let what = StoreRequest::KeepAlive { session };
        self.session_client.request_once(context.named(STORE), "keep alive", what, context);
        context.alarm("session_client", self.recipe.session / 3);
    }

    fn enter(&mut self, context: &mut Context<'_, StoreMessage>) {
        let Some(session) = self.session else { return };
        self.role = ProcessRole::Waiting;
        self.ask("enter", StoreRequest::Enter { under: ELECTION, session }, context);
    }

    fn list(&mut self, purpose: &'static str, context: &mut Context<'_, StoreMessage>) {
        self.ask(purpose, StoreRequest::List { under: ELECTION, watch: self.recipe.herd }, context);
    }

    fn listed(
        &mut self,
        purpose: &'static str,
        entries: &[StoreEntry],
        context: &mut Context<'_, StoreMessage>,
    ) {
        let Some(mine) = self.key.clone() else { return };
        self.leader = entries.first().map(|entry| entry.writer);
        let is_there = entries.iter().any(|entry| entry.created == mine.created);
        if self.recipe.looks_for_itself && !is_there {
            context.say("does not find its own key: its session is over");
            return self.start_over(context);
        }
        match entries.iter().rfind(|entry| entry.created < mine.created) {
            None => self.win(&mine, context),
            Some(_) if self.recipe.herd => context.alarm("again", LOOK_AGAIN),
            Some(before) => {
                let purpose = if purpose == "poll" { "poll" } else { "wait" };
                self.ask(
                    purpose,
                    StoreRequest::Look { key: before.key.clone(), watch: true },
                    context,
                );
            }
        }
    }

    fn win(&mut self, mine: &StoreEntry, context: &mut Context<'_, StoreMessage>) {
        if self.role == ProcessRole::Leader {
            return;
        }
        self.role = ProcessRole::Leader;
        self.leader = Some(context.me);
        context.cancel("again");
        context.lead(match self.recipe.token {
            TokenSource::Nothing => None,
            TokenSource::Created => Some(mine.created),
            TokenSource::Opened => Some(self.opened),
        });
    }

    fn start_over(&mut self, context: &mut Context<'_, StoreMessage>) {
        context.step_down();
        ["session_client", "over", "again"].into_iter().for_each(|alarm| context.cancel(alarm));
        let (client, session_client) =
            (std::mem::take(&mut self.client), std::mem::take(&mut self.session_client));
        *self = RecipeCandidate { client, session_client, ..RecipeCandidate::new(self.recipe) };
        self.open(context);
    }

    /// The server does not know the session any more. A candidate that only waits for its turn does not notice, if it never
    /// looks for its own key.
    fn session_over(&mut self, context: &mut Context<'_, StoreMessage>) {
        if self.role == ProcessRole::Leader || self.recipe.looks_for_itself {
            context.say("learns that its session is over");
            self.start_over(context);
        }
    }

    fn opened(&mut self, session: u64, revision: u64, context: &mut Context<'_, StoreMessage>) {
        (self.session, self.opened) = (Some(session), revision);
        self.alive(context);
        if self.recipe.notes_down {
            let me = context.name(context.me).to_owned();
            let when = Condition::Always;
            let note =
                StoreRequest::Put { key: "/members", value: me, when, ttl: None, stamp: None };
            self.ask("note", note, context);
        }
        if self.recipe.warms_up {
            context.alarm("ready", WARM_UP.saturating_sub(WARM_UP_LESS * context.me as u32));
        } else {
            self.enter(context);
        }
    }
}

impl Actor<StoreMessage> for RecipeCandidate {
    fn start(&mut self, context: &mut Context<'_, StoreMessage>) {
        *self = RecipeCandidate::new(self.recipe);
        context.alarm("come", COME_AFTER * context.me as u32);
    }

    fn receive(
        &mut self,
        _from: ProcessId,
        message: StoreMessage,
        context: &mut Context<'_, StoreMessage>,
    ) {
        match message {
            StoreMessage::Response { number, purpose: "keep alive", answer } => {
                match (self.session_client.accepts(number, context), answer) {
                    (true, StoreResponse::Kept) => self.alive(context),
                    (true, StoreResponse::Gone) => self.session_over(context),
                    _ => {}
                }
            }
            StoreMessage::Response { number, purpose, answer }
                if self.client.accepts(number, context) =>
            {
                match (purpose, answer) {
                    ("open", StoreResponse::Session { id, revision }) => {
                        self.opened(id, revision, context)
                    }
                    ("enter", StoreResponse::Done { now, .. }) => {
                        self.key = now;
                        self.list("list", context);
                    }
                    ("enter", _) => self.start_over(context),
                    ("list" | "poll", StoreResponse::Listed(entries)) => {
                        self.listed(purpose, &entries, context)
                    }
                    ("wait" | "poll", StoreResponse::Found(None)) => self.list("list", context),
                    ("wait" | "poll", StoreResponse::Found(_)) => {
                        context.alarm("again", LOOK_AGAIN)
                    }
                    _ => {}
                }
            }
            // A notification for its previous key would make it forget the request under way.
            StoreMessage::Changed { .. }
                if self.role == ProcessRole::Waiting && self.key.is_some() =>
            {
                context.detect();
                self.list("list", context);
            }
            _ => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, context: &mut Context<'_, StoreMessage>) {
        match alarm {
            "come" => self.open(context),
            "ready" => self.enter(context),
            "session_client" => self.keep_alive(context),
            "over" => self.session_over(context),
            "again" => self.list("poll", context),
            "answer" => match self.client.waits_for() {
                "enter" => self.enter(context),
                "list" | "poll" | "wait" => self.list("list", context),
                "note" => {}
                _ => self.open(context),
            },
            _ => {}
        }
    }

    fn written(&mut self, taken: bool, context: &mut Context<'_, StoreMessage>) {
        match (self.recipe.may_write, taken) {
            (Some(promise), true) => context.kept(promise),
            (Some(promise), false) if self.role == ProcessRole::Leader => {
                let how =
                    format!("what {} writes is refused, and it leads", context.name(context.me));
                context.broke(promise, how);
            }
            _ => {}
        }
    }

    fn stops_at(&self) -> Option<&'static str> {
        Some("over")
    }

    fn view(&self) -> ProcessView {
        let key = self.key.as_ref().map(|key| key.created);
        ProcessView::new(self.role)
            .leader(self.leader)
            .fact("session", self.session)
            .fact("key", key)
    }
}

pub(super) fn build(setup: &Setup, recipe: &'static Recipe) -> Box<dyn AlgorithmRun> {
    let mut stage = Stage::new(setup.seed, recipe.gate);
    for _ in 0..setup.contenders {
        stage.add_contender(RecipeCandidate::new(recipe));
    }
    let rules = StoreOptions { sessions_anew: recipe.sessions_anew, ..StoreOptions::default() };
    stage.add_server(STORE, SimStore::new(rules));
    Box::new(stage)
}
