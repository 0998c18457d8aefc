//! `docs/reference/configuration.md` has the tables of settings, and may not say anything else than they do.

use super::{FOREIGN, Fate, SETTINGS, Setting, table::Fallback};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/configuration.md");

fn settings() -> String {
    let mut out = String::new();
    let mut group = "";
    for setting in SETTINGS.iter().filter(|setting| !setting.is_hidden()) {
        if setting.group != group {
            group = setting.group;
            out += &format!(
                "\n### {group}\n\n| flag and key | environment | default | meaning |\n|---|---|---|---|\n"
            );
        }
        out += &row(setting);
    }
    out
}

fn row(setting: &Setting) -> String {
    let default = match setting.default {
        Fallback::Is("") => "none".to_owned(),
        Fallback::Is(text) => format!("`{text}`"),
        Fallback::Follows(words, _) => words.to_owned(),
    };
    let also: Vec<_> = setting.aliases.iter().map(|name| format!(" (also `{name}`)")).collect();
    format!(
        "| `{}`{} | `TENURE_{}` | {} | {} |\n",
        setting.flag,
        also.join(""),
        setting.flag.to_uppercase().replace('-', "_"),
        default.replace('|', "\\|"),
        setting.help.replace('|', "\\|"),
    )
}

fn foreign() -> String {
    let mut out = String::from("\n| etcd's flag | here | why |\n|---|---|---|\n");
    for one in FOREIGN {
        let fate = match one.fate {
            Fate::Ignored => "a warning".to_owned(),
            Fate::Refused { unless } => {
                let harmless: Vec<_> =
                    unless.iter().filter(|v| !v.is_empty()).map(|v| format!("`{v}`")).collect();
                match harmless.is_empty() {
                    true => "refused".to_owned(),
                    false => format!("refused, except {}", harmless.join(", ")),
                }
            }
        };
        out += &format!("| `{}` | {fate} | {} |\n", one.flag, one.why);
    }
    out
}

/// Puts text between two marks of a page.
fn replaced(page: &str, name: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("\n<!-- {name}: end -->"));
    let from = page.find(&begin).unwrap_or_else(|| panic!("{begin:?} is not in {PAGE}"));
    let to = page.find(&end).unwrap_or_else(|| panic!("{end:?} is not in {PAGE}"));
    format!("{}{text}{}", &page[..from + begin.len()], &page[to..])
}

#[test]
fn settings_page_says_what_the_tables_say() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let wanted = replaced(&page, "settings", &settings());
    let wanted = replaced(&wanted, "foreign", &foreign());
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(PAGE, &wanted).unwrap();
    } else {
        assert!(
            page == wanted,
            "docs/reference/configuration.md is stale: run this test with UPDATE_GOLDENFILES=1"
        );
    }
}
