//! A crowd that stands in many lines and call nothing but live: what call that cost the members?

use std::sync::Arc;
use std::time::Duration;

use pb::session_request::Request as SessionCall;
use pb::session_response::Response as SessionReply;
use tenure::api::wire::tenure::v1 as pb;
use tenure::grpc::Client;
use tenure::grpc::stubs::SessionsClient;
use tokio::sync::{Barrier, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use crate::BenchTarget;
use crate::report::Report;
use crate::stage::{Limit, Stage};
use tenure::api::duration::duration;

/// How large a crowd.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Sessions, each with a stream of its own
    #[arg(long, default_value_t = 3000, value_parser = clap::value_parser!(u32).range(1..))]
    sessions: u32,
    /// Elections
    #[arg(long, default_value_t = 10_000)]
    elections: u32,
    /// Candidates of each
    #[arg(long, default_value_t = 3)]
    candidates: u32,
    /// Time to live of the sessions
    #[arg(long, default_value = "10s", value_parser = duration)]
    ttl: Duration,
    /// How long to live once all candidates wait
    #[arg(long, default_value = "30s", value_parser = duration)]
    duration: Duration,
    /// What all names begin with
    #[arg(long, default_value = "bench-crowd/")]
    key_prefix: String,
}

/// Says on stderr when all candidates have joined, so that others can begin to measure.
pub(crate) async fn run(args: Args, target: &BenchTarget) -> anyhow::Result<Report> {
    let args = Arc::new(args);
    let client = Client::new(target.endpoints.clone(), target.options.clone());
    let members: Vec<Client> = client.each_member().map(|(_, member)| member).collect();
    let ready = Arc::new(Barrier::new(args.sessions as usize + 1));
    // Nothing here is timed: what it costs shows at the members.
    let stage = Stage::begin(Duration::ZERO, Limit::For(args.duration));
    let mut crowd = JoinSet::new();
    for number in 0..args.sessions {
        let member = members[number as usize % members.len()].clone();
        let (args, ready) = (Arc::clone(&args), Arc::clone(&ready));
        crowd.spawn(async move { live(number, member, &args, &ready).await });
    }
    tokio::select! {
        _ = ready.wait() => {}
        Some(Ok(Err(error))) = crowd.join_next() => return Err(error),
    }
    eprintln!("all candidates wait");
    let mut renewals = 0;
    while let Some(lived) = crowd.join_next().await {
        renewals += lived??;
    }
    let clients = args.sessions as usize;
    let mut report = Report::of("crowd", &target.endpoints, clients, clients, &stage);
    report.operations = renewals;
    Ok(report)
}

/// Stands in its lines and renews; answers how often.
async fn live(number: u32, member: Client, args: &Args, ready: &Barrier) -> anyhow::Result<u64> {
    let (requests, outgoing) = mpsc::channel(64);
    let mut sessions = SessionsClient::new(member.channel());
    let open = pb::OpenSession {
        ttl_ms: args.ttl.as_millis() as u64,
        identity: format!("crowd-{number}"),
        ..Default::default()
    };
    requests.send(request(0, SessionCall::Open(open))).await?;
    let stream = member.request(ReceiverStream::new(outgoing)).await?;
    let mut responses = sessions.session(stream).await?.into_inner();
    let mut awaited = 1;
    let candidacies = u64::from(args.elections) * u64::from(args.candidates);
    let mine = (u64::from(number)..candidacies).step_by(args.sessions as usize);
    let mut asked = 0;
    let mut next_renewal = Instant::now() + args.ttl / 3;
    let mut renewals = 0;
    let mut until = None;
    let mut mine = mine.peekable();
    loop {
        while awaited <= 16
            && let Some(candidacies) = mine.next()
        {
            asked += 1;
            let name = format!("{}{}", args.key_prefix, candidacies / u64::from(args.candidates));
            let join = pb::Join { names: vec![name], ..Default::default() };
            requests.send(request(asked, SessionCall::Join(join))).await?;
            awaited += 1;
        }
        if awaited == 0 && mine.peek().is_none() && until.is_none() {
            ready.wait().await;
            until = Some(Instant::now() + args.duration);
        }
        tokio::select! {
            response = responses.message() => match response?.and_then(|response| response.response) {
                Some(SessionReply::Opened(_)) => awaited -= 1,
                Some(SessionReply::Result(answer)) => {
                    anyhow::ensure!(answer.refusal.is_none(), "refused: {:?}", answer.refusal);
                    awaited -= 1;
                }
                Some(SessionReply::Renewed(_)) => renewals += u64::from(until.is_some()),
                Some(SessionReply::Ended(ended)) => anyhow::bail!("session {number} ended: {:?}", ended.reason()),
                Some(_) => {}
                None => anyhow::bail!("the stream of session {number} ended"),
            },
            () = tokio::time::sleep_until(next_renewal) => {
                if until.is_some_and(|until| Instant::now() >= until) {
                    requests.send(request(0, SessionCall::Close(pb::CloseSession { stopped: true }))).await?;
                    return Ok(renewals);
                }
                requests.send(request(0, SessionCall::Renew(pb::RenewSession { number: renewals }))).await?;
                next_renewal += args.ttl / 3;
            }
        }
    }
}

fn request(number: u64, request: SessionCall) -> pb::SessionRequest {
    pb::SessionRequest { request_id: number, request: Some(request) }
}
