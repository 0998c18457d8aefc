//! The machine dies, or the disk fails, at every step of writing a newer token down.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use super::super::{Gate, GateLimits, Obstacle, OpenError, Pass, Refusal};
use super::simulated::{Op, STEPS, Simulated, Survived};
use super::token;

fn open(disk: &Simulated) -> Result<Gate, OpenError> {
    Gate::open_on(Box::new(disk.clone()), GateLimits::default())
}

/// A gate that has token 7 in force, and its disk.
fn at_seven() -> (Gate, Simulated) {
    let disk = Simulated::default();
    let gate = Gate::create_on(Box::new(disk.clone()), GateLimits::default()).unwrap();
    gate.raise_blocking(token(7)).unwrap();
    (gate, disk)
}

#[test]
fn gate_takes_four_disk_steps_for_a_newer_token_and_none_for_a_known_one() {
    let (gate, disk) = at_seven();
    let newer = Pass::from(token(8));
    for pass in [newer, newer.shared(), newer.permit(0), Pass::to("other", token(1))] {
        let before = disk.log().len();
        gate.raise_blocking(pass).unwrap();
        assert_eq!(disk.log()[before..], STEPS, "{pass:?}");
        gate.raise_blocking(pass).unwrap();
        let _ = gate.raise_blocking(token(7)).unwrap_err();
        assert_eq!(disk.log().len(), before + STEPS.len(), "{pass:?}");
    }
}

#[test]
fn gate_is_the_old_or_the_new_one_after_a_crash_at_any_step() {
    let mut opened = 0;
    for step in 0..=STEPS.len() {
        for late in [false, true] {
            for survived in Survived::all() {
                let (gate, disk) = at_seven();
                disk.fail_at(step, late);
                let promised = gate.raise_blocking(token(9));
                assert_eq!(promised.is_ok(), step == STEPS.len(), "step {step}");
                drop(gate);
                let found = open(&disk.after_crash(survived))
                    .unwrap_or_else(|error| panic!("step {step} {survived:?}: {error}"));
                let in_force = found.in_force("").unwrap();
                let allowed = if promised.is_ok() { vec![9] } else { vec![7, 9] };
                assert!(allowed.contains(&in_force.get()), "step {step} {survived:?}: {in_force}");
                // And it works on, over whatever the last try has left beside it.
                found.raise_blocking(token(10)).unwrap();
                opened += 1;
            }
        }
    }
    assert_eq!(opened, 5 * 2 * 10);
}

#[test]
fn gate_is_absent_or_new_after_a_crash_while_it_was_made() {
    for step in 0..=STEPS.len() {
        for survived in Survived::all() {
            let disk = Simulated::default();
            disk.fail_at(step, false);
            let made = Gate::create_on(Box::new(disk.clone()), GateLimits::default());
            match open(&disk.after_crash(survived)) {
                Ok(found) => assert_eq!(found.in_force(""), None),
                Err(OpenError::Missing { .. }) => assert!(made.is_err(), "step {step}"),
                Err(other) => panic!("step {step} {survived:?}: {other}"),
            }
        }
    }
}

#[test]
fn gate_never_admits_again_after_a_failed_disk_step() {
    for step in 0..STEPS.len() {
        for late in [false, true] {
            let (gate, disk) = at_seven();
            disk.fail_at(step, late);
            let refused = gate.raise_blocking(token(9)).unwrap_err();
            assert!(matches!(refused, Refusal::Broken { .. }), "step {step}: {refused}");
            disk.repair();
            let writes = disk.log().len();
            for revision in [7, 9, 10] {
                let refused = gate.enter_blocking(token(revision)).unwrap_err();
                assert!(matches!(refused, Refusal::Broken { .. }), "step {step}: {refused}");
                assert!(!gate.admits(Pass::to("other", token(revision))).is_admitted());
            }
            assert_eq!(disk.log().len(), writes, "a failed write is not tried again");
        }
    }
}

#[tokio::test]
async fn gate_ends_waiting_tasks_when_a_write_fails() {
    let (gate, disk) = at_seven();
    disk.fail_at(1, false);
    let refused = gate.enter(token(9)).await.unwrap_err();
    assert!(matches!(refused, Refusal::Broken { .. }), "{refused}");
    assert!(matches!(gate.enter(token(7)).await, Err(Refusal::Broken { .. })));
}

