use super::*;

const TTL: Duration = Duration::from_secs(10);
const ME: &str = "me";

fn at(secs: u64) -> Moment {
    Moment::after_start(Duration::from_secs(secs))
}

fn token(number: i64) -> FencingToken {
    FencingToken::from_revision(number).unwrap()
}

fn leader(name: &str, number: i64, session: i64) -> Leader {
    Leader {
        name: name.into(),
        value: String::new(),
        token: token(number),
        session,
        since_unix_ms: None,
    }
}

fn news(leader: Option<Leader>, asked: u64) -> News {
    News { leader, as_of: at(asked), delayed: false }
}

fn own(number: i64, won: u64, may_act: Result<(), Doubt>) -> Own {
    Own {
        leader: leader(ME, number, 1),
        won_at: at(won),
        may_act,
        remaining: Duration::from_secs(5),
        unconfirmed: Duration::from_secs(4),
    }
}

fn nothing<'a>() -> Known<'a> {
    Known {
        identity: Some(ME),
        ttl: TTL,
        own: None,
        session: Some(Alive { id: 1, remaining: Duration::from_secs(3) }),
        news: None,
        not_before: Moment::default(),
        over: None,
    }
}

fn sure(belief: &Belief) -> &Sure {
    match belief {
        Belief::Sure(sure) => sure,
        Belief::Unsure(why) => panic!("{why:?}"),
    }
}

fn names(belief: &Belief) -> Option<&str> {
    sure(belief).leader.as_ref().map(|leader| leader.name.as_str())
}

#[test]
fn belief_says_nothing_before_it_has_heard_something() {
    assert_eq!(judge(nothing(), at(1)), Belief::Unsure(Unsure::NothingHeard));
}

#[test]
fn belief_repeats_what_it_heard_for_a_lease_and_not_longer() {
    let other = news(Some(leader("you", 7, 2)), 100);
    let known = Known { news: Some(&other), ..nothing() };
    let belief = judge(known, at(109));
    assert_eq!(names(&belief), Some("you"));
    assert_eq!(sure(&belief).expires_in, Duration::from_secs(1));
    assert!(!sure(&belief).is_leader);
    let late = Belief::Unsure(Unsure::Stale { age: TTL });
    assert_eq!(judge(known, at(110)), late);
}

#[test]
fn belief_may_be_that_there_is_no_leader() {
    let none = news(None, 100);
    let belief = judge(Known { news: Some(&none), ..nothing() }, at(101));
    assert_eq!(names(&belief), None);
}

#[test]
fn belief_is_to_lead_while_it_may_act() {
    let own = own(7, 100, Ok(()));
    let belief = judge(Known { own: Some(&own), ..nothing() }, at(105));
    assert!(sure(&belief).is_leader);
    assert_eq!(sure(&belief).expires_in, own.remaining);
}

#[test]
fn belief_is_renewed_and_not_prolonged_by_being_found_a_candidate() {
    let own = own(7, 100, Ok(()));
    let ours = news(Some(leader(ME, 7, 1)), 104);
    let known = Known { own: Some(&own), news: Some(&ours), ..nothing() };
    let belief = judge(known, at(105));
    assert_eq!(sure(&belief).age, Duration::from_secs(1));
    assert_eq!(sure(&belief).expires_in, own.remaining);
}

#[test]
fn belief_in_doubt_names_the_leader_and_begins_nothing() {
    let own = own(7, 100, Err(Doubt::Suspect { remaining: Duration::from_secs(5) }));
    let belief = judge(Known { own: Some(&own), ..nothing() }, at(105));
    assert_eq!((names(&belief), sure(&belief).is_leader), (Some(ME), false));
}

/// A process that was paused past its lease finds its own name in everything it remembers.
#[test]
fn belief_never_answers_a_lost_tenure_from_memory() {
    let mut own = own(7, 100, Err(Doubt::Lost));
    own.remaining = Duration::ZERO;
    let heard = news(Some(leader(ME, 7, 1)), 104);
    let known = Known { own: Some(&own), session: None, news: Some(&heard), ..nothing() };
    assert_eq!(judge(known, at(111)), Belief::Unsure(Unsure::SameIdentity));
    assert!(matches!(judge(known, at(120)), Belief::Unsure(Unsure::Stale { .. })));
}

#[test]
fn belief_ends_with_a_greater_token() {
    let own = own(7, 100, Ok(()));
    // Asked before we won, and answered with the leader after us.
    let heard = news(Some(leader("you", 9, 2)), 99);
    let known = Known { own: Some(&own), news: Some(&heard), ..nothing() };
    assert_eq!(names(&judge(known, at(101))), Some("you"));
}

#[test]
fn belief_does_not_end_with_older_news() {
    let own = own(7, 100, Ok(()));
    for heard in [news(Some(leader("you", 5, 2)), 99), news(None, 99)] {
        let known = Known { own: Some(&own), news: Some(&heard), ..nothing() };
        assert!(sure(&judge(known, at(101))).is_leader, "{heard:?}");
    }
}

/// Evicted or frozen, and the answer overtook the event.
#[test]
fn belief_follows_a_later_answer_without_us() {
    let own = own(7, 100, Ok(()));
    let heard = news(None, 101);
    let belief = judge(Known { own: Some(&own), news: Some(&heard), ..nothing() }, at(102));
    assert_eq!((names(&belief), sure(&belief).is_leader), (None, false));
}

#[test]
fn belief_answers_our_name_only_for_our_own_session() {
    let ours = news(Some(leader(ME, 7, 1)), 100);
    let belief = judge(Known { news: Some(&ours), ..nothing() }, at(101));
    assert_eq!((names(&belief), sure(&belief).is_leader), (Some(ME), false));
    assert_eq!(sure(&belief).expires_in, Duration::from_secs(3), "no longer than the session");
    let theirs = news(Some(leader(ME, 7, 2)), 100);
    let known = Known { news: Some(&theirs), ..nothing() };
    assert_eq!(judge(known, at(101)), Belief::Unsure(Unsure::SameIdentity));
    let looks_only = Known { identity: None, session: None, ..known };
    assert_eq!(names(&judge(looks_only, at(101))), Some(ME));
}

#[test]
fn belief_does_not_name_again_what_was_given_up() {
    let ours = news(Some(leader(ME, 7, 1)), 101);
    let known = Known { news: Some(&ours), over: Some(token(7)), ..nothing() };
    assert_eq!(judge(known, at(102)), Belief::Unsure(Unsure::NotLeadingAnyMore));
    // Heard before we gave it up: there was no leader, which was before we led.
    let before = news(None, 100);
    let known = Known { news: Some(&before), not_before: at(101), ..nothing() };
    assert_eq!(judge(known, at(102)), Belief::Unsure(Unsure::NotLeadingAnyMore));
}

/// The servers have elected us and do not tell us: the one before may be cut off, and believe.
#[test]
fn belief_keeps_our_name_back_while_the_process_before_may_believe() {
    let ours = News { delayed: true, ..news(Some(leader(ME, 7, 1)), 100) };
    let known = Known { news: Some(&ours), ..nothing() };
    assert_eq!(judge(known, at(101)), Belief::Unsure(Unsure::NotYet));
    // Told after that was heard: the delay was over then.
    let own = own(7, 101, Ok(()));
    assert!(sure(&judge(Known { own: Some(&own), ..known }, at(102))).is_leader);
    let looks_only = Known { identity: None, session: None, ..known };
    assert_eq!(names(&judge(looks_only, at(101))), Some(ME), "others may know who is next");
}
