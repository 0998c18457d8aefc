//! Damaged fault scripts: see `tenure-damage`.

use proptest::prelude::*;
use tenure_damage::{damaged_text, frugally, hold};
use tenure_lab::{
    algorithms::SCENARIOS,
    engine::Trace,
    faults::{BLOWS, Script},
};

/// Some lines of a script: the stories' own, and every blow that there is.
fn script() -> impl Strategy<Value = String> {
    let own = SCENARIOS.iter().copied().flatten().flat_map(|story| story.script.lines());
    let listed = BLOWS.iter().map(|(blow, _)| {
        let named = blow.replace("NAME… | NAME…", "a b | c").replace("NAME", "a");
        let timed = named.replace("TIME", "30ms").replace("SHARE", "5").replace('±', "-");
        format!("at 1s {timed} for 2s")
    });
    let lines: Vec<String> = own.map(str::to_owned).chain(listed).collect();
    prop::collection::vec(prop::sample::select(lines), 0..8).prop_map(|lines| lines.join("\n"))
}

#[test]
fn every_blow_that_is_listed_can_be_read() {
    for (blow, _) in BLOWS {
        let named = blow.replace("NAME… | NAME…", "a b | c").replace("NAME", "a");
        let line = named.replace("TIME", "30ms").replace("SHARE", "5").replace('±', "+");
        let line = format!("at 1s {}", line.replace("+5%", "5%"));
        assert!(line.parse::<Script>().is_ok(), "{line}");
    }
}

#[test]
fn a_damaged_script_is_refused_or_read() {
    hold(1000, damaged_text(script()), |text| {
        let Ok(script) = frugally(text.len(), || text.parse::<Script>()) else { return Ok(()) };
        prop_assert_eq!(script.to_string().parse(), Ok(script));
        Ok(())
    });
}

/// What can be read can be played, however little sense it makes.
#[test]
fn a_script_that_can_be_read_can_be_played() {
    let story = SCENARIOS.iter().copied().flatten().find(|story| story.name == "bully-crash");
    let story = story.expect("it is there");
    hold(60, damaged_text(script()), |text| {
        if let Ok(script) = text.parse::<Script>() {
            let _ = story.play(1, Some(&script), Trace::default());
        }
        Ok(())
    });
}