/// It is unknown how far a write got that ended in a panic.
#[tokio::test]
async fn gate_is_closed_by_a_write_that_is_given_up_half_way() {
    for on_this_thread in [true, false] {
        let (gate, disk) = at_seven();
        disk.panic();
        if on_this_thread {
            catch_unwind(AssertUnwindSafe(|| gate.raise_blocking(token(9)))).unwrap_err();
        } else {
            let refused = gate.raise(token(9)).await.unwrap_err();
            assert!(matches!(refused, Refusal::Broken { .. }), "{refused}");
        }
        let refused = gate.enter_blocking(token(9)).unwrap_err();
        assert!(matches!(refused, Refusal::Broken { .. }), "{refused}");
    }
}

#[tokio::test]
async fn gate_waits_for_a_silent_disk_only_so_long() {
    let disk = Simulated::default();
    let limits = GateLimits { patience: Duration::from_millis(20), ..GateLimits::default() };
    let gate = Gate::create_on(Box::new(disk.clone()), limits).unwrap();
    disk.stall(true);
    let refused = gate.enter(token(9)).await.unwrap_err();
    let Refusal::NotYet { obstacle: Obstacle::Disk { .. }, .. } = refused else {
        panic!("{refused}")
    };
    // It is not let in before the disk has it, and what is older is shut out already.
    assert!(matches!(gate.enter(token(7)).await, Err(Refusal::Stale { .. })));
    assert!(!gate.admits(token(9)).is_admitted());
    disk.stall(false);
    while let Err(refused) = gate.raise(token(9)).await {
        assert!(matches!(refused, Refusal::NotYet { .. }), "{refused}");
    }
    assert_eq!(disk.log().len(), 2 * STEPS.len(), "written once, though asked for often");
}

#[test]
fn gate_lets_passages_end_after_the_disk_failed() {
    let (gate, disk) = at_seven();
    let inside = gate.enter_blocking(token(7)).unwrap();
    disk.fail_at(0, false);
    let _ = gate.raise_blocking(token(9)).unwrap_err();
    assert!(inside.is_overtaken());
    drop(inside);
}

/// The checks above are worth something only if they notice a disk that skips a step.
#[test]
fn gate_test_notices_a_disk_that_lies_about_a_flush() {
    for lie in [Op::FlushFile, Op::FlushDirectory] {
        let (gate, disk) = at_seven();
        disk.lie(lie);
        gate.raise_blocking(token(9)).unwrap();
        let outcomes =
            Survived::all().into_iter().map(|survived| match open(&disk.after_crash(survived)) {
                Ok(found) => found.in_force("") == Some(token(9)),
                Err(OpenError::Damaged { .. }) => false,
                Err(other) => panic!("{lie:?} {survived:?}: {other}"),
            });
        let outcomes: Vec<bool> = outcomes.collect();
        assert!(outcomes.contains(&false), "{lie:?} was not noticed");
    }
}

#[test]
fn gate_remembers_all_kinds_of_tokens() {
    let disk = Simulated::default();
    let gate = Gate::create_on(Box::new(disk.clone()), GateLimits::default()).unwrap();
    gate.raise_blocking(Pass::to("table", token(5))).unwrap();
    gate.raise_blocking(Pass::to("table", token(6)).shared()).unwrap();
    gate.raise_blocking(Pass::to("table", token(3)).permit(1)).unwrap();
    drop(gate);
    let found = open(&disk.after_crash(Survived { names: false, bytes_percent: 0 })).unwrap();
    // The writer that the reader made stale stays stale, and readers of its time stay welcome.
    assert!(!found.admits(Pass::to("table", token(5))).is_admitted());
    assert!(found.admits(Pass::to("table", token(5)).shared()).is_admitted());
    assert!(!found.admits(Pass::to("table", token(4)).shared()).is_admitted());
    assert!(!found.admits(Pass::to("table", token(2)).permit(1)).is_admitted());
    assert!(found.admits(Pass::to("table", token(2)).permit(0)).is_admitted());
}
