use std::{io::IsTerminal, sync::Arc};

use anyhow::Context;
use clap::{Args, ValueEnum};
use nephele_manager::Verbosity;
use tracing_subscriber::{EnvFilter, reload::Handle};

/// How much is logged, and in which form. To stderr.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct Logging {
    /// How much is logged: up to 3 what changed, from 4 also what was looked at, from 6 everything. RUST_LOG, where
    /// set, decides instead.
    #[arg(short = 'v', long = "v", env = "NEPHELE_V", value_name = "LEVEL", default_value_t = 2)]
    pub(crate) verbosity: u8,
    /// One line of text or one JSON object per message.
    #[arg(long, env = "NEPHELE_LOGGING_FORMAT", value_enum, default_value_t = Format::Text)]
    pub(crate) logging_format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

impl Logging {
    /// Sends the log messages of the process where they belong, and returns the way to change how many there are.
    pub(crate) fn install(&self) -> anyhow::Result<Verbosity> {
        let filter = match std::env::var("RUST_LOG") {
            Ok(directives) if !directives.is_empty() => EnvFilter::try_new(&directives)
                .with_context(|| format!("failed to read RUST_LOG {directives:?}"))?,
            _ => EnvFilter::new(directives(self.verbosity)),
        };
        let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        match self.logging_format {
            Format::Text => {
                let subscriber =
                    subscriber.with_ansi(std::io::stderr().is_terminal()).with_filter_reloading();
                let filter = subscriber.reload_handle();
                subscriber
                    .try_init()
                    .map_err(anyhow::Error::from_boxed)
                    .context("failed to set up logging")?;
                Ok(verbosity(filter))
            }
            Format::Json => {
                let subscriber = subscriber.json().flatten_event(true).with_filter_reloading();
                let filter = subscriber.reload_handle();
                subscriber
                    .try_init()
                    .map_err(anyhow::Error::from_boxed)
                    .context("failed to set up logging")?;
                Ok(verbosity(filter))
            }
        }
    }
}

fn verbosity<S: 'static>(filter: Handle<EnvFilter, S>) -> Verbosity {
    Arc::new(move |level| {
        // Fails only when nobody logs any more.
        let _ = filter.reload(EnvFilter::new(directives(level)));
    })
}

/// Our own crates by the level asked for; libraries speak up only for problems, and at the highest levels. The client
/// builder is silenced, because it logs as an error each failed request that it also returns.
fn directives(verbosity: u8) -> &'static str {
    match verbosity {
        0..=3 => "warn,kube_client::client::builder=off,nephele=info",
        4..=5 => "warn,kube_client::client::builder=off,nephele=debug",
        6..=8 => "info,nephele=trace,kube=debug",
        _ => "trace",
    }
}
