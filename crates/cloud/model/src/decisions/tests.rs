use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{odds::Odds, schedule::Schedule};

const fn at(millis: u64) -> SimTime {
    SimTime::from_millis(millis)
}

fn scheduled(every: u64, lasts: u64) -> Schedule {
    let [every, lasts, offset] = [every, lasts, 0].map(Duration::from_millis);
    Schedule { every, lasts, offset }
}

fn new(windows: u64) -> Decisions<u8> {
    Decisions::new(
        FaultRecord {
            windows,
            ..FaultRecord::default()
        },
        BTreeSet::new(),
    )
}

fn known(record: FaultRecord) -> Decisions<u8> {
    Decisions::new(record, BTreeSet::new())
}

/// Decides about new subjects, all of which are drawn.
fn all_drawn<const N: usize>(decisions: &mut Decisions<u8>, budget: &Budget, now: u64) -> [Decided; N] {
    std::array::from_fn(|subject| {
        decisions.decide(budget, &(subject as u8), at(now), Earlier::Nothing, |_| true)
    })
}

#[test]
fn the_first_ones_pass_and_then_as_many_are_hit_as_the_budget_has() {
    use Decided::{Hit, PassedOver};
    let budget = Budget {
        skip: 1,
        count: Some(2),
        ..Budget::default()
    };
    let mut decisions = new(0);
    assert_eq!(
        all_drawn(&mut decisions, &budget, 1),
        [PassedOver, Hit, Hit, PassedOver]
    );
    // What comes after the last hit is not counted.
    assert_eq!(
        decisions.record,
        FaultRecord {
            matched: 3,
            hits: 2,
            ..FaultRecord::default()
        }
    );
    assert_eq!(
        (decisions.skipped(), decisions.known().count()),
        (&BTreeSet::from([0]), 2)
    );
}

#[test]
fn what_is_not_drawn_is_counted_and_decided_about_once() {
    let budget = Budget::default();
    let mut decisions = new(0);
    assert_eq!(
        decisions.decide(&budget, &7, at(1), Earlier::Nothing, |_| false),
        Decided::PassedOver
    );
    assert!(decisions.knows(&7));
    assert_eq!(
        decisions.decide(&budget, &7, at(2), Earlier::Nothing, |_| unreachable!()),
        Decided::PassedOver
    );
    assert_eq!(
        decisions.record,
        FaultRecord {
            matched: 1,
            ..FaultRecord::default()
        }
    );
    decisions.forget(&7);
    assert_eq!(
        decisions.decide(&budget, &7, at(3), Earlier::Nothing, |_| true),
        Decided::Hit
    );
}

#[test]
fn each_window_draws_for_itself_and_decides_about_all_again() {
    let budget = Budget {
        schedule: Some(scheduled(100, 10)),
        ..Budget::default()
    };
    let mut decisions = new(0);
    assert_eq!(decisions.turn(&budget, at(0)), Turn::Begins);
    let decide = |decisions: &mut Decisions<u8>, now| {
        decisions.decide(&budget, &1, at(now), Earlier::Nothing, |window| window == 2)
    };
    assert_eq!(decide(&mut decisions, 5), Decided::PassedOver);
    assert_eq!(decisions.turn(&budget, at(5)), Turn::Continues);
    assert_eq!(decisions.turn(&budget, at(10)), Turn::Ends);
    assert!(!decisions.knows(&1));
    // A window that has begun is in force as soon as what was hit in the one before is let go.
    assert!(!decisions.is_in_force(&budget, at(100)));
    assert_eq!(decide(&mut decisions, 100), Decided::PassedOver);
    assert_eq!(decisions.turn(&budget, at(100)), Turn::Begins);
    assert_eq!(decide(&mut decisions, 105), Decided::Hit);
    assert_eq!(
        decisions.record,
        FaultRecord {
            matched: 2,
            hits: 1,
            windows: 2,
            ..FaultRecord::default()
        }
    );
}

#[test]
fn a_fault_that_cannot_hit_any_more_begins_no_window() {
    let schedule = Some(scheduled(100, 10));
    let used_up = Budget {
        count: Some(1),
        schedule,
        ..Budget::default()
    };
    let over = Budget {
        lasts: Some(Duration::from_millis(90)),
        schedule,
        ..Budget::default()
    };
    for budget in [used_up, over] {
        let record = FaultRecord {
            matched: 1,
            hits: 1,
            windows: 1,
            ..FaultRecord::default()
        };
        let mut decisions = known(record);
        assert_eq!(decisions.turn(&budget, at(105)), Turn::Ends);
        assert_eq!(decisions.record, record);
    }
}

