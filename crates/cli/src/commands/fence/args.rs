//! Flags of `tenure fence`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use tenure::fence::{FencingToken, GateLimits};

use super::resource::{ResourceNaming, ResourceRule, Resources};
use super::tls::ProxyTlsArgs;
use super::upstream::Upstream;
use crate::args::duration;

const NOTES: &str = "\
What it promises, and what it needs from you:
  Run ONE proxy in front of an upstream. It keeps the tokens that it has seen in a local file. A second
  proxy with a file of its own has not seen them, and admits an old holder. The file is locked against
  a second proxy on this machine; on another machine nothing can notice it.
  Everything must go through the proxy: what reaches the upstream another way is not fenced.
  Keep the file. A proxy that starts without it has seen no token.

  A request with a token older than the newest one of its resource gets 409, a write without a token
  428, a token that the cluster never gave 400. Each answer is a JSON object that says what to do.
  All of them are in docs/how-to/fencing-proxy.md.

Try:
  tenure fence --upstream http://127.0.0.1:9000 --state orders.gate
  curl -X PUT -H 'Fencing-Token: 33' -d new http://127.0.0.1:8080/orders/1
";

/// A reverse proxy that refuses the writes of holders that were replaced.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Args {
    /// The service behind the proxy, as http://HOST:PORT or https://HOST:PORT; a path is put before the path of each request
    #[arg(long, value_name = "URL")]
    pub(super) upstream: Upstream,
    /// The file with the newest tokens. It is created if it does not exist
    #[arg(long, value_name = "FILE", required_unless_present = "in_memory")]
    pub(super) state: Option<PathBuf>,
    /// Do not start if the state file does not exist: it may have been lost
    #[arg(long, requires = "state")]
    pub(super) state_must_exist: bool,
    /// Forget all tokens at a restart. For an upstream that keeps nothing either
    #[arg(long, conflicts_with = "state")]
    pub(super) in_memory: bool,
    /// The address for requests; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub(super) listen: SocketAddr,
    #[command(flatten)]
    pub(super) tls: ProxyTlsArgs,
    /// The address for /metrics and /healthz; without it they are not served
    #[arg(long, value_name = "ADDRESS")]
    pub(super) admin_listen: Option<SocketAddr>,
    /// The header that carries the token
    #[arg(long, value_name = "NAME", default_value = FencingToken::HEADER)]
    pub(super) header: HeaderName,
    /// The header that names the resource. Without this and --resource-path, the upstream is one resource
    #[arg(long, value_name = "NAME", conflicts_with = "resource_path")]
    pub(super) resource_header: Option<HeaderName>,
    /// How many segments of the path name the resource: with 2, /shards/7/rows/1 is about shards/7
    #[arg(long, value_name = "SEGMENTS", value_parser = clap::value_parser!(u8).range(1..))]
    pub(super) resource_path: Option<u8>,
    /// A resource that there is; may be repeated. Others are refused. Without this and --resource-prefix, clients choose
    #[arg(long, value_name = "NAME")]
    pub(super) resource: Vec<String>,
    /// How the names of resources begin; may be repeated. Others are refused
    #[arg(long, value_name = "PREFIX")]
    pub(super) resource_prefix: Vec<String>,
    /// The number of resources at most. None is ever forgotten; one more is refused
    #[arg(long, value_name = "N", default_value_t = GateLimits::default().resources_max)]
    pub(super) resources_max: usize,
    /// Require a token for reads (GET, HEAD, OPTIONS, TRACE), too
    #[arg(long)]
    pub(super) reads_need_token: bool,
    /// Take tokens of this election's or lock's holders only, not any revision that the cluster has given. {resource} in it
    /// stands for the name of the resource
    #[arg(long, value_name = "NAME", conflicts_with = "no_cluster")]
    pub(super) election: Option<String>,
    /// Tell in refusals which token is in force, and the cluster's revision. Any client can then write in the holder's name
    #[arg(long)]
    pub(super) tell_tokens: bool,
    /// Believe every token. Otherwise the cluster at --endpoints is asked about each token that is higher
    /// than its last known revision
    #[arg(long)]
    pub(super) no_cluster: bool,
    /// How long a newer holder's request waits for those of older holders, before it gets 503
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = limited_duration)]
    pub(super) patience: Duration,
    /// How long the upstream may be silent
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = limited_duration)]
    pub(super) upstream_timeout: Duration,
    /// How long a client may pause in the middle of a request or an answer
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = limited_duration)]
    pub(super) client_timeout: Duration,
    /// How long the upstream may still work on a request after its connection was closed, including
    /// time in which it stood still or had the request in a queue. Newer holders wait that long after
    /// such an end, and after each start of the proxy with a state file that existed before [default: as
    /// --upstream-timeout]
    #[arg(long, value_name = "DURATION", value_parser = limited_duration)]
    settle: Option<Duration>,
    /// Send the upstream its own name in Host, instead of the one that the client sent
    #[arg(long)]
    pub(super) rewrite_host: bool,
    /// The number of client connections at most; more wait to be accepted
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive)]
    pub(super) max_connections: usize,
    /// How long requests under way may take to end after a signal to stop
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = limited_duration)]
    pub(super) grace: Duration,
    /// The number of worker threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(super) threads: Option<usize>,
}

impl Args {
    pub(super) fn resource_rule(&self) -> ResourceRule {
        let (names, prefixes) = (self.resource.clone(), self.resource_prefix.clone());
        ResourceRule { naming: self.resource_naming(), known: Resources { names, prefixes } }
    }

    fn resource_naming(&self) -> ResourceNaming {
        match (&self.resource_header, self.resource_path) {
            (Some(header), _) => ResourceNaming::Header(header.clone()),
            (None, Some(segments)) => ResourceNaming::Path(segments.into()),
            (None, None) => ResourceNaming::Single,
        }
    }

    /// An upstream that did not answer in time is slow, and may be as slow to notice that it was given up.
    pub(super) fn settle(&self) -> Duration {
        self.settle.unwrap_or(self.upstream_timeout)
    }

    pub(super) fn limits(&self) -> GateLimits {
        GateLimits { resources_max: self.resources_max, patience: self.patience }
    }
}

/// The longest duration that a flag takes: more is a mistake, and less fits every clock.
const DURATION_MAX: Duration = Duration::from_secs(24 * 60 * 60);

fn limited_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        duration if duration <= DURATION_MAX => Ok(duration),
        _ => Err("it is 24h at the most".to_owned()),
    }
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("it is a number from 1 on".to_owned()),
    }
}
