//! The pages of the documentation name only what exists: linked files and headings, paths of the repository, and names of
//! the code. Code, scripts and manifests name only pages that exist.

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
};

/// Folders at the top of the repository. A path between backticks that begins with one of them is a whole path.
const TOP: [&str; 5] = ["crates", "deploy", "docs", "scripts", ".config"];

/// Names of files end so. A path between backticks that ends so and is no whole path is the end of one.
const ENDINGS: [&str; 10] =
    [".rs", ".md", ".py", ".proto", ".sql", ".toml", ".yaml", ".service", ".txt", ".sh"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every file of the repository, relative to its root; without what a build or git keeps there.
fn files(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name();
            if entry.file_type().unwrap().is_dir() {
                if name != "target" && name != ".git" && name != "node_modules" {
                    folders.push(entry.path());
                }
                continue;
            }
            let path = entry.path();
            found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
        }
    }
    found
}

/// The lines outside of fenced blocks, with their numbers from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((at + 1, line))
    })
}

/// What stands between backticks, and the line without it.
fn code_spans(line: &str) -> (Vec<&str>, String) {
    let parts: Vec<&str> = line.split('`').collect();
    let spans = parts.iter().skip(1).step_by(2).copied().collect();
    let rest: Vec<&str> = parts.iter().step_by(2).copied().collect();
    (spans, rest.join("`"))
}

/// The targets of the links in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// The anchors that GitHub gives the headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        // Of a link in a heading, its text.
        let shown: Vec<&str> = title.split("](").map(|part| part.trim_start_matches('[')).collect();
        let slug: String = shown[0]
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let mut anchor = slug.clone();
        for again in 1.. {
            if anchors.insert(anchor) {
                break;
            }
            anchor = format!("{slug}-{again}");
        }
    }
    anchors
}

/// A path without `.` and `..`, relative to the root. None if it leads out of it.
fn normal(path: &Path) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()?),
            Component::Normal(name) => parts.push(name.to_str()?),
            _ => {}
        }
    }
    Some(parts.join("/"))
}

struct Repository {
    root: PathBuf,
    files: BTreeSet<String>,
}

impl Repository {
    fn open() -> Repository {
        let root = root();
        let files = files(&root);
        Repository { root, files }
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Whether this is a file, or a folder with one.
    fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files.contains(path)
            || self.files.range(folder.clone()..).next().is_some_and(|f| f.starts_with(&folder))
    }

    /// Whether some file has this path below some folder.
    fn has_ending(&self, path: &str) -> bool {
        let below = format!("/{path}");
        self.files.iter().any(|file| file == path || file.ends_with(&below))
    }

    /// The pages: those of the root, of `docs`, and of the crates.
    fn pages(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(String::as_str).filter(|path| {
            path.ends_with(".md") && (!path.contains('/') || path.starts_with("docs/"))
                || path.starts_with("crates/") && path.ends_with("/README.md")
        })
    }

    /// What is wrong with a link, if anything.
    fn wrong_link(&self, page: &str, target: &str) -> Option<String> {
        if target.contains("://") || target.starts_with("mailto:") {
            return None;
        }
        let (path, anchor) = target.split_once('#').map_or((target, None), |(p, a)| (p, Some(a)));
        let folder = Path::new(page).parent().unwrap();
        let file = match path {
            "" => page.to_owned(),
            path => match normal(&folder.join(path)) {
                Some(file) if self.has(&file) => file,
                _ => return Some(format!("links to {target}, and there is no such file")),
            },
        };
        let anchor = anchor?;
        let headings = anchors(&self.read(&file));
        (!headings.contains(anchor))
            .then(|| format!("links to {target}: {file} has no such heading"))
    }

