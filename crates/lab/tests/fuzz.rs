//! Damaged fault scripts: see `tenure-damage`.

use proptest::prelude::*;
use tenure_damage::{damaged_text, frugally, hold};
use tenure_lab::{
    algorithms::STORIES,
    engine::Trace,
    faults::{FAULT_SYNTAX, FaultScript},
};

/// Some lines of a script: those of all stories, and every fault of the syntax table.
fn script() -> impl Strategy<Value = String> {
    let own = STORIES.iter().copied().flatten().flat_map(|story| story.script.lines());
    let listed = FAULT_SYNTAX.iter().map(|(fault, _)| {
        let named = fault.replace("NAME… | NAME…", "a b | c").replace("NAME", "a");
        let timed = named.replace("TIME", "30ms").replace("SHARE", "5").replace('±', "-");
        format!("at 1s {timed} for 2s")
    });
    let lines: Vec<String> = own.map(str::to_owned).chain(listed).collect();
    prop::collection::vec(prop::sample::select(lines), 0..8).prop_map(|lines| lines.join("\n"))
}

#[test]
fn fault_syntax_table_can_be_parsed() {
    for (fault, _) in FAULT_SYNTAX {
        let named = fault.replace("NAME… | NAME…", "a b | c").replace("NAME", "a");
        let line = named.replace("TIME", "30ms").replace("SHARE", "5").replace('±', "+");
        let line = format!("at 1s {}", line.replace("+5%", "5%"));
        assert!(line.parse::<FaultScript>().is_ok(), "{line}");
    }
}

#[test]
fn damaged_script_is_refused_or_parsed() {
    hold(1000, damaged_text(script()), |text| {
        let Ok(script) = frugally(text.len(), || text.parse::<FaultScript>()) else {
            return Ok(());
        };
        prop_assert_eq!(script.to_string().parse(), Ok(script));
        Ok(())
    });
}

/// A script that can be parsed can be played, however little sense it makes.
#[test]
fn parsed_script_can_be_played() {
    let story = STORIES.iter().copied().flatten().find(|story| story.name == "bully-crash");
    let story = story.expect("it is there");
    hold(60, damaged_text(script()), |text| {
        if let Ok(script) = text.parse::<FaultScript>() {
            let _ = story.play(1, Some(&script), Trace::default());
        }
        Ok(())
    });
}