#[test]
fn a_fault_that_cannot_hit_any_more_begins_no_window_of_another_schedule_either() {
    let later = Budget {
        count: Some(1),
        schedule: Some(Schedule {
            offset: Duration::from_millis(50),
            ..scheduled(100, 10)
        }),
        ..Budget::default()
    };
    let mut decisions = known(FaultRecord {
        matched: 1,
        hits: 1,
        windows: 4,
        ..FaultRecord::default()
    });
    assert_eq!(decisions.turn(&later, at(305)), Turn::Ends);
    // The fourth window of the new schedule begins at 350.
    let seen = [305, 349, 350, 359, 360].map(|now| {
        let next = later.next_change(&decisions.record, at(now));
        (decisions.is_in_force(&later, at(now)), next)
    });
    assert_eq!(seen, [(false, None); 5]);
}

#[test]
fn what_an_earlier_process_has_not_listed_is_drawn_again_only_if_that_tells() {
    use Decided::{HitBefore, PassedOver};
    let unlimited = Budget::default();
    let limited = Budget {
        count: Some(9),
        ..Budget::default()
    };
    let record = FaultRecord {
        matched: 5,
        hits: 5,
        ..FaultRecord::default()
    };
    let told = |budget: &Budget, earlier, paused| {
        let mut decisions = Decisions {
            paused,
            ..known(record)
        };
        let decided = decisions.decide(budget, &1, at(1), earlier, |_| true);
        assert_eq!(decisions.record, record, "nothing is counted twice");
        (decided, decisions.knows(&1))
    };
    assert_eq!(told(&unlimited, Earlier::Drawn, false), (HitBefore, false));
    assert_eq!(told(&unlimited, Earlier::Listed, false), (PassedOver, true));
    assert_eq!(told(&limited, Earlier::Drawn, false), (PassedOver, true));
    // A paused fault keeps what it has hit. What came during the pause is decided about after it.
    assert_eq!(told(&unlimited, Earlier::Drawn, true), (HitBefore, false));
    assert_eq!(told(&unlimited, Earlier::Listed, true), (PassedOver, false));
    assert_eq!(told(&unlimited, Earlier::Nothing, true), (PassedOver, false));
}

#[test]
fn the_newest_hits_are_kept() {
    let mut hits = LastHits::default();
    (0..14).for_each(|hit| hits.push(hit));
    assert!(hits.newest_first().eq((4..14).rev().collect::<Vec<_>>().iter()));
    assert_eq!(LastHits::<u8>::default().newest_first().next(), None);
}

#[derive(Clone, Debug)]
enum Step {
    Ask(u8),
    Wait(u64),
    /// The process ends, and the next one asks about the subjects in an order that begins with this one.
    Restart(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u8..16).prop_map(Step::Ask),
        2 => (1u64..80).prop_map(Step::Wait),
        2 => (0u8..16).prop_map(Step::Restart),
    ]
}

fn budget() -> impl Strategy<Value = Budget> {
    let schedule = prop::option::of((20u64..200).prop_map(|every| scheduled(every, every / 2)));
    let lasts = prop::option::of((100u64..1_000).prop_map(Duration::from_millis));
    let probability = prop_oneof![Just(1.0), Just(0.5)];
    (probability, 0u64..4, prop::option::of(0u64..6), lasts, schedule).prop_map(
        |(probability, skip, count, lasts, schedule)| {
            let probability = Odds::new(probability);
            Budget {
                probability,
                skip,
                count,
                lasts,
                schedule,
            }
        },
    )
}

/// A draw that depends on the subject and the window alone.
fn draw(budget: &Budget, subject: u8, window: u64) -> bool {
    let unit = (u64::from(subject) * 7 + window * 5) % 16;
    (unit as f64) / 16.0 < budget.probability.probability()
}

/// A process that carries a fault out.
#[derive(Clone, Debug, PartialEq)]
struct Process {
    decisions: Decisions<u8>,
    hit: BTreeSet<u8>,
}

impl Process {
    fn turn(&mut self, budget: &Budget, now: SimTime) -> Turn {
        let turn = self.decisions.turn(budget, now);
        if turn != Turn::Continues {
            self.hit.clear();
        }
        turn
    }