    /// What is wrong with something between backticks, if it is a path.
    fn wrong_path(&self, span: &str) -> Option<String> {
        let missing = || Some(format!("names `{span}`, which does not exist"));
        // A line or an item in a file.
        let path = span.split(':').next().unwrap();
        let example = path.contains(['<', '>', ' ', '$', '=', '…', '{', '"', '(']);
        if !path.contains('/') || path.starts_with("target/") || example {
            return None;
        }
        let whole = path.split('/').next().is_some_and(|first| TOP.contains(&first));
        if let Some(star) = path.find('*') {
            // Of a pattern, the folder that it begins with.
            let folder = path[..star].rsplit_once('/').map_or("", |(folder, _)| folder);
            return if whole && !self.has(folder) { missing() } else { None };
        }
        if whole {
            let known = self.has(path) || path.starts_with("docs/decisions/") && self.begins(path);
            return if known { None } else { missing() };
        }
        let file = ENDINGS.iter().any(|ending| path.ends_with(ending)) && !path.starts_with('/');
        if file && !self.has_ending(path) { missing() } else { None }
    }

    fn begins(&self, path: &str) -> bool {
        self.files.range(path.to_owned()..).next().is_some_and(|file| file.starts_with(path))
    }

    /// What is wrong with a page.
    fn wrong(&self, page: &str, text: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        for (at, line) in prose(text) {
            let (spans, rest) = code_spans(line);
            let found = links(&rest).filter_map(|target| self.wrong_link(page, target));
            let named = spans.iter().filter_map(|span| self.wrong_path(span));
            wrong.extend(found.chain(named).map(|what| format!("{page}:{at} {what}")));
        }
        wrong
    }
}

#[test]
fn docs_name_only_files_and_headings_that_exist() {
    let repository = Repository::open();
    let pages: Vec<&str> = repository.pages().collect();
    assert!(pages.len() > 50 && pages.contains(&"docs/README.md"), "{pages:#?}");
    let wrong: Vec<String> =
        pages.iter().flat_map(|page| repository.wrong(page, &repository.read(page))).collect();
    assert!(wrong.is_empty(), "{} broken references:\n{}", wrong.len(), wrong.join("\n"));
}

