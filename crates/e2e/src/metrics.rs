//! `/metrics`, read as a scraper reads it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Fetches a page over HTTP/1; status line and body.
pub async fn fetch(address: &str, path: &str) -> Result<(String, String), String> {
    let fetched = timeout(PATIENCE, async {
        let mut stream = TcpStream::connect(address).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        std::io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
    });
    let answer = fetched.await.map_err(|_| format!("{path}: no answer"))?;
    let answer = answer.map_err(|cause| format!("{path}: {cause}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| answer.clone())?;
    let status = head.lines().next().unwrap_or_default().to_owned();
    // etcd sends long pages in chunks; their lengths are lines of their own.
    Ok((status, body.replace("\r\n", "\n")))
}

/// All metrics of one server at one moment.
#[derive(Clone, Debug, Default)]
pub struct Scrape {
    /// The type of each metric.
    pub types: BTreeMap<String, String>,
    /// The names of its labels.
    pub labels: BTreeMap<String, BTreeSet<String>>,
    /// Every series with its value.
    pub series: BTreeMap<String, f64>,
}

impl Scrape {
    /// Fetches and reads `/metrics`.
    pub async fn of(address: &str) -> Result<Scrape, String> {
        let (status, body) = fetch(address, "/metrics").await?;
        if !status.contains(" 200 ") {
            return Err(status);
        }
        Ok(Scrape::read(&body))
    }

    fn read(text: &str) -> Scrape {
        let mut scrape = Scrape::default();
        for line in text.lines() {
            if let Some(declared) = line.strip_prefix("# TYPE ") {
                let (name, kind) = declared.split_once(' ').unwrap_or((declared, ""));
                scrape.types.insert(name.to_owned(), kind.to_owned());
            } else if let Some((series, value)) =
                line.rsplit_once(' ').filter(|_| !line.starts_with('#'))
                && let Ok(value) = value.parse()
            {
                scrape.note(series, value);
            }
        }
        scrape
    }

    fn note(&mut self, series: &str, value: f64) {
        self.series.insert(series.to_owned(), value);
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let names = labels.trim_end_matches('}').split("\",").filter_map(|one| one.split_once('='));
        let names = names.map(|(name, _)| name.to_owned()).filter(|name| name != "le");
        self.labels.entry(self.family(name)).or_default().extend(names);
    }

    /// The metric that a series belongs to: a histogram has three kinds of them.
    fn family(&self, name: &str) -> String {
        ["_bucket", "_sum", "_count"]
            .iter()
            .filter_map(|suffix| name.strip_suffix(suffix))
            .find(|family| self.types.get(*family).is_some_and(|kind| kind == "histogram"))
            .unwrap_or(name)
            .to_owned()
    }

    /// A metric over all its series: the sum, or how often a histogram was written to. None if it is
    /// not there.
    pub fn total(&self, metric: &str) -> Option<f64> {
        let histogram = self.types.get(metric).is_some_and(|kind| kind == "histogram");
        let name = if histogram { format!("{metric}_count") } else { metric.to_owned() };
        let labelled = format!("{name}{{");
        let mut values =
            self.series.iter().filter(|(s, _)| **s == name || s.starts_with(&labelled)).peekable();
        values.peek()?;
        Some(values.map(|(_, value)| value).sum())
    }
}