    fn is_hit(&mut self, budget: &Budget, subject: u8, now: SimTime, earlier: Earlier) -> bool {
        if !self.hit.contains(&subject) {
            let draw = |window| draw(budget, subject, window);
            if self.decisions.decide(budget, &subject, now, earlier, draw) != Decided::PassedOver {
                self.hit.insert(subject);
            }
        }
        self.hit.contains(&subject)
    }

    /// The next process, with the record and the lists of this one.
    fn restarted(&self, listed_max: usize) -> Self {
        let Self { decisions, hit } = self;
        let hit = hit.iter().copied().take(listed_max).collect();
        Self {
            decisions: Decisions::new(decisions.record, decisions.skipped().clone()),
            hit,
        }
    }
}

/// Lets one process live through all steps, and others come and go. Both are asked the same.
fn compare(
    budget: &Budget,
    steps: Vec<Step>,
    listed_max: usize,
    earlier: Earlier,
) -> Result<(), TestCaseError> {
    let mut lives = Process {
        decisions: new(0),
        hit: BTreeSet::new(),
    };
    lives.turn(budget, at(0));
    let mut restarts = lives.clone();
    let mut now = 0;
    let mut met = BTreeSet::new();
    for step in steps {
        let (asked, earlier) = match step {
            Step::Ask(subject) => {
                met.insert(subject);
                (vec![subject], Earlier::Nothing)
            }
            Step::Wait(millis) => {
                now += millis;
                prop_assert_eq!(lives.turn(budget, at(now)), restarts.turn(budget, at(now)));
                // A window that begins decides about all that are there.
                (met.iter().copied().collect(), Earlier::Nothing)
            }
            Step::Restart(first) => {
                restarts = restarts.restarted(listed_max);
                restarts.turn(budget, at(now));
                (
                    met.range(first..).chain(met.range(..first)).copied().collect(),
                    earlier,
                )
            }
        };
        for subject in asked {
            let hit = lives.is_hit(budget, subject, at(now), Earlier::Nothing);
            prop_assert_eq!(
                restarts.is_hit(budget, subject, at(now), earlier),
                hit,
                "{} at {}",
                subject,
                now
            );
        }
        prop_assert_eq!(restarts.decisions.record, lives.decisions.record);
        prop_assert_eq!(&restarts.hit, &lives.hit);
    }
    Ok(())
}

proptest! {
    /// Where the next process gets the whole lists, it decides the same.
    #[test]
    fn a_restart_with_whole_lists_does_not_show(budget in budget(), steps in prop::collection::vec(step(), 1..60)) {
        compare(&budget, steps, usize::MAX, Earlier::Listed)?;
    }

    /// Where the number of hits has no limit, it also does so when the list of what is hit is cut.
    #[test]
    fn a_restart_with_a_cut_list_does_not_show_where_the_draw_tells(
        budget in budget(), listed_max in 0usize..4, steps in prop::collection::vec(step(), 1..60)
    ) {
        compare(&Budget { count: None, ..budget }, steps, listed_max, Earlier::Drawn)?;
    }
}

fn budgets() -> impl Strategy<Value = Budget> {
    let schedule = (2u64..100)
        .prop_flat_map(|every| (Just(every), 1..every, 0u64..100))
        .prop_map(|(every, lasts, offset)| Schedule {
            offset: Duration::from_millis(offset),
            ..scheduled(every, lasts)
        });
    let lasts = proptest::option::of((0u64..500).prop_map(Duration::from_millis));
    (
        proptest::option::of(schedule),
        proptest::option::of(0u64..3),
        lasts,
    )
        .prop_map(|(schedule, count, lasts)| Budget {
            schedule,
            count,
            lasts,
            ..Budget::default()
        })
}

proptest! {
    /// Otherwise a process that starts between two changes waits for another one than the process before it. The budget
    /// changes once, with the numbers of its windows.
    #[test]
    fn the_next_change_is_the_same_until_it_comes(
        first in budgets(), second in budgets(), hits in 0u64..3, changed in 0u64..500,
    ) {
        let mut decisions = known(FaultRecord { hits, ..FaultRecord::default() });
        let mut now = 0;
        loop {
            decisions.turn(&first, at(now));
            match first.next_change(&decisions.record, at(now)).map(SimTime::as_millis) {
                Some(next) if next > now && next <= changed => now = next,
                _ => break,
            }
        }
        decisions.turn(&second, at(changed));
        let next = second.next_change(&decisions.record, at(changed));
        let until = next.map_or(changed + 1000, SimTime::as_millis);
        for now in changed..until {
            prop_assert_eq!(second.next_change(&decisions.record, at(now)), next, "at {}", now);
        }
    }
}
