//! What may be typed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use tenure::fence::{FencingToken, Limits};

use super::resource::Naming;
use super::upstream::Upstream;
use crate::args::duration;

const NOTES: &str = "\
What it promises, and what it needs from you:
  Run ONE proxy in front of an upstream. It keeps what it has seen in a local file; a second proxy
  with a file of its own does not know what the first one has seen, and lets an old holder in. The
  file is locked against a second proxy on this machine. On others nobody can tell but you.
  Everything must go through it: what reaches the upstream another way is not fenced.
  Keep the file. A proxy that starts without it has seen nothing.

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
    /// The service behind it, as http://HOST:PORT, with a path to put before each request's if you like
    #[arg(long, value_name = "URL")]
    pub(super) upstream: Upstream,
    /// The file that remembers the newest tokens. It is made if it is not there
    #[arg(long, value_name = "FILE", required_unless_present = "in_memory")]
    pub(super) state: Option<PathBuf>,
    /// Do not start without the file: whoever lost it should know
    #[arg(long, requires = "state")]
    pub(super) state_must_exist: bool,
    /// Remember nothing over a restart. For an upstream that does not either
    #[arg(long, conflicts_with = "state")]
    pub(super) in_memory: bool,
    /// Where requests come in; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub(super) listen: SocketAddr,
    /// Where /metrics and /healthz are served; nowhere if not given
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
    /// How many resources there may be. None is ever forgotten; one more is refused
    #[arg(long, value_name = "N", default_value_t = Limits::default().resources_max)]
    pub(super) resources_max: usize,
    /// Want a token for reads (GET, HEAD, OPTIONS, TRACE) too
    #[arg(long)]
    pub(super) reads_need_token: bool,
    /// Believe every token. Otherwise the cluster at --endpoints is asked about each that is higher
    /// than any revision it was seen at
    #[arg(long)]
    pub(super) no_cluster: bool,
    /// How long a newer holder's request waits for those of older ones, before it gets 503
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = wait)]
    pub(super) patience: Duration,
    /// How long the upstream may keep silent
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = wait)]
    pub(super) upstream_timeout: Duration,
    /// How long a client may pause in the middle of a request or an answer
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = wait)]
    pub(super) client_timeout: Duration,
    /// How long the upstream may go on working on a request after its connection was closed, also
    /// because it stood still or had the request in a queue. Newer holders wait that long after such an
    /// end, and after each start of the proxy with a file that has been there [default: as
    /// --upstream-timeout]
    #[arg(long, value_name = "DURATION", value_parser = wait)]
    settle: Option<Duration>,
    /// Send the upstream its own name in Host, instead of the one the client asked for
    #[arg(long)]
    pub(super) rewrite_host: bool,
    /// How many connections of clients there may be; more have to wait
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive)]
    pub(super) max_connections: usize,
    /// How long to wait, when told to stop, for what is under way
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = wait)]
    pub(super) grace: Duration,
    /// How many threads work [default: one for each core]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(super) threads: Option<usize>,
}

impl Args {
    pub(super) fn naming(&self) -> Naming {
        match (&self.resource_header, self.resource_path) {
            (Some(header), _) => Naming::Header(header.clone()),
            (None, Some(segments)) => Naming::Path(segments.into()),
            (None, None) => Naming::One,
        }
    }

    /// An upstream that did not answer in time is slow. Nothing says that it is faster after we gave up.
    pub(super) fn settle(&self) -> Duration {
        self.settle.unwrap_or(self.upstream_timeout)
    }

    pub(super) fn limits(&self) -> Limits {
        Limits { resources_max: self.resources_max, patience: self.patience }
    }
}

/// Longer than anybody means, and short enough for every clock.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

fn wait(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        wait if wait <= WAIT_MAX => Ok(wait),
        _ => Err("it is 24h at the most".to_owned()),
    }
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("it is a number from 1 on".to_owned()),
    }
}
