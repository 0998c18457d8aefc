//! The one table of settings, and the flags made from it.

use std::{collections::BTreeMap, path::PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, builder::ValueParser};

use super::{Settings, foreign::FOREIGN};

/// One setting.
#[derive(Debug)]
pub(super) struct Setting {
    /// Its flag, and its key in the file.
    pub(super) flag: &'static str,
    /// etcd's other names for it.
    pub(super) aliases: &'static [&'static str],
    /// What its value is called in `--help`.
    pub(super) value: &'static str,
    pub(super) default: Fallback,
    pub(super) help: &'static str,
    /// The heading it stands under; those without one are understood but not shown.
    pub(super) group: &'static str,
}

/// The value of a setting that is not given.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fallback {
    /// This.
    Is(&'static str),
    /// What follows from other settings; in words, and reckoned.
    Follows(&'static str, fn(&Settings) -> String),
}

use Fallback::{Follows, Is};

impl Fallback {
    pub(super) fn text(&self, settings: &Settings) -> String {
        match self {
            Is(text) => (*text).to_owned(),
            Follows(_, reckon) => reckon(settings),
        }
    }

    fn words(&self) -> &'static str {
        match self {
            Is(text) | Follows(text, _) => text,
        }
    }
}

impl Setting {
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.flag == name || self.aliases.contains(&name)
    }

    pub(super) fn is_hidden(&self) -> bool {
        self.group.is_empty()
    }

    /// A switch may stand alone, which means true.
    fn is_switch(&self) -> bool {
        self.value == "BOOL"
    }
}

const MEMBER: &str = "Member";
const CLUSTER: &str = "Cluster";
const LIMITS: &str = "Limits and upkeep";
const TLS: &str = "TLS";
const USERS: &str = "Users";
const WATCHING: &str = "Logs, metrics and traces";

const fn row(
    group: &'static str,
    flag: &'static str,
    value: &'static str,
    default: Fallback,
    help: &'static str,
) -> Setting {
    Setting { flag, aliases: &[], value, default, help, group }
}

const fn known_as(aliases: &'static [&'static str], setting: Setting) -> Setting {
    Setting { aliases, ..setting }
}

