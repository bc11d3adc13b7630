//! The steps of a world, as data that is made from a seed and can be shortened.

use std::fmt;

use nephele_model::{FailureReason, Verb};
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::fault::{self, EFFECTS, OF_ADDRESSES};

/// The number of cluster names in a world. It is small, so that names are reused.
pub const CLUSTERS: u8 = 4;

/// The rate at which the time of a cloud falls behind.
pub(crate) const SLOW_CLOCK_RATE: &str = "0.1";

/// The rates of clocks of clouds.
pub const CLOCK_RATES: [&str; 5] = [SLOW_CLOCK_RATE, "1", "3.7", "10", "1000"];

/// A world, before it is run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scenario {
    /// The seed for all random draws.
    pub seed: u64,
    /// Whether requests of managers fail at random.
    pub trouble: bool,
    /// Whether a second manager stands by.
    pub standby: bool,
    /// Whether the objects of workload clusters are kept over restarts.
    pub keeps_state: bool,
    /// Whether a manager of the clusters with even numbers uses the same port range as a manager of all namespaces.
    #[serde(default)]
    pub shares_ports: bool,
    /// The quota of machines in a namespace; 0 means no limit.
    #[serde(default)]
    pub quota: u32,
    pub steps: Vec<Step>,
}

/// The objects that a manager reconciles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// Every namespace.
    All,
    /// The namespace of clusters with even numbers.
    Even,
    /// A watch filter whose label the objects of clusters with even numbers have.
    LabelledEven,
    /// A watch filter whose label the objects of clusters with odd numbers have.
    LabelledOdd,
    /// A watch filter that no object has as a label.
    Nothing,
}

/// One step. A step about a cluster that does not exist, or a creation of one that exists, does nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// A user creates a cluster.
    Create {
        /// The number of the cluster.
        cluster: u8,
        /// Control plane machines: 0, 1 or 3.
        control_plane: u8,
        workers: u8,
        /// Whether its addresses come from pools.
        pooled: bool,
        /// Machines of its MachinePool, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine_pool: Option<u8>,
    },
    /// A user asks for another number of workers.
    Scale {
        /// The number of the cluster.
        cluster: u8,
        workers: u8,
    },
    /// A user asks for another number of machines of the MachinePool.
    ScalePool {
        /// The number of the cluster.
        cluster: u8,
        machines: u8,
    },
    /// A user asks for the other one of two versions.
    Upgrade(u8),
    /// A user deletes a cluster.
    Delete(u8),
    /// A user pauses a cluster.
    Pause(u8),
    /// A user unpauses a cluster.
    Unpause(u8),
    /// The instance of a worker or of a MachinePool's machine is terminated.
    Terminate {
        /// The number of the cluster.
        cluster: u8,
        /// Which of its workers, modulo their number.
        worker: u8,
    },
    /// A worker is deleted, and a user removes our finalizer from its InMemoryMachine by force.
    Strip {
        /// The number of the cluster.
        cluster: u8,
        /// Which of its workers, modulo their number.
        worker: u8,
    },
    /// The objects of a cluster have owner references as an earlier release would have written them: they name another version
    /// of the owners' kinds.
    Outdate(u8),
    /// A fault begins in the namespace of a cluster. It lasts until the world settles, at most.
    Fault {
        /// The number of the cluster.
        cluster: u8,
        /// Which operation it matches, among those that a Fault can name; all that change something otherwise. A fault
        /// of machines has no operation. From 12 on, the fault begins in all namespaces.
        operation: u8,
        /// Which effect it has: an operation fails for one of the reasons that a Fault can give, or something happens to
        /// machines, or else an operation is delayed.
        effect: u8,
        /// The probability of a hit, in percent.
        percent: u8,
        /// How many hits there are; 0 means any number.
        count: u8,
        /// How long it lasts at most, in seconds.
        seconds: u8,
    },
    /// The SimulatedCloud of a cluster's namespace gets these limits, and has them until the world settles, at most.
    Limit {
        /// The number of the cluster.
        cluster: u8,
        /// The quota of machines, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instances: Option<u8>,
        /// The quota of processors, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vcpus: Option<u8>,
        /// The quota of load balancers, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        load_balancers: Option<u8>,
        /// The stock of machines, if it is limited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stock: Option<u8>,
        /// How many operations in a second, if there is a limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<u8>,
        /// How many seconds reads do not show what was created, if they lag.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lag: Option<u8>,
    },
    /// The SimulatedCloud of a cluster's namespace gets this clock, this seed and slow deletions. When the world settles,
    /// its clock goes at its usual rate and deletions take no time.
    Clock {
        /// The number of the cluster.
        cluster: u8,
        /// Which of [`CLOCK_RATES`] it has.
        rate: u8,
        paused: bool,
        steps: u8,
        /// Its total of time ahead, in seconds.
        ahead: u8,
        /// The longest time that a deletion takes, in seconds.
        deletion: u8,
        /// Its seed, if it has one of its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seed: Option<u8>,
    },
    /// `kubectl replace --force` of the SimulatedCloud and of the Faults of a cluster's namespace: they are deleted, and
    /// created with the same names and specs.
    Replace(u8),
    /// A user runs a Scenario in the namespace of a cluster: a fault comes and goes twice, while the clock of its
    /// SimulatedCloud counts on.
    Script {
        /// The number of the cluster.
        cluster: u8,
        /// Which effect its faults have. See [`Step::Fault`].
        effect: u8,
        /// How often the clock counts on.
        rounds: u8,
        /// How long a fault lasts, in seconds, modulo 20.
        seconds: u8,
    },
    /// A client of a workload cluster writes an object.
    Note(u8),
    /// All managers stop in an orderly way, and others start.
    Restart(Scope),
    /// All managers stop. When others start, the objects of clusters and machines are missing for this many
    /// milliseconds, as during the restore of a backup.
    Restore(u32),
    /// Everything is moved to another management cluster with its own managers.
    Move,
    /// The leader is killed, and another manager starts.
    Kill,
    /// No request of the leader and no answer arrives for this many milliseconds.
    Freeze(u32),
    /// The wall clock of this world is set forward or back by this many seconds.
    Jump(i8),
    /// The disk for the objects of workload clusters becomes full, or has room again.
    FillDisk(bool),
    /// Time passes, in milliseconds.
    Wait(u32),
    /// Trouble stops for a while, and everything has to reach the state that was asked for.
    Settle,
}

