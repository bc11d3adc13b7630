//! The cost of waiting until a write is kept: writes per second and the wait of each write, by the number of concurrent
//! writers.
//!
//! `cargo run --release -p nephele-state --example commits -- FOLDER`

#![allow(clippy::print_stdout, reason = "a command for people")]

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use nephele_state::{Observer, State};

/// An object as large as a Node.
const OBJECT_BYTES: usize = 1800;
const TIME: Duration = Duration::from_secs(2);

struct Quiet;

impl Observer for Quiet {
    fn committed(&self, _took: Duration, _file_bytes: u64) {}

    fn failed(&self) {}
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("which folder?")?);
    let state = State::open(&folder, Arc::new(Quiet))?;
    println!(
        "{:>8} {:>10} {:>10} {:>10}",
        "writers", "writes/s", "p50 ms", "p99 ms"
    );
    for writers in [1_usize, 10, 100, 1000] {
        let begun = Instant::now();
        let mut tasks = Vec::new();
        for writer in 0..writers {
            let partition = state
                .partition(&format!("p{}", writer % 50), "example")?
                .partition;
            tasks.push(tokio::spawn(async move {
                let mut waited = Vec::new();
                for number in 0_u64.. {
                    if begun.elapsed() > TIME {
                        break;
                    }
                    let key = format!("{writer}-{}", number % 100).into_bytes();
                    let at = Instant::now();
                    partition.write(number, vec![(key, Some(Bytes::from(vec![b'x'; OBJECT_BYTES])))]);
                    partition.kept().await?;
                    waited.push(at.elapsed());
                }
                Ok::<_, nephele_state::Unkept>(waited)
            }));
        }
        let mut waited = Vec::new();
        for task in tasks {
            waited.extend(task.await??);
        }
        let seconds = begun.elapsed().as_secs_f64();
        waited.sort();
        let ms = |share: usize| {
            waited
                .get(waited.len() * share / 100)
                .map_or(0.0, |at| at.as_secs_f64() * 1e3)
        };
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        let rate = waited.len() as f64 / seconds;
        println!("{writers:>8} {rate:>10.0} {:>10.2} {:>10.2}", ms(50), ms(99));
    }
    state.close().await;
    Ok(())
}
