//! A shipped replica that serves contenders on streams, as the server does.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;
use tenure_replica::{
    Input, Request, RequestId, Role,
    command::{Command, LineCommand},
    queue::listeners::{LineInput, Listener},
};

use super::{
    super::raft::House,
    ELECTION,
    word::{Say, Told},
};
use crate::cluster::lines;
use crate::stage::{NodeId, Part, Program, Scene, View};

pub(super) struct Server {
    house: House,
    requests: u64,
    asked: BTreeMap<RequestId, (NodeId, u64, u64)>,
    streams: BTreeMap<NodeId, Stream>,
}

/// One contender's connection: what is said on it is heard in order, or not at all.
#[derive(Debug)]
struct Stream {
    number: u64,
    said: u64,
}

impl Stream {
    /// Its session is heard under one number, the election under the other.
    fn listeners(&self) -> [Listener; 2] {
        [2 * self.number, 2 * self.number + 1]
    }
}

impl Server {
    pub(super) fn new(house: House) -> Server {
        Server { house, requests: 0, asked: BTreeMap::new(), streams: BTreeMap::new() }
    }

    fn call(&mut self, inputs: Vec<Input>, scene: &mut Scene<'_, Say>) {
        let mut effects = self.house.call(inputs, scene);
        // News come before answers: see `Effects::lines`.
        for (listener, news) in std::mem::take(&mut effects.lines) {
            let client = self.streams.iter().find(|(_, s)| s.listeners().contains(&listener));
            let Some(client) = client.map(|(client, _)| *client) else { continue };
            self.tell(client, Told::News(news), scene);
        }
        for answer in std::mem::take(&mut effects.answers) {
            let Some((client, stream, number)) = self.asked.remove(&answer.to) else { continue };
            if self.streams.get(&client).is_some_and(|open| open.number == stream) {
                let result = Box::new(answer.result);
                self.tell(client, Told::Answer { number, result }, scene);
            }
        }
        self.house.carry_out(effects, scene, Say::peer);
    }

    fn tell(&mut self, client: NodeId, what: Told, scene: &mut Scene<'_, Say>) {
        let Some(stream) = self.streams.get_mut(&client) else { return };
        stream.said += 1;
        let (number, nth) = (stream.number, stream.said);
        scene.send(client, Say::Tell { stream: number, nth, what });
    }

    /// A contender's connection is gone, or it has another.
    fn hang_up(&mut self, client: NodeId) -> Vec<Input> {
        let stream = self.streams.remove(&client);
        let listeners = stream.iter().flat_map(Stream::listeners);
        listeners.map(|listener| Input::Line(LineInput::Close(listener))).collect()
    }

    fn ask(
        &mut self,
        client: NodeId,
        (stream, number): (u64, u64),
        command: Command,
    ) -> Vec<Input> {
        let mut inputs = vec![];
        if let Command::Line(LineCommand::Open { id, by, .. } | LineCommand::Attach { id, by }) =
            command
            && self.streams.get(&client).is_none_or(|open| open.number < stream)
        {
            inputs = self.hang_up(client);
            let stream = Stream { number: stream, said: 0 };
            let [session, election] = stream.listeners();
            self.streams.insert(client, stream);
            let attach = LineInput::Attach { listener: session, session: id, by };
            let name = Bytes::from_static(ELECTION);
            let observe = LineInput::Observe { listener: election, name, after: None };
            inputs.extend([Input::Line(attach), Input::Line(observe)]);
        }
        self.requests += 1;
        self.asked.insert(self.requests, (client, stream, number));
        inputs.push(Input::Request(self.requests, Request::Write(command)));
        inputs
    }

    fn is_peer(&self, scene: &Scene<'_, Say>, other: NodeId) -> bool {
        !scene.contenders().any(|contender| contender == other)
    }
}

impl Program<Say> for Server {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        self.asked.clear();
        self.streams.clear();
        self.house.start(scene);
        self.call(vec![Input::Wake], scene);
    }

    fn receive(&mut self, from: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        let inputs = match word {
            Say::Peer(word) => vec![Input::Message(self.house.id(from), word.0)],
            Say::Ask { stream, number, command } => self.ask(from, (stream, number), command),
            Say::Tell { .. } => return,
        };
        self.call(inputs, scene);
    }

    fn ring(&mut self, alarm: &'static str, scene: &mut Scene<'_, Say>) {
        let inputs = self.house.ring(alarm);
        self.call(inputs, scene);
    }

    fn opened(&mut self, to: NodeId, scene: &mut Scene<'_, Say>) {
        if self.is_peer(scene, to) {
            self.call(vec![Input::Connected(self.house.id(to))], scene);
        }
    }

    fn closed(&mut self, by: NodeId, scene: &mut Scene<'_, Say>) {
        let inputs = if self.is_peer(scene, by) {
            vec![Input::Lost(self.house.id(by))]
        } else {
            self.hang_up(by)
        };
        self.call(inputs, scene);
    }

    /// As this server has applied the log.
    fn lines(&self) -> Option<(String, Value)> {
        let state = self.house.replica()?.state();
        let line = state.queues.line(ELECTION);
        let places = line.iter().flat_map(|line| line.places());
        let sessions = places.filter_map(|place| state.queues.session(place.session()?));
        let names: Vec<&str> = sessions.map(|session| session.identity.as_str()).collect();
        let text = match names[..] {
            [] => "has nobody in line".to_owned(),
            _ => format!("has in line {}", names.join(", ")),
        };
        Some((format!("{text}; open sessions: {}", state.leases.len()), lines(state, |_| None)))
    }

    fn view(&self) -> View {
        let Some(status) = self.house.replica().map(tenure_replica::Replica::status) else {
            return View::new(Part::Server);
        };
        let raft = match status.role {
            Role::Follower => "follows",
            Role::Candidate => "asks for votes",
            Role::Leader => "leads the log",
        };
        View::new(Part::Server).term(status.term.0).fact("raft", raft)
    }
}