/// The theme of a world, so that rare events come together in one world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Theme {
    /// Nothing special.
    Anything,
    /// Managers reconcile only a part of the objects for a while.
    Scopes,
    /// Objects are missing for a while, as before a backup is restored.
    Restores,
    /// Clusters are paused while managers restart.
    Pauses,
    /// The leader freezes in the middle of its work, and another takes over.
    Leaders,
    /// Clusters are deleted and created again with the same names.
    Names,
    /// Clusters have many machines.
    Sizes,
    /// Clusters are moved to another management cluster.
    Moves,
    /// The cloud fails and delays operations, also over restarts and changes of leaders.
    Faults,
    /// Clouds have limits, which change while machines come and go.
    Limits,
    /// Clouds have clocks that change while machines come and go.
    Clocks,
}

impl Scenario {
    /// The world of this seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut draws = ChaCha8Rng::seed_from_u64(seed);
        let theme = match draws.random_range(0..31_u8) {
            0..4 => Theme::Anything,
            6..9 => Theme::Scopes,
            9..11 => Theme::Restores,
            11..14 => Theme::Pauses,
            14..17 => Theme::Leaders,
            17..19 => Theme::Names,
            19..21 => Theme::Moves,
            4..6 | 21..24 => Theme::Faults,
            24..27 => Theme::Limits,
            27..30 => Theme::Clocks,
            _ => Theme::Sizes,
        };
        let trouble = draws.random_ratio(2, 3);
        let standby = draws.random_ratio(1, 3) || theme == Theme::Leaders;
        // With kept state a narrow scope can lose something.
        let keeps_state = draws.random_ratio(1, 2) || matches!(theme, Theme::Scopes | Theme::Restores);
        let shares_ports = draws.random_ratio(1, 4);
        let quota = if draws.random_ratio(1, 5) {
            draws.random_range(2..12)
        } else {
            0
        };
        let mut steps: Vec<Step> = (0..2).map(|_| create(&mut draws)).collect();
        if theme == Theme::Anything {
            let count = draws.random_range(6..20);
            steps.extend((0..count).map(|_| step(&mut draws)));
        } else {
            for _ in 0..draws.random_range(1..4) {
                let count = draws.random_range(0..4);
                steps.extend((0..count).map(|_| step(&mut draws)));
                steps.extend(story(theme, &mut draws));
            }
        }
        steps.push(Step::Restart(Scope::All));
        steps.push(Step::Settle);
        Self {
            seed,
            trouble,
            standby,
            keeps_state,
            shares_ports,
            quota,
            steps,
        }
    }
}

