//! Makes a failing scenario shorter.

use crate::scenario::{Scenario, Scope, Step};

/// Drops steps and trouble while `fails` returns true for the rest. At most `tries` scenarios are tried.
#[must_use]
pub fn shrink(scenario: &Scenario, tries: usize, fails: impl Fn(&Scenario) -> bool) -> Scenario {
    let mut best = scenario.clone();
    let mut left = tries;
    let mut attempt = |candidate: Scenario, best: &mut Scenario| {
        if left == 0 || candidate == *best {
            return false;
        }
        left -= 1;
        let shorter = fails(&candidate);
        if shorter {
            *best = candidate;
        }
        shorter
    };
    attempt(
        Scenario {
            trouble: false,
            ..best.clone()
        },
        &mut best,
    );
    attempt(
        Scenario {
            standby: false,
            ..best.clone()
        },
        &mut best,
    );
    attempt(
        Scenario {
            keeps_state: false,
            ..best.clone()
        },
        &mut best,
    );
    attempt(
        Scenario {
            shares_ports: false,
            ..best.clone()
        },
        &mut best,
    );
    attempt(
        Scenario {
            quota: 0,
            ..best.clone()
        },
        &mut best,
    );
    // Halves first, then quarters, down to single steps.
    let mut size = best.steps.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < best.steps.len() {
            let mut steps = best.steps.clone();
            steps.drain(at..(at + size).min(best.steps.len()));
            if !attempt(
                Scenario {
                    steps,
                    ..best.clone()
                },
                &mut best,
            ) {
                at += size;
            }
        }
        size /= 2;
    }
    for at in 0..best.steps.len() {
        for simpler in simpler(&best.steps[at]) {
            let mut steps = best.steps.clone();
            steps[at] = simpler;
            attempt(
                Scenario {
                    steps,
                    ..best.clone()
                },
                &mut best,
            );
        }
    }
    best
}

/// Simpler steps that may replace a step.
fn simpler(step: &Step) -> Vec<Step> {
    match step {
        Step::Create {
            cluster,
            control_plane,
            workers,
            pooled,
            machine_pool,
        } => {
            let cluster = *cluster;
            let with = |control_plane: u8, workers: u8, pooled: bool| Step::Create {
                cluster,
                control_plane,
                workers,
                pooled,
                machine_pool: None,
            };
            vec![
                with(*control_plane, *workers, *pooled),
                Step::Create {
                    cluster,
                    control_plane: *control_plane,
                    workers: *workers,
                    pooled: false,
                    machine_pool: *machine_pool,
                },
                with(*control_plane, 0, *pooled),
                with((*control_plane).min(1), *workers, *pooled),
                with((*control_plane).min(1), 0, false),
            ]
        }
        Step::Restart(Scope::Even | Scope::LabelledEven | Scope::Nothing)
        | Step::Restore(_)
        | Step::Move
        | Step::Kill => {
            vec![Step::Restart(Scope::All)]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_failing_scenario_is_what_makes_it_fail() {
        let scenario = Scenario::of(7);
        let mut steps = scenario.steps.clone();
        steps.insert(3, Step::Jump(17));
        steps.push(Step::Pause(9));
        let fails = |scenario: &Scenario| {
            let at = |wanted: &Step| scenario.steps.iter().position(|step| step == wanted);
            at(&Step::Jump(17))
                .zip(at(&Step::Pause(9)))
                .is_some_and(|(jump, pause)| jump < pause)
        };
        let shrunk = shrink(
            &Scenario {
                steps,
                ..scenario.clone()
            },
            1000,
            fails,
        );
        let expected = Scenario {
            trouble: false,
            standby: false,
            keeps_state: false,
            shares_ports: false,
            quota: 0,
            steps: vec![Step::Jump(17), Step::Pause(9)],
            ..scenario
        };
        assert_eq!(shrunk, expected);
    }
}
