use anyhow::Context;
use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

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
    /// Sends the log messages of the process where they belong.
    pub(crate) fn install(&self) -> anyhow::Result<()> {
        let filter = match std::env::var("RUST_LOG") {
            Ok(directives) if !directives.is_empty() => EnvFilter::try_new(&directives)
                .with_context(|| format!("failed to read RUST_LOG {directives:?}"))?,
            _ => EnvFilter::new(directives(self.verbosity)),
        };
        let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        match self.logging_format {
            Format::Text => {
                subscriber.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init()
            }
            Format::Json => subscriber.json().flatten_event(true).try_init(),
        }
        .map_err(anyhow::Error::from_boxed)
        .context("failed to set up logging")
    }
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