/// A series of steps that is only useful in this order.
fn story(theme: Theme, draws: &mut ChaCha8Rng) -> Vec<Step> {
    let cluster = draws.random_range(0..CLUSTERS);
    let pause = if draws.random_ratio(1, 2) {
        Step::Settle
    } else {
        Step::Wait(draws.random_range(1..40_000))
    };
    match theme {
        Theme::Anything => Vec::new(),
        Theme::Scopes => story_of_scopes(pause, draws),
        Theme::Restores => {
            let notes = (0..CLUSTERS).map(Step::Note);
            // Less than the time after which missing objects count as deleted.
            let restore = [Step::Restore(draws.random_range(1_000..500_000)), Step::Settle];
            [Step::Settle].into_iter().chain(notes).chain(restore).collect()
        }
        Theme::Pauses => story_of_pauses(cluster, pause, draws),
        Theme::Leaders => story_of_leaders(draws),
        Theme::Names => {
            let again = create_as(cluster, draws);
            vec![
                create_as(cluster, draws),
                Step::Settle,
                Step::Delete(cluster),
                Step::Settle,
                again,
                pause,
            ]
        }
        Theme::Sizes => {
            let workers = draws.random_range(20..38);
            let large = Step::Create {
                cluster,
                control_plane: 3,
                workers,
                pooled: false,
                machine_pool: None,
            };
            vec![large, pause, Step::Restart(Scope::All), step(draws)]
        }
        Theme::Faults => story_of_faults(cluster, pause, draws),
        Theme::Limits => story_of_limits(cluster, pause, draws),
        Theme::Clocks => story_of_clocks(cluster, pause, draws),
        Theme::Moves => {
            let before = [
                Step::Restart(Scope::All),
                create(draws),
                Step::Settle,
                Step::Terminate { cluster, worker: 1 },
            ];
            let after = [Step::Move, step(draws), create(draws), pause, step(draws)];
            before.into_iter().chain(after).collect()
        }
    }
}

fn story_of_scopes(pause: Step, draws: &mut ChaCha8Rng) -> Vec<Step> {
    let scope = [Scope::Even, Scope::LabelledEven, Scope::Nothing][draws.random_range(0..3_usize)];
    let notes = (0..CLUSTERS).map(Step::Note);
    // Half of these pauses are longer than the time after which missing objects count as deleted.
    let pause = if draws.random_ratio(1, 2) {
        pause
    } else {
        Step::Wait(700_000)
    };
    let narrow = [
        Step::Restart(scope),
        step(draws),
        pause,
        Step::Restart(Scope::All),
        Step::Settle,
    ];
    [Step::Settle].into_iter().chain(notes).chain(narrow).collect()
}

fn story_of_pauses(cluster: u8, pause: Step, draws: &mut ChaCha8Rng) -> Vec<Step> {
    let restarted = [Step::Restart(Scope::All), create(draws), create(draws), pause];
    let paused = [
        Step::Settle,
        Step::Pause(cluster),
        Step::Pause(draws.random_range(0..CLUSTERS)),
    ];
    paused
        .into_iter()
        .chain(restarted)
        .chain([Step::Unpause(cluster)])
        .collect()
}

fn story_of_leaders(draws: &mut ChaCha8Rng) -> Vec<Step> {
    let busy = [
        create(draws),
        step(draws),
        Step::Wait(draws.random_range(1..15_000)),
    ];
    // About the time until another manager becomes the leader.
    let end = match draws.random_range(0..4_u8) {
        0 => Step::Restart(Scope::All),
        _ => Step::Freeze(draws.random_range(12_000..24_000)),
    };
    busy.into_iter()
        .chain([end, Step::Wait(draws.random_range(15_000..60_000))])
        .collect()
}

fn story_of_limits(cluster: u8, pause: Step, draws: &mut ChaCha8Rng) -> Vec<Step> {
    let begin = [
        limit(cluster, draws),
        create_as(cluster, draws),
        create(draws),
        step(draws),
    ];
    let busy = [
        Step::Wait(draws.random_range(1..40_000)),
        limit(cluster, draws),
        step(draws),
    ];
    let end = match draws.random_range(0..5_u8) {
        0 => Step::Restart(Scope::All),
        1 => Step::Kill,
        2 => Step::Delete(cluster),
        3 => Step::Replace(cluster),
        _ => limit(cluster, draws),
    };
    begin
        .into_iter()
        .chain(busy)
        .chain([end, step(draws), pause])
        .collect()
}

