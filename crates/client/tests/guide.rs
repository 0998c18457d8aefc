//! The guide to the library shows code that compiles and runs: its blocks are parts of `examples/tour.rs`.
#![allow(clippy::unwrap_used)]

#[expect(dead_code, reason = "its main is for people")]
#[path = "../examples/tour.rs"]
mod tour;

include!("../doc/server.rs");

const GUIDE: &str = include_str!("../../../docs/tutorials/rust-library.md");
const TOUR: &str = include_str!("../examples/tour.rs");

/// The Rust blocks of a page, without indentation.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks = page.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.by_ref().map(unindented).collect()
}

fn unindented(code: &str) -> String {
    code.lines().map(|line| line.trim().to_owned() + "\n").collect()
}

#[test]
fn guide_shows_code_of_the_tour() {
    let (blocks, tour) = (blocks(GUIDE), unindented(TOUR));
    assert!(blocks.len() > 6, "{} blocks were found", blocks.len());
    for block in blocks {
        assert!(tour.contains(&block), "not in examples/tour.rs:\n{block}");
    }
}

#[test]
fn guide_shows_the_first_singleton_whole() {
    const PAGE: &str = include_str!("../../../docs/tutorials/first-singleton.md");
    const PROGRAM: &str = include_str!("../examples/first_singleton.rs");
    let (_, program) = PROGRAM.split_once("\n\n").unwrap();
    let (_, shown) = PAGE.split_once("```rust\n").unwrap();
    assert_eq!(shown.split("```").next(), Some(program));
}

#[test]
fn guide_tour_runs_to_its_end() {
    with_server(async |endpoints| tour::tour(&endpoints).await).unwrap();
}
