//! After a loss of power at any moment, the file has a prefix of the writes, including all writes that were reported as
//! kept.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use proptest::{collection::vec, prelude::*};
use tokio::runtime::Builder;

use super::{Disk, Records, open, record, records};

const PARTITIONS: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Step {
    /// Writes one or two records with the step's number, or removes them.
    Write { partition: usize, keys: Vec<(u8, bool)> },
    /// Removes the partition and opens it again.
    Remake { partition: usize },
    /// Waits until all writes are kept.
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    let keys = vec((0..6_u8, prop::bool::weighted(0.7)), 1..3);
    prop_oneof![
        8 => (0..3_usize, keys).prop_map(|(partition, keys)| Step::Write { partition, keys }),
        1 => (0..3_usize).prop_map(|partition| Step::Remake { partition }),
        3 => Just(Step::Wait),
    ]
}

/// The records of all partitions. A partition is in the file from its first record on.
type Model = Vec<Records>;

/// The model after each number of steps, starting with zero.
fn histories(steps: &[Step]) -> Vec<Model> {
    let mut now: Model = vec![Records::new(); PARTITIONS.len()];
    let mut all = vec![now.clone()];
    for (index, step) in steps.iter().enumerate() {
        match step {
            Step::Write { partition, keys } => {
                for (key, present) in keys {
                    let key = format!("key-{key}");
                    if *present {
                        now[*partition].insert(key, value(index));
                    } else {
                        now[*partition].remove(&key);
                    }
                }
            }
            Step::Remake { partition } => now[*partition].clear(),
            Step::Wait => {}
        }
        all.push(now.clone());
    }
    all
}

/// The value for a step. Some values are longer than a page of the file.
fn value(index: usize) -> String {
    format!("{index:04}").repeat(if index.is_multiple_of(5) { 2000 } else { 1 })
}

fn found(disk: &Disk) -> Model {
    let state = open(disk);
    PARTITIONS
        .iter()
        .map(|name| records(&state.partition(name, "x").expect("readable")))
        .collect()
}

/// Runs the steps and returns the images of the disk, each with the number of steps that were reported as kept by then.
fn run(steps: &[Step], seed: u64) -> (Vec<(u64, Disk)>, Disk) {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let disk = Disk::default();
        let state = open(&disk);
        let kept = Arc::new(AtomicU64::new(0));
        let number = Arc::clone(&kept);
        disk.watch(seed, move || number.load(Ordering::SeqCst));
        let mut partitions: Vec<_> = PARTITIONS
            .iter()
            .map(|name| state.partition(name, "x").expect("new").partition)
            .collect();
        for (index, step) in steps.iter().enumerate() {
            match step {
                Step::Write { partition, keys } => {
                    let value = value(index);
                    let changes = keys
                        .iter()
                        .map(|(key, present)| {
                            record(&format!("key-{key}"), present.then_some(value.as_str()))
                        })
                        .collect();
                    partitions[*partition].write(index as u64, changes);
                }
                Step::Remake { partition } => {
                    state.remove(PARTITIONS[*partition]);
                    partitions[*partition] = state
                        .partition(PARTITIONS[*partition], "x")
                        .expect("new")
                        .partition;
                }
                Step::Wait => {
                    partitions[0].kept().await.expect("kept");
                    kept.store(index as u64 + 1, Ordering::SeqCst);
                }
            }
        }
        state.close().await;
        (disk.images(), disk)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 64, ..ProptestConfig::default() })]

    #[test]
    fn file_has_a_prefix_with_all_that_was_kept(steps in vec(step(), 1..24), seed in any::<u64>()) {
        let histories = histories(&steps);
        let (images, disk) = run(&steps, seed);
        prop_assert_eq!(&found(&disk), histories.last().expect("one at least"));
        for (kept, image) in images {
            let found = found(&image);
            let kept = usize::try_from(kept).expect("a number of steps");
            prop_assert!(
                histories[kept..].contains(&found),
                "{} steps were kept, and the file has {:?}", kept, found
            );
        }
    }
}
