//! Sends hostile requests to the API server, over TLS and with a valid certificate, and reports whether the server
//! survives them. `cargo xtask hostile` runs this program.
//!
//! ```text
//!  seed ─▶ Generator ─Request─▶ Client ──HTTP/2 or HTTP/1.1 over TLS──▶ ApiServer
//!                                 │
//!                                 └─Outcome─▶ Tally ─▶ what is printed
//! ```

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line speaks through its output"
)]

mod body;
mod client;
mod generator;
mod neighbours;
mod patch;
mod server;
mod tally;

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use anyhow::Context as _;
use clap::Parser;
use client::Client;
use generator::{Generator, Request};
use server::Server;
use tally::Tally;

/// Hostile but authenticated clients of the API server.
#[derive(Debug, Parser)]
#[command(name = "hostile")]
struct Args {
    /// Seed of the requests. The same seed gives the same requests on each connection.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many requests to send.
    #[arg(long, default_value_t = 100_000)]
    requests: u64,
    /// How many connections to use. With one, the server gets the requests in the same order on every run.
    #[arg(long, default_value_t = 16)]
    connections: u64,
    /// Attack a whole manager with everything on the menu, and measure what a neighbour sees.
    #[arg(long)]
    neighbours: bool,
    /// With --neighbours: only the attacks whose names contain this.
    #[arg(long, default_value = "")]
    only: String,
    /// With --neighbours: how many seconds each attack takes.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// The manager's allocator, which counts what is allocated.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Panics of the process so far. The runtime catches the panic of a request, and ends only its task.
static PANICS: AtomicU64 = AtomicU64::new(0);

fn main() -> ExitCode {
    let args = Args::parse();
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        report(panic);
    }));
    // What the manager logs, where `RUST_LOG` asks for it.
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    // An error means that a provider is installed already, which is fine.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let survived = if args.neighbours {
        neighbours::run(args.seconds, &args.only)
            .map(|peaceful| peaceful && PANICS.load(Ordering::Relaxed) == 0)
    } else {
        tokio::runtime::Runtime::new()
            .context("failed to start")
            .and_then(|runtime| runtime.block_on(run(&args)))
    };
    match survived {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the server survived.
async fn run(args: &Args) -> anyhow::Result<bool> {
    let Args {
        seed,
        requests,
        connections,
        ..
    } = *args;
    println!("seed {seed}, {requests} requests on {connections} connections");
    let started = Instant::now();
    let server = Arc::new(Server::start().await?);
    let mut workers = Vec::new();
    for worker in 0..connections.max(1) {
        let share = requests / connections.max(1) + u64::from(worker < requests % connections.max(1));
        workers.push(tokio::spawn(work(server.clone(), seed, worker, share)));
    }
    let mut tally = Tally::default();
    for worker in workers {
        tally.add(worker.await.context("a client panicked")??);
    }
    tally.print();
    let alive = server.answers().await;
    let panics = PANICS.load(Ordering::Relaxed);
    let seconds = started.elapsed().as_secs();
    println!(
        "seed {seed}: {} requests in {seconds} s, {panics} panics, {} connections broken, {} ended by a limit, {} \
         internal errors; the server {}",
        tally.requests(),
        tally.broken.len(),
        tally.limited,
        tally.internal_errors,
        if alive { "answers" } else { "does not answer" }
    );
    for broken in tally.broken.iter().take(10) {
        println!("broken: {broken}");
    }
    Ok(alive && panics == 0 && tally.broken.is_empty() && tally.internal_errors == 0)
}

/// Sends one connection's share of the requests. Every fourth connection speaks HTTP/1.1.
async fn work(server: Arc<Server>, seed: u64, worker: u64, requests: u64) -> anyhow::Result<Tally> {
    let mut generator = Generator::new(seed, worker);
    let mut client = Client::new(server, worker % 4 != 3);
    let mut tally = Tally::default();
    // The request before the one that found a closed connection is often the reason.
    let mut before: Option<(Request, String)> = None;
    for index in 0..requests {
        let request = generator.next_request();
        let outcome = client.send(&request).await?;
        generator.learn(&outcome);
        tally.count(&request, &outcome, || {
            let before = before
                .as_ref()
                .map(|(request, outcome)| format!(" after {}: {outcome}", request.brief()));
            format!(
                "connection {worker}, request {index}: {}{}",
                request.brief(),
                before.unwrap_or_default()
            )
        });
        before = Some((request, outcome.brief()));
    }
    Ok(tally)
}