/// Everything that can be set.
#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    row(MEMBER, "name", "NAME", Is("default"), "Human name of this member"),
    row(MEMBER, "data-dir", "DIR", Follows("NAME.tenure", |all| format!("{}.tenure", all.text("name"))),
        "Where everything is kept"),
    row(MEMBER, "wal-dir", "DIR", Is(""), "Where the log is kept, if not in the data directory"),
    row(MEMBER, "listen-client-urls", "URLS", Is("http://127.0.0.1:2379"), "Where to listen for clients"),
    row(MEMBER, "advertise-client-urls", "URLS", Follows("what is listened to", |all| all.text("listen-client-urls")),
        "Where clients are told to come"),
    row(MEMBER, "listen-peer-urls", "URL", Is("http://127.0.0.1:2380"), "Where to listen for other members: one URL"),
    row(MEMBER, "heartbeat-interval", "MS", Is("50"), "How often the raft leader shows itself: milliseconds, or as 100ms"),
    row(MEMBER, "election-timeout", "MS", Is("500"), "How long a silent raft leader is believed in: milliseconds, or as 1s"),
    row(MEMBER, "pre-vote", "BOOL", Is("true"), "Ask whether an election could be won before starting one"),

    row(CLUSTER, "initial-advertise-peer-urls", "URL", Is("http://127.0.0.1:2380"), "Where other members reach this one: one URL"),
    row(CLUSTER, "initial-cluster", "MEMBERS", Follows("this one alone", alone),
        "All members the cluster starts with, as NAME=URL,NAME=URL; counts at the first start"),
    row(CLUSTER, "initial-cluster-state", "new|existing", Is("new"), "Whether the cluster starts for the first time"),
    row(CLUSTER, "initial-cluster-token", "TOKEN", Is("tenure-cluster"), "Keeps clusters apart that have the same addresses"),
    row(CLUSTER, "force-new-cluster", "BOOL", Is("false"),
        "Make a cluster of this member's data alone, once; the other members are lost for good"),

    row(LIMITS, "max-txn-ops", "N", Is("128"), "Operations in a transaction, at the most"),
    row(LIMITS, "max-request-bytes", "BYTES", Is("1572864"), "Size of a request, at the most: bytes, or as 4M"),
    row(LIMITS, "quota-backend-bytes", "BYTES", Is("0"), "Size of the data, at the most: bytes, or as 8G; 0 for 2 GiB"),
    row(LIMITS, "snapshot-count", "N", Is("100000"), "Log entries between snapshots, at the most"),
    row(LIMITS, "auto-compaction-mode", "periodic|revision", Is("periodic"), "What --auto-compaction-retention counts"),
    row(LIMITS, "auto-compaction-retention", "TIME|N", Follows("1h; 0 in mode revision", retention),
        "How much history is kept: a duration (a bare number is hours), or revisions; 0 for all"),
    row(LIMITS, "grpc-keepalive-interval", "DURATION", Is("2h"), "A client that is silent for so long is pinged; 0 for never"),
    row(LIMITS, "grpc-keepalive-timeout", "DURATION", Is("20s"),
        "How long a client may leave a ping, or what was sent to it, unanswered; 0 for no pings"),
    known_as(&["experimental-watch-progress-notify-interval"],
        row(LIMITS, "watch-progress-notify-interval", "DURATION", Is("10m"),
            "How often a quiet watch that asks for it is told the revision")),
    known_as(&["experimental-corrupt-check-time"],
        row(LIMITS, "corrupt-check-time", "DURATION", Is("1m"), "How often members compare their data; 0 for never")),
    known_as(&["experimental-warning-apply-duration"],
        row(LIMITS, "warning-apply-duration", "DURATION", Is("100ms"), "Applying for longer than this is logged and counted as slow")),

    row(LIMITS, "cors", "ORIGINS", Is(""), "Origins whose web pages may use this member, separated by commas; * for all"),
    row(LIMITS, "host-whitelist", "NAMES", Is(""),
        "Names that HTTP clients may use for this member, besides the advertised ones; * for all, which is so if others than this machine can connect"),
    row(LIMITS, "ui", "on|read-only|off", Is("on"),
        "The dashboard for browsers, at /ui/ of the client URLs; read-only: web pages may change nothing"),
    row(LIMITS, "lab", "BOOL", Is("false"), "Offer the lab in the dashboard, whose runs happen in this process, beside the core loop"),

    row(TLS, "cert-file", "FILE", Is(""), "Certificate of this member, for clients at https:// URLs"),
    row(TLS, "key-file", "FILE", Is(""), "Key of --cert-file"),
    row(TLS, "client-cert-auth", "BOOL", Is("false"), "Demand certificates of clients; their common names may stand for users"),
    row(TLS, "trusted-ca-file", "FILE", Is(""), "Who may have signed the certificates of clients; alone, it demands them too"),
    row(TLS, "client-crl-file", "FILE", Is(""), "Certificates of clients that count no more (CRL)"),
    row(TLS, "client-cert-allowed-hostname", "NAMES", Is(""), "Let only clients in whose certificates are for one of these hosts"),
    row(TLS, "client-cert-allowed-cn", "NAMES", Is(""), "Let only clients in whose certificates have one of these common names"),
    row(TLS, "auto-tls", "BOOL", Is("false"), "Without a pair, make one: it encrypts, but proves nothing"),
    row(TLS, "self-signed-cert-validity", "YEARS", Is("1"), "How long a pair counts that the member makes itself"),
    row(TLS, "peer-cert-file", "FILE", Is(""), "Certificate of this member, for other members at an https:// URL"),
    row(TLS, "peer-key-file", "FILE", Is(""), "Key of --peer-cert-file"),
    row(TLS, "peer-client-cert-auth", "BOOL", Is("false"), "Demand certificates of members that call"),
    row(TLS, "peer-trusted-ca-file", "FILE", Is(""), "Who may have signed the certificates of other members; alone, it demands them too"),
    row(TLS, "peer-client-cert-file", "FILE", Is(""), "Certificate to show to other members, if not --peer-cert-file"),
    row(TLS, "peer-client-key-file", "FILE", Is(""), "Key of --peer-client-cert-file"),
    row(TLS, "peer-crl-file", "FILE", Is(""), "Certificates of members that count no more (CRL)"),
    row(TLS, "peer-cert-allowed-hostname", "NAMES", Is(""), "Let only members in whose certificates are for one of these hosts"),
    row(TLS, "peer-cert-allowed-cn", "NAMES", Is(""), "Let only members in whose certificates have one of these common names"),
    known_as(&["experimental-peer-skip-client-san-verification"],
        row(TLS, "peer-skip-client-san-verification", "BOOL", Is("false"), "Let members in whose certificates name none, or another one")),
    row(TLS, "peer-auto-tls", "BOOL", Is("false"), "Without a pair for other members, make one: it encrypts, but proves nothing"),
    row(TLS, "peer-secret-file", "FILE", Is(""), "A secret a line that all members know: keeps strangers out without certificates"),
    row(TLS, "peer-allow-insecure", "BOOL", Is("false"),
        "Speak to members without TLS or the secret, too: while one of the two is turned on, member by member"),
    row(TLS, "tls-min-version", "VERSION", Is("TLS1.2"), "Oldest version of TLS: TLS1.2 or TLS1.3"),
    row(TLS, "tls-max-version", "VERSION", Is(""), "Newest version of TLS, if not the newest there is"),
    row(TLS, "cipher-suites", "NAMES", Is(""), "Cipher suites of TLS 1.2, by their IANA names, if not all that are safe"),

    row(USERS, "auth-token", "KIND", Is("simple"), "What users get that log in: simple, or jwt with its options, as jwt,sign-method=RS256,priv-key=FILE; empty for nothing, so that only certificates count"),
    row(USERS, "auth-token-ttl", "SECONDS", Is("300"), "How long a simple token lives that is not used: seconds, or as 5m; 0 for 300"),
    row(USERS, "bcrypt-cost", "N", Is("10"), "How long it takes to make or check a password, as a power of two: 4 to 31"),

    row(USERS, "audit-log", "FILE", Is(""), "A line of JSON for each change of elections, sessions, members and users: a file, or stderr"),
    row(USERS, "audit-log-max-bytes", "BYTES", Is("64M"), "Size at which that file is replaced; four older ones are kept"),

    row(WATCHING, "log-level", "LEVEL", Is("info"), "What is logged: error, warn, info, debug or trace"),
    row(WATCHING, "log-format", "json|console", Follows("console on a terminal, else json", log_format), "How it is logged"),
    row(WATCHING, "log-outputs", "OUTPUTS", Is("stderr"), "Where to: stderr, stdout or files, separated by commas"),
    row(WATCHING, "metrics", "basic|extensive", Is("basic"), "Whether latencies of every gRPC method are in /metrics too"),
    row(WATCHING, "listen-metrics-urls", "URLS", Is(""), "Where to serve /metrics and /health besides the client URLs"),
    known_as(&["experimental-enable-distributed-tracing"],
        row(WATCHING, "enable-distributed-tracing", "BOOL", Is("false"), "Send spans to an OpenTelemetry collector")),
    known_as(&["experimental-distributed-tracing-address"],
        row(WATCHING, "distributed-tracing-address", "ADDRESS", Is("localhost:4317"), "The collector (OTLP over gRPC)")),
    known_as(&["experimental-distributed-tracing-service-name"],
        row(WATCHING, "distributed-tracing-service-name", "NAME", Is("tenure"), "What the spans call this service")),
    known_as(&["experimental-distributed-tracing-instance-id"],
        row(WATCHING, "distributed-tracing-instance-id", "ID", Follows("--name", |all| all.text("name")),
            "What the spans call this member")),
    known_as(&["experimental-distributed-tracing-sampling-rate"],
        row(WATCHING, "distributed-tracing-sampling-rate", "N", Is("1000000"), "Requests in a million that get a span")),

    row("", "logger", "NAME", Is("zap"), ""),
];