/// Help texts, messages, comments, manifests and scripts that send a reader to a page.
#[test]
fn code_names_only_pages_that_exist() {
    let repository = Repository::open();
    let mut wrong = Vec::new();
    let mut named = 0;
    for file in &repository.files {
        if file.ends_with(".md") || file.starts_with("crates/e2e/tests/shipped/docs_links.rs") {
            continue;
        }
        let Ok(text) = fs::read_to_string(repository.root.join(file)) else { continue };
        for (at, line) in text.lines().enumerate() {
            for rest in line.split("docs/").skip(1) {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"/-_.".contains(c));
                let name = rest[..end.unwrap_or(rest.len())].trim_end_matches(['.', '/']);
                let path = format!("docs/{name}");
                named += 1;
                if !name.is_empty() && !repository.has(&path) && !repository.begins(&path) {
                    wrong.push(format!("{file}:{} names {path}, which does not exist", at + 1));
                }
            }
        }
    }
    assert!(named > 40, "{named} were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A name of the code between backticks: a constant, a path of Rust, a metric of ours, a flag, an error's text, a magic.
/// Answers what of it the code must contain, as whole words or as text.
fn names(span: &str) -> (Vec<&str>, Option<String>) {
    let is =
        |part: &str, allowed: &dyn Fn(char) -> bool| !part.is_empty() && part.chars().all(allowed);
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let constant = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if span.contains("::") && span.split("::").all(|part| is(part, &word)) {
        return (span.split("::").collect(), None);
    }
    let metric = span.starts_with("tenure_") && is(span, &word);
    if metric || is(span, &constant) && span.contains('_') && !span.starts_with("CLOCK_") {
        return (vec![span], None);
    }
    let magic = span.len() == 8 && span.starts_with("tenure") && is(span, &word);
    if magic {
        return (Vec::new(), Some(format!("b\"{span}\"")));
    }
    let flag = span.split([' ', '=']).next().and_then(|flag| flag.strip_prefix("--"));
    if let Some(flag) = flag.filter(|flag| is(flag, &|c| word(c) || c == '-')) {
        return (Vec::new(), Some(flag.to_owned()));
    }
    (Vec::new(), span.starts_with("etcdserver: ").then(|| span.to_owned()))
}

/// Constants, types, metrics, flags and errors that the pages name are in the code. Decisions and records tell of what was.
#[test]
fn docs_name_only_what_the_code_has() {
    let repository = Repository::open();
    let mut code = String::new();
    for file in &repository.files {
        let read = || fs::read_to_string(repository.root.join(file)).ok();
        if file.starts_with("crates/") && !file.ends_with(".md") && !file.ends_with("docs_links.rs")
        {
            code.extend(read());
        }
    }
    code.push_str(&repository.read("Makefile"));
    let words: BTreeSet<&str> =
        code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let told =
        |page: &&str| !page.starts_with("docs/decisions/") && !page.starts_with("docs/records/");
    let mut wrong = Vec::new();
    let mut named = 0;
    for page in repository.pages().filter(told).filter(|page| *page != "CHANGELOG.md") {
        let text = repository.read(page);
        for (at, line) in prose(&text) {
            for span in code_spans(line).0 {
                let (parts, exact) = names(span);
                named += parts.len();
                // Settings have an environment variable each, which is made from the flag's name.
                let setting = |part: &str| part.starts_with("TENURE_") || part.starts_with("ETCD_");
                let gone = parts.iter().any(|part| !words.contains(part) && !setting(part));
                // A flag is a field of that name, or text.
                let absent = exact.is_some_and(|exact| {
                    !code.contains(&exact) && !words.contains(&*exact.replace('-', "_"))
                });
                if gone || absent {
                    wrong.push(format!("{page}:{at} names `{span}`, which is not in the code"));
                }
            }
        }
    }
    assert!(named > 200, "{named} were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every page of `docs` can be found from its index.
#[test]
fn docs_index_links_to_every_page() {
    let repository = Repository::open();
    let index = repository.read("docs/README.md");
    let linked: BTreeSet<String> = prose(&index)
        .flat_map(|(_, line)| links(line))
        .filter_map(|target| normal(&Path::new("docs").join(target.split('#').next().unwrap())))
        .collect();
    let missing: Vec<&str> = repository
        .pages()
        .filter(|page| page.starts_with("docs/") && *page != "docs/README.md")
        .filter(|page| !page.starts_with("docs/decisions/") && !linked.contains(*page))
        .collect();
    assert!(missing.is_empty(), "not in docs/README.md: {missing:?}");
}

/// A check that nothing can trip proves nothing.
#[test]
fn docs_check_finds_broken_references() {
    let repository = Repository::open();
    let wrong = |text: &str| repository.wrong("docs/README.md", text).len();
    assert_eq!(wrong("[ours](../README.md), [heading](../CONTRIBUTING.md#commits)"), 0);
    assert_eq!(wrong("[gone](nowhere.md)"), 1);
    assert_eq!(wrong("[gone](../CONTRIBUTING.md#no-such-heading)"), 1);
    assert_eq!(wrong("[gone](#no-such-heading) [out](../../../etc/passwd)"), 2);
    assert_eq!(wrong("`crates/e2e/src/lib.rs`, `crates/*/src`, `src/lib.rs:7`, `GET /metrics`"), 0);
    assert_eq!(wrong("`crates/none/src/lib.rs` and `no/such_file.rs`"), 2);
    assert_eq!(wrong("```text\n[gone](nowhere.md)\n```"), 0);
    assert_eq!(names("Gate::open"), (vec!["Gate", "open"], None));
    assert_eq!(names("SENT_MAX"), (vec!["SENT_MAX"], None));
    assert_eq!(names("--no-such-flag 3s"), (vec![], Some("no-such-flag".to_owned())));
    assert_eq!(names("kill -9"), (vec![], None));
}

#[test]
fn docs_anchors_are_those_of_github() {
    let page =
        "# What is `this`?\n## 3. A put, from the socket and back\n## Twice\n## Twice\n#no\n";
    let expected = ["what-is-this", "3-a-put-from-the-socket-and-back", "twice", "twice-1"];
    assert_eq!(anchors(page), expected.map(str::to_owned).into());
}
