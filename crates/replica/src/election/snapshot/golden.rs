//! Every kind of record, as they lie on disks.

use tenure_damage::Golden;

use super::*;

const FILE: &str = include_str!("../../../tests/golden/queues.txt");
const SESSION_ID: LeaseId = LeaseId(0x7000_0000_0000_0001);

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// With every refusal there is among its answers.
fn session() -> Session {
    let mut session = Session::new("me".to_owned(), 2500, true);
    session.attachment = 3;
    session.candidates = [text("a"), text("b")].into();
    session.forgotten = 40;
    session.remember(41, Ok(vec![Revision(300), Revision(301)]));
    let remembered = Refusal::ALL.iter().filter(|refusal| **refusal != Refusal::WrongSecret);
    for (refusal, request) in remembered.zip(42..) {
        session.remember(request, Err(*refusal));
    }
    session
}

/// A candidate as a session makes it.
fn candidate(mode: Mode, created: i64) -> Arc<Candidate> {
    let spec = CandidateSpec {
        session: SESSION_ID,
        mode,
        priority: 500,
        preempts: true,
        no_overlap: false,
        metadata: vec![("zone".to_owned(), "west".to_owned())],
        together: vec![text("a"), text("b")],
    };
    Arc::new(Candidate {
        key: text("a/7000000000000001"),
        created: Revision(created),
        lease: Some(SESSION_ID),
        since_ms: 1_700_000_000_000,
        spec: Some(Arc::new(spec)),
        slot: Some(0),
        told: true,
        unhealthy: false,
    })
}

/// A candidate as a stock client makes it.
fn stock_candidate() -> Arc<Candidate> {
    Arc::new(Candidate {
        key: text("a/7b"),
        created: Revision(303),
        lease: None,
        since_ms: 1_700_000_000_000,
        spec: None,
        slot: None,
        told: false,
        unhealthy: true,
    })
}

fn tenure(end: Option<TenureEnd>) -> Tenure {
    Tenure {
        identity: "me".to_owned(),
        token: Revision(300),
        value: text("value"),
        from: Revision(299),
        from_ms: 1_700_000_000_000,
        end,
    }
}

/// With every reason there is in its history.
fn election() -> Election {
    let reasons = (0..=u8::MAX).filter_map(EndReason::from_number);
    let ended = |why| {
        tenure(Some(TenureEnd { at: Revision(301), at_ms: 1_700_000_000_001, why, stopped: true }))
    };
    Election {
        candidates: vec![
            candidate(Mode::Exclusive, 300),
            candidate(Mode::Shared, 301),
            candidate(Mode::Permit(3), 302),
            stock_candidate(),
        ],
        transfer: Some(Transfer {
            to: SESSION_ID,
            from: Revision(300),
            within_ms: 5000,
            why: EndReason::Transferred,
        }),
        chosen: None,
        delays: vec![SESSION_ID],
        tenure: Some(tenure(None)),
        history: reasons.map(ended).collect(),
        forgotten: Revision(7),
        idle_since: None,
        vacated: false,
    }
}

fn idle_election() -> Election {
    Election { idle_since: Some(Revision(300)), forgotten: Revision(9), ..Election::default() }
}

fn delay() -> Delay {
    let names = vec![(text("a"), Revision(300)), (text("b"), Revision(301))];
    Delay { ttl_ms: 2500, since: Revision(302), names, secret: None }
}

fn samples() -> Vec<(&'static str, Elections)> {
    let empty = Elections::default;
    let elections = |election| [(text("a"), Arc::new(election))].into_iter().collect();
    let idle = [(Revision(300), text("a"))].into_iter().collect();
    let sessions = [(SESSION_ID, Arc::new(session()))].into_iter().collect();
    let owner = Some("ada".into());
    let owned = [(SESSION_ID, Arc::new(Session { owner, ..session() }))].into_iter().collect();
    let delays = [(SESSION_ID, delay())].into_iter().collect();
    let secret = Some(SecretDigest([7; SecretDigest::BYTES]));
    let secret_session = Arc::new(Session { secret, ..session() });
    let secret_sessions = [(SESSION_ID, secret_session)].into_iter().collect();
    let secret_delays = [(SESSION_ID, Delay { secret, ..delay() })].into_iter().collect();
    vec![
        ("1 session", Elections { sessions, ..empty() }),
        ("2 line", Elections { elections: elections(election()), ..empty() }),
        (
            "2 line in which nobody stands",
            Elections { elections: elections(idle_election()), idle, ..empty() },
        ),
        ("3 delay", Elections { delays, ..empty() }),
        ("6 session of a user", Elections { sessions: owned, ..empty() }),
        ("7 session and its secret", Elections { sessions: secret_sessions, ..empty() }),
        ("8 delay and its secret", Elections { delays: secret_delays, ..empty() }),
        ("4 forgotten", Elections { forgotten: Revision(300), ..empty() }),
    ]
}

/// The second candidate of an election of two, if a record takes no more than one.
fn more_candidates() -> (Elections, Vec<Vec<u8>>) {
    let election = Election {
        candidates: vec![candidate(Mode::Exclusive, 300), stock_candidate()],
        ..Election::default()
    };
    let records = election_records(&text("a"), &election, 1).collect();
    let elections = [(text("a"), Arc::new(election))].into_iter().collect();
    (Elections { elections, ..Elections::default() }, records)
}

fn read(records: &[u8]) -> Result<Elections, DecodeError> {
    let mut elections = Elections::default();
    let mut input = Reader::new(records);
    while input.remaining() > 0 {
        elections.decode_one(&mut input)?;
    }
    Ok(elections)
}

#[test]
fn election_record_bytes_never_change() {
    let record = |elections: &Elections| elections.records().collect::<Vec<_>>().concat();
    let mut made: Vec<_> =
        samples().iter().map(|(name, elections)| ((*name).to_owned(), record(elections))).collect();
    let (long, records) = more_candidates();
    made.push(("5 places".to_owned(), records[1].clone()));
    let golden = Golden::read(FILE);
    golden.is_what_is_made(&made);
    for (name, elections) in samples() {
        assert_eq!(read(golden.bytes(name)), Ok(elections), "{name}");
    }
    assert_eq!(read(&[&records[0], golden.bytes("5 places")].concat()), Ok(long));
}

#[test]
fn election_record_kinds_all_have_samples() {
    let golden = Golden::read(FILE);
    for tag in 0..=u8::MAX {
        if read(&[tag]) != Err(DecodeError::UnknownTag { what: "queue record", tag }) {
            assert!(golden.has(&tag.to_string()), "record {tag} has no sample");
        }
    }
}