fn alone(all: &Settings) -> String {
    let (name, urls) = (all.text("name"), all.text("initial-advertise-peer-urls"));
    urls.split(',').map(|url| format!("{name}={}", url.trim())).collect::<Vec<_>>().join(",")
}

fn retention(all: &Settings) -> String {
    if all.text("auto-compaction-mode") == "revision" { "0" } else { "1h" }.to_owned()
}

fn log_format(_: &Settings) -> String {
    use std::io::IsTerminal;
    if std::io::stderr().is_terminal() { "console" } else { "json" }.to_owned()
}

/// The row of a setting.
pub(super) fn find(flag: &str) -> &'static Setting {
    SETTINGS.iter().find(|setting| setting.flag == flag).expect("the flag stands in the table")
}

/// What was typed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    /// `--config-file`.
    pub(super) config_file: Option<PathBuf>,
    /// `--print-config`.
    pub(in crate::commands::serve) print_config: bool,
    /// All others, by their names in the tables.
    pub(super) given: BTreeMap<String, String>,
}

const CONFIG_FILE: &str = "config-file";
const PRINT_CONFIG: &str = "print-config";

impl clap::FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Flags, clap::Error> {
        let names = SETTINGS.iter().map(|s| s.flag).chain(FOREIGN.iter().map(|f| f.flag));
        let given = names
            .filter_map(|flag| Some((flag.to_owned(), matches.get_one::<String>(flag)?.clone())));
        Ok(Flags {
            config_file: matches.get_one::<PathBuf>(CONFIG_FILE).cloned(),
            print_config: matches.get_flag(PRINT_CONFIG),
            given: given.collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Flags::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Flags {
    fn augment_args(command: Command) -> Command {
        let path = Arg::new(CONFIG_FILE).long(CONFIG_FILE).value_name("FILE");
        let command = command
            .arg(
                path.value_parser(ValueParser::path_buf())
                    .help("Settings as YAML, under the names of the flags"),
            )
            .arg(
                Arg::new(PRINT_CONFIG)
                    .long(PRINT_CONFIG)
                    .action(ArgAction::SetTrue)
                    .help("Print the settings in force, and where each came from, and exit"),
            );
        let command = command.args(SETTINGS.iter().map(flag));
        // Whether etcd's flag wants a value is of no interest: take one if there is one.
        command.args(FOREIGN.iter().map(|foreign| {
            let arg = Arg::new(foreign.flag).long(foreign.flag).hide(true);
            arg.num_args(0..=1).default_missing_value("true").overrides_with(foreign.flag)
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::augment_args(command)
    }
}

fn flag(setting: &'static Setting) -> Arg {
    let help = match setting.default.words() {
        "" => setting.help.to_owned(),
        words => format!("{} [default: {words}]", setting.help),
    };
    let arg = Arg::new(setting.flag)
        .long(setting.flag)
        .aliases(setting.aliases)
        .value_name(setting.value)
        .help(help)
        .help_heading(setting.group)
        .hide(setting.is_hidden())
        // As with etcd, the last one counts.
        .overrides_with(setting.flag);
    if setting.is_switch() { arg.num_args(0..=1).default_missing_value("true") } else { arg }
}
