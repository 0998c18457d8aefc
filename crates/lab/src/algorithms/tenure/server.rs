//! A shipped replica that serves contenders on streams, as the server does.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;
use tenure_api::Principal;
use tenure_replica::{
    Input, Operation, RaftRole, Request, RequestId,
    command::{Command, ElectionCommand},
    election::listeners::{Listener, ListenerInput},
};

use super::{
    super::raft::StageMember,
    ELECTION,
    message::{StreamMessage, TenureMessage},
};
use crate::cluster::elections;
use crate::stage::{Actor, Context, ProcessId, ProcessRole, ProcessView};

pub(super) struct TenureServer {
    host: StageMember,
    requests: u64,
    asked: BTreeMap<RequestId, (ProcessId, u64, u64)>,
    streams: BTreeMap<ProcessId, Stream>,
}

/// One contender's connection: its messages arrive in order, or not at all.
#[derive(Debug)]
struct Stream {
    number: u64,
    said: u64,
}

impl Stream {
    /// The listeners of its session and of the election.
    fn listeners(&self) -> [Listener; 2] {
        [2 * self.number, 2 * self.number + 1]
    }
}

impl TenureServer {
    pub(super) fn new(host: StageMember) -> TenureServer {
        TenureServer { host, requests: 0, asked: BTreeMap::new(), streams: BTreeMap::new() }
    }

    fn call(&mut self, inputs: Vec<Input>, context: &mut Context<'_, TenureMessage>) {
        let mut effects = self.host.call(inputs, context);
        // Events come before answers: see `Effects::elections`.
        for (listener, news) in std::mem::take(&mut effects.elections) {
            let client = self.streams.iter().find(|(_, s)| s.listeners().contains(&listener));
            let Some(client) = client.map(|(client, _)| *client) else { continue };
            self.tell(client, StreamMessage::News(news), context);
        }
        for answer in std::mem::take(&mut effects.answers) {
            let Some((client, stream, number)) = self.asked.remove(&answer.to) else { continue };
            if self.streams.get(&client).is_some_and(|open| open.number == stream) {
                let result = Box::new(answer.result);
                self.tell(client, StreamMessage::Answer { number, result }, context);
            }
        }
        self.host.carry_out(effects, context, TenureMessage::peer);
    }

    fn tell(
        &mut self,
        client: ProcessId,
        what: StreamMessage,
        context: &mut Context<'_, TenureMessage>,
    ) {
        let Some(stream) = self.streams.get_mut(&client) else { return };
        stream.said += 1;
        let (number, nth) = (stream.number, stream.said);
        context.send(client, TenureMessage::Tell { stream: number, nth, what });
    }

    /// A contender's connection is gone, or replaced by another.
    fn hang_up(&mut self, client: ProcessId) -> Vec<Input> {
        let stream = self.streams.remove(&client);
        let listeners = stream.iter().flat_map(Stream::listeners);
        listeners
            .map(|listener| Input::Election(Principal::Anonymous, ListenerInput::Close(listener)))
            .collect()
    }

    fn ask(
        &mut self,
        client: ProcessId,
        (stream, number): (u64, u64),
        command: Command,
    ) -> Vec<Input> {
        let mut inputs = vec![];
        if let Command::Election(
            ElectionCommand::Open { id, by, .. } | ElectionCommand::Attach { id, by, .. },
        ) = command
            && self.streams.get(&client).is_none_or(|open| open.number < stream)
        {
            inputs = self.hang_up(client);
            let stream = Stream { number: stream, said: 0 };
            let [session, election] = stream.listeners();
            self.streams.insert(client, stream);
            let attach = ListenerInput::Attach { listener: session, session: id, by };
            let name = Bytes::from_static(ELECTION);
            let observe = ListenerInput::Observe { listener: election, name, after: None };
            inputs.extend(
                [attach, observe].map(|input| Input::Election(Principal::Anonymous, input)),
            );
        }
        self.requests += 1;
        self.asked.insert(self.requests, (client, stream, number));
        inputs.push(Input::Request(self.requests, Request::anonymous(Operation::Write(command))));
        inputs
    }

    fn is_peer(&self, context: &Context<'_, TenureMessage>, other: ProcessId) -> bool {
        !context.contenders().any(|contender| contender == other)
    }
}

impl Actor<TenureMessage> for TenureServer {
    fn start(&mut self, context: &mut Context<'_, TenureMessage>) {
        self.asked.clear();
        self.streams.clear();
        self.host.start(context);
        self.call(vec![Input::Wake], context);
    }

    fn receive(
        &mut self,
        from: ProcessId,
        message: TenureMessage,
        context: &mut Context<'_, TenureMessage>,
    ) {
        let inputs = match message {
            TenureMessage::Peer(message) => vec![self.host.arrived(from, message.0, context.now())],
            TenureMessage::SessionRequest { stream, number, command } => {
                self.ask(from, (stream, number), command)
            }
            TenureMessage::Tell { .. } => return,
        };
        self.call(inputs, context);
    }

    fn ring(&mut self, alarm: &'static str, context: &mut Context<'_, TenureMessage>) {
        let inputs = self.host.ring(alarm);
        self.call(inputs, context);
    }

    fn opened(&mut self, to: ProcessId, context: &mut Context<'_, TenureMessage>) {
        if self.is_peer(context, to) {
            self.call(vec![self.host.connection(to, true)], context);
        }
    }

    fn closed(&mut self, by: ProcessId, context: &mut Context<'_, TenureMessage>) {
        let inputs = if self.is_peer(context, by) {
            vec![self.host.connection(by, false)]
        } else {
            self.hang_up(by)
        };
        self.call(inputs, context);
    }

    /// The elections and leases, as this server has applied the log.
    fn elections(&self) -> Option<(String, Value)> {
        let state = self.host.replica()?.state();
        let election = state.elections.election(ELECTION);
        let candidacies = election.iter().flat_map(|election| election.candidates());
        let sessions =
            candidacies.filter_map(|candidate| state.elections.session(candidate.session()?));
        let names: Vec<&str> = sessions.map(|session| session.identity.as_str()).collect();
        let text = match names[..] {
            [] => "has no candidates".to_owned(),
            _ => format!("has the candidates {}", names.join(", ")),
        };
        Some((format!("{text}; open sessions: {}", state.leases.len()), elections(state, |_| None)))
    }

    fn view(&self) -> ProcessView {
        let Some(status) = self.host.replica().map(tenure_replica::Replica::status) else {
            return ProcessView::new(ProcessRole::Server);
        };
        let raft = match status.role {
            RaftRole::Follower => "follows",
            RaftRole::Candidate => "asks for votes",
            RaftRole::Leader => "leads the log",
        };
        ProcessView::new(ProcessRole::Server).term(status.term.0).fact("raft", raft)
    }
}