fn story_of_faults(cluster: u8, pause: Step, draws: &mut ChaCha8Rng) -> Vec<Step> {
    let is_of_addresses = draws.random_ratio(1, 3);
    let first = match draws.random_range(0..3_u8) {
        _ if is_of_addresses => address_fault(cluster, draws),
        0 => fault(cluster, draws),
        _ => lost_creation(cluster, draws),
    };
    let mut creation = create_as(cluster, draws);
    if let Step::Create { pooled, .. } = &mut creation {
        *pooled |= is_of_addresses;
    }
    let begin = [
        // A new cluster has more to create than one that is there.
        Step::Delete(cluster),
        Step::Settle,
        first,
        fault(cluster, draws),
        creation,
        script(cluster, draws),
        // A pause that settles ends the faults.
        Step::Wait(draws.random_range(10_000..40_000)),
    ];
    let end = match draws.random_range(0..4_u8) {
        0 => Step::Restart(Scope::All),
        1 => Step::Kill,
        2 => Step::Replace(cluster),
        _ => Step::Delete(cluster),
    };
    begin
        .into_iter()
        .chain([pause, end, step(draws), Step::Wait(draws.random_range(1..90_000))])
        .collect()
}

fn story_of_clocks(cluster: u8, pause: Step, draws: &mut ChaCha8Rng) -> Vec<Step> {
    let begin = [
        clock(cluster, draws),
        create_as(cluster, draws),
        create(draws),
        step(draws),
    ];
    let busy = [
        script(cluster, draws),
        Step::Wait(draws.random_range(1..40_000)),
        step(draws),
    ];
    let end = match draws.random_range(0..4_u8) {
        0 => Step::Restart(Scope::All),
        1 => Step::Kill,
        2 => Step::Delete(cluster),
        _ => clock(cluster, draws),
    };
    let wait = Step::Wait(draws.random_range(1..40_000));
    begin
        .into_iter()
        .chain(busy)
        .chain([end, wait, clock(cluster, draws), step(draws), pause])
        .collect()
}

fn create(draws: &mut ChaCha8Rng) -> Step {
    let cluster = draws.random_range(0..CLUSTERS);
    create_as(cluster, draws)
}

fn create_as(cluster: u8, draws: &mut ChaCha8Rng) -> Step {
    Step::Create {
        cluster,
        control_plane: [0, 1, 1, 1, 3][draws.random_range(0..5_usize)],
        workers: draws.random_range(0..7),
        pooled: draws.random_ratio(1, 3),
        machine_pool: draws.random_ratio(1, 4).then(|| draws.random_range(0..5)),
    }
}

fn fault(cluster: u8, draws: &mut ChaCha8Rng) -> Step {
    Step::Fault {
        cluster,
        operation: draws.random_range(0..14),
        effect: draws.random_range(0..EFFECTS),
        percent: if draws.random_ratio(1, 2) {
            100
        } else {
            draws.random_range(10..90)
        },
        count: if draws.random_ratio(1, 2) {
            0
        } else {
            draws.random_range(1..9)
        },
        seconds: draws.random_range(1..120),
    }
}

fn address_fault(cluster: u8, draws: &mut ChaCha8Rng) -> Step {
    let mut step = fault(cluster, draws);
    if let Step::Fault { effect, .. } = &mut step {
        *effect = draws.random_range(OF_ADDRESSES);
    }
    step
}

fn limit(cluster: u8, draws: &mut ChaCha8Rng) -> Step {
    let mut limit = |max| draws.random_ratio(1, 2).then(|| draws.random_range(0..max));
    Step::Limit {
        cluster,
        instances: limit(12),
        vcpus: limit(24),
        load_balancers: limit(3),
        stock: limit(12),
        rate: limit(9).map(|rate| rate + 1),
        lag: limit(20),
    }
}

fn clock(cluster: u8, draws: &mut ChaCha8Rng) -> Step {
    Step::Clock {
        cluster,
        rate: draws.random_range(0..5),
        paused: draws.random_ratio(1, 3),
        steps: draws.random_range(0..6),
        ahead: draws.random_range(0..60),
        deletion: if draws.random_ratio(1, 2) {
            0
        } else {
            draws.random_range(1..60)
        },
        seed: draws.random_ratio(1, 4).then(|| draws.random_range(0..4)),
    }
}

fn script(cluster: u8, draws: &mut ChaCha8Rng) -> Step {
    Step::Script {
        cluster,
        effect: draws.random_range(0..EFFECTS),
        rounds: draws.random_range(1..9),
        seconds: draws.random_range(0..20),
    }
}

