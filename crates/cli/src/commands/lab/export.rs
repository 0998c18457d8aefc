//! `tenure lab export`: a page that plays runs of stories by itself, without any server.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use base64::Engine as _;
use tenure_server::http::ui_file;

use super::name::{Kind, NameOf, unknown};
use super::ui::{pack, play_for_page};
use crate::exit::{Exit, usage};

/// Which stories, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The stories
    #[arg(required = true, value_name = "STORY", value_parser = NameOf(&[Kind::Story]), hide_possible_values = true)]
    stories: Vec<String>,
    /// The page; `-` writes it to stdout
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The seed of all randomness
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A fault script in place of the stories' own
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let faults = args.faults.as_deref().map(|path| {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    });
    let faults = faults.transpose()?;
    let mut runs = vec![];
    for story in &args.stories {
        if tenure_lab::algorithms::story(story).is_none() {
            return Err(unknown(story, &[Kind::Story]));
        }
        runs.push(play_for_page(story, args.seed, faults.as_deref()).map_err(usage)?);
    }
    let page = page(&args.stories, runs)?;
    if args.output == Path::new("-") {
        std::io::stdout().write_all(page.as_bytes())?;
    } else {
        std::fs::write(&args.output, &page)
            .with_context(|| format!("cannot write {}", args.output.display()))?;
        let path = args.output.display();
        eprintln!("{path}: {} kB, plays without a server", page.len() / 1000);
    }
    Ok(Exit::Done)
}

fn page(stories: &[String], runs: Vec<String>) -> anyhow::Result<String> {
    let text = |path: &str| match ui_file(path) {
        Some(file) => Ok(String::from_utf8_lossy(&file).into_owned()),
        None => bail!("this build has no {path}"),
    };
    // Neither may end the element that it is written into.
    let script = text("export/export.js")?.replace("</script", "<\\/script");
    let style = text("export/export.css")?.replace("</style", "<\\/style");
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>{style}</style>\n</head>\n<body>\n<div id=\"app\"></div>\n",
        stories.join(", ")
    );
    for run in runs {
        let packed = base64::engine::general_purpose::STANDARD.encode(pack(run));
        page += &format!("<script type=\"text/plain\" data-run>{packed}</script>\n");
    }
    page += &format!("<script>{script}</script>\n</body>\n</html>\n");
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_page_holds_everything_that_it_needs() {
        let run = play_for_page("redlock-pause", 1, None).unwrap();
        let page = page(&["redlock-pause".into()], vec![run]).unwrap();
        assert_eq!(page.matches("data-run>").count(), 1);
        assert_eq!(page.matches("</script>").count(), 2, "the script ends none of its own");
        for outside in [" src=", "href=\"http", "@import", "url(http"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
