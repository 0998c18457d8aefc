//! Guided tours: a story with a sentence at each event that matters.
//!
//! A tour plays the real run of its story with seed 1 and stops at events of its trace. Each [`Stop`] says by which event it is
//! found: the first one that fits after the stop before it. A test plays every story and finds every stop, so a caption can
//! not speak of something that does not happen.

mod captions;

pub use captions::TOURS;

/// A story with captions.
#[derive(Clone, Copy, Debug)]
pub struct Tour {
    /// What it is about, for a list: `Redlock`.
    pub title: &'static str,
    pub story: &'static str,
    pub stops: &'static [Stop],
}

/// A caption, and the event at which it is shown.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    pub cue: Cue,
    pub says: &'static str,
}

/// How an event is found. What is empty fits every event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cue {
    /// The kind of event: `lead`, `fault`, `written`.
    pub event: &'static str,
    /// The process.
    pub who: &'static str,
    /// A part of its text.
    pub text: &'static str,
}

/// The seed that tours are written for.
pub const TOUR_SEED: u64 = 1;

/// An event of a trace, as far as cues look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CueEvent<'a> {
    pub event: &'a str,
    pub who: &'a str,
    pub text: &'a str,
}

impl Cue {
    fn fits(&self, event: &CueEvent<'_>) -> bool {
        (self.event.is_empty() || self.event == event.event)
            && (self.who.is_empty() || self.who == event.who)
            && event.text.contains(self.text)
    }
}

/// The tour of a story, if there is one.
pub fn tour_of(story: &str) -> Option<&'static Tour> {
    TOURS.iter().find(|tour| tour.story == story)
}

impl Tour {
    /// The places of its stops in a trace.
    ///
    /// # Errors
    /// The first stop whose event is not there.
    pub fn find<'a>(
        &self,
        events: impl IntoIterator<Item = CueEvent<'a>>,
    ) -> Result<Vec<usize>, Stop> {
        let mut stops = self.stops.iter().peekable();
        let mut found = vec![];
        for (place, event) in events.into_iter().enumerate() {
            // Two stops may be at one event.
            while stops.next_if(|stop| stop.cue.fits(&event)).is_some() {
                found.push(place);
            }
        }
        stops.next().map_or(Ok(found), |missing| Err(*missing))
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

    use super::*;
    use crate::{
        algorithms::story,
        engine::{Trace, TraceEvent},
    };

    fn trace_of(name: &str) -> Vec<TraceEvent> {
        let events = Rc::new(RefCell::new(vec![]));
        let kept = Rc::clone(&events);
        let trace = Trace::events_read_by(move |_, event| kept.borrow_mut().push(event.clone()));
        story(name).expect("the story exists").play(TOUR_SEED, None, trace).expect("it plays");
        events.take()
    }

    fn cue_event(event: &TraceEvent) -> CueEvent<'_> {
        let who = event.who.as_deref().unwrap_or_default();
        CueEvent { event: event.kind, who, text: &event.text }
    }

    #[test]
    fn tour_stops_at_events_that_happen_in_order() {
        let mut missing = vec![];
        for tour in TOURS {
            let trace = trace_of(tour.story);
            match tour.find(trace.iter().map(cue_event)) {
                Ok(found) => assert!(found.is_sorted() && found.len() == tour.stops.len()),
                Err(stop) => missing.push((tour.story, stop.cue)),
            }
        }
        assert!(missing.is_empty(), "no such events: {missing:#?}");
    }

    #[test]
    fn tour_ends_where_its_story_breaks_or_keeps_something() {
        for tour in TOURS {
            let broken = !story(tour.story).expect("the story exists").breaks.is_empty();
            let says_so = tour.stops.iter().any(|stop| stop.cue.event == "breach");
            let at_the_end = tour.story == "ring-token" || tour.story == "flp-stall";
            assert!(!broken || says_so || at_the_end, "{} hides its breach", tour.story);
        }
    }

    #[test]
    fn tour_captions_can_be_read_in_time_and_titles_are_unique() {
        let titles: BTreeSet<_> = TOURS.iter().map(|tour| tour.title).collect();
        assert_eq!(titles.len(), TOURS.len());
        for stop in TOURS.iter().flat_map(|tour| tour.stops) {
            assert!((20..=220).contains(&stop.says.len()), "{}", stop.says);
            assert!(stop.says.ends_with('.'), "{}", stop.says);
        }
    }

    #[test]
    fn tour_names_the_stop_that_is_not_there() {
        let tour = &TOURS[0];
        let missing = tour.find([]).expect_err("an empty trace has no events");
        assert_eq!(missing.says, tour.stops[0].says);
    }
}