/// A fault that loses the answers of creations, carries them out twice, or does not show what was created: the cloud has the
/// instance or the load balancer, and no object says so.
fn lost_creation(cluster: u8, draws: &mut ChaCha8Rng) -> Step {
    let operation = [Verb::CreateInstance, Verb::CreateLoadBalancer][draws.random_range(0..2_usize)];
    Step::Fault {
        cluster,
        operation: index_of(&operation, &Verb::ALL),
        effect: match draws.random_range(0..3_u8) {
            0 => index_of(&FailureReason::LostAnswer, &FailureReason::ALL),
            1 => fault::number_of("duplicate"),
            _ => fault::number_of("lag"),
        },
        percent: 100,
        count: draws.random_range(1..4),
        seconds: draws.random_range(60..120),
    }
}

fn index_of<T: PartialEq>(value: &T, values: &[T]) -> u8 {
    let index = values
        .iter()
        .position(|other| other == value)
        .expect("a Fault can name it");
    u8::try_from(index).expect("there are few")
}

fn step(draws: &mut ChaCha8Rng) -> Step {
    let cluster = draws.random_range(0..CLUSTERS);
    let other = draws.random_range(0..7);
    match draws.random_range(0..46_u8) {
        0..6 => create(draws),
        6..8 => Step::Scale {
            cluster,
            workers: other,
        },
        8 => Step::ScalePool {
            cluster,
            machines: other,
        },
        9..11 => Step::Upgrade(cluster),
        11..14 => Step::Delete(cluster),
        14..17 => Step::Pause(cluster),
        17..19 => Step::Unpause(cluster),
        19..21 => Step::Terminate {
            cluster,
            worker: other,
        },
        21 => Step::Strip {
            cluster,
            worker: other,
        },
        22..25 => Step::Note(cluster),
        25..28 => Step::Restart(match draws.random_range(0..6_u8) {
            0..3 => Scope::All,
            3 => Scope::Even,
            4 => Scope::LabelledEven,
            _ => Scope::Nothing,
        }),
        28 => {
            if draws.random_ratio(1, 2) {
                Step::Kill
            } else {
                Step::Move
            }
        }
        29 => Step::Freeze(draws.random_range(1_000..25_000)),
        30 => Step::Jump(draws.random_range(-60..60)),
        31 => Step::FillDisk(draws.random_ratio(2, 3)),
        32..34 => fault(cluster, draws),
        34 => limit(cluster, draws),
        35 => clock(cluster, draws),
        36..40 => Step::Wait(draws.random_range(1..20_000)),
        40..42 => Step::Replace(cluster),
        42..44 => script(cluster, draws),
        44 => Step::Outdate(cluster),
        _ => Step::Settle,
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            trouble,
            standby,
            keeps_state,
            shares_ports,
            quota,
            steps,
        } = self;
        write!(
            f,
            "seed {seed}, trouble {trouble}, standby {standby}, keeps state {keeps_state}, "
        )?;
        writeln!(f, "shares ports {shares_ports}, quota {quota}")?;
        steps
            .iter()
            .enumerate()
            .try_for_each(|(number, step)| writeln!(f, "  {number:2} {step:?}"))
    }
}

/// Random draws that depend only on the seed, on `about` and on `number`.
pub(crate) fn draws_about(seed: u64, about: &[&str], number: u64) -> ChaCha8Rng {
    // FNV-1a: the same on every machine and in every version.
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let words = about.iter().flat_map(|word| word.bytes().chain([0]));
    let hash = words
        .chain(number.to_be_bytes())
        .chain(seed.to_be_bytes())
        .fold(0xcbf2_9ce4_8422_2325, fold);
    let mut draws = ChaCha8Rng::seed_from_u64(hash);
    // Skips the first word, so that no reader has to check whether the first words of similar seeds are independent.
    let _ = draws.next_u32();
    draws
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_one_scenario_and_its_text_leads_back_to_it() {
        for seed in 0..50 {
            let scenario = Scenario::of(seed);
            assert_eq!(scenario, Scenario::of(seed));
            let text = serde_json::to_string(&scenario).expect("data is JSON");
            assert_eq!(
                serde_json::from_str::<Scenario>(&text).expect("read back"),
                scenario
            );
        }
        assert_ne!(Scenario::of(1).steps, Scenario::of(2).steps);
    }

    #[test]
    fn draws_depend_on_what_they_are_about_alone() {
        let draw = |seed, about: &[&str], number| draws_about(seed, about, number).next_u64();
        assert_eq!(draw(1, &["get", "a"], 0), draw(1, &["get", "a"], 0));
        let others = [
            draw(2, &["get", "a"], 0),
            draw(1, &["geta", ""], 0),
            draw(1, &["get", "a"], 1),
        ];
        assert!(!others.contains(&draw(1, &["get", "a"], 0)));
    }
}
