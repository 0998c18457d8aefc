//! Log lines: JSON with etcd's field names, or for people.

use std::{
    fmt,
    fs::File,
    io::{self, IsTerminal, Write},
    sync::Mutex,
};

use serde_json::Value;
use tenure_server::traces::SpanLayer;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use super::settings::{LogFormat, Logging};

/// Starts logging, with the way of spans to their collector beside it. A panic becomes a log line, too, so
/// that a reader of JSON reads nothing else.
pub(super) fn start(logging: &Logging, spans: Option<SpanLayer>) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&logging.filter)?;
    let outputs = Mutex::new(Outputs::open(&logging.outputs)?);
    let lines = tracing_subscriber::fmt::layer().with_writer(outputs);
    let lines = match logging.format {
        LogFormat::Json => lines.event_format(JsonLines).with_filter(filter).boxed(),
        LogFormat::Console => {
            let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            lines.with_target(false).with_ansi(colours).with_filter(filter).boxed()
        }
    };
    let mut layers = vec![lines];
    layers.extend(spans);
    Registry::default().with(layers).init();
    if logging.format == LogFormat::Json {
        std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    }
    Ok(())
}

/// Everywhere that lines go.
struct Outputs(Vec<Box<dyn Write + Send>>);

impl Outputs {
    fn open(names: &[String]) -> anyhow::Result<Outputs> {
        let open = |name: &String| -> anyhow::Result<Box<dyn Write + Send>> {
            Ok(match &name[..] {
                "stderr" | "default" => Box::new(io::stderr()),
                "stdout" => Box::new(io::stdout()),
                path => {
                    let file = File::options().create(true).append(true).open(path);
                    Box::new(
                        file.map_err(|cause| anyhow::anyhow!("--log-outputs: {path}: {cause}"))?,
                    )
                }
            })
        };
        names.iter().map(open).collect::<Result<_, _>>().map(Outputs)
    }
}

impl Write for Outputs {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // One output that fails must not silence the others.
        for output in &mut self.0 {
            let _ = output.write_all(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.iter_mut().try_for_each(|output| output.flush())
    }
}

/// `{"level":"info","ts":"…","caller":"node/core.rs:12","msg":"…",…}`: what tools made for etcd's logs
/// look for.
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        // By hand, because the order is for people.
        write!(writer, "{{\"level\":\"{}\",\"ts\":\"{}\"", level(metadata.level()), timestamp()?)?;
        let place = caller(metadata.file(), metadata.line());
        write!(
            writer,
            ",\"caller\":{},\"msg\":{}",
            Value::from(place),
            Value::from(fields.message)
        )?;
        for (name, value) in fields.others {
            write!(writer, ",{}:{value}", Value::from(name))?;
        }
        writeln!(writer, "}}")
    }
}

fn level(level: &Level) -> &'static str {
    match *level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        // etcd has nothing below.
        Level::DEBUG | Level::TRACE => "debug",
    }
}

/// Milliseconds are what etcd writes, and enough.
fn timestamp() -> Result<String, fmt::Error> {
    const TO_MILLIS: usize = "2026-01-01T00:00:00.000".len();
    let mut text = String::new();
    SystemTime.format_time(&mut Writer::new(&mut text))?;
    text.truncate(TO_MILLIS);
    Ok(text + "Z")
}

/// The file below its crate's `src`, and the line.
fn caller(file: Option<&str>, line: Option<u32>) -> String {
    let file = file.unwrap_or("?");
    let short = file.rsplit_once("/src/").map_or(file, |(_, below)| below);
    format!("{short}:{}", line.unwrap_or(0))
}

#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(String, Value)>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            // The four that every line has are not to be overwritten.
            (name @ ("level" | "ts" | "caller" | "msg"), value) => {
                self.others.push((format!("{name}_"), value));
            }
            (name, value) => {
                self.others.push((name.to_owned(), value));
            }
        }
    }
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }
}
