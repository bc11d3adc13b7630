use std::{io::IsTerminal, sync::Arc};

use anyhow::Context;
use clap::{Args, ValueEnum};
use nephele_manager::Verbosity;
use tracing::Dispatch;
use tracing_subscriber::{EnvFilter, fmt::MakeWriter, reload::Handle, util::SubscriberInitExt as _};

/// The level and format of logs. They go to stderr.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct Logging {
    /// The log level: up to 3 changes, from 4 also what was examined, from 6 everything. RUST_LOG overrides it.
    #[arg(
        short = 'v',
        long = "v",
        env = "NEPHELE_V",
        value_name = "LEVEL",
        default_value_t = 2
    )]
    pub(crate) verbosity: u8,
    /// Log format: one line of text or one JSON object per message.
    #[arg(long, env = "NEPHELE_LOGGING_FORMAT", value_enum, default_value_t = Format::Text)]
    pub(crate) logging_format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

impl Logging {
    /// Sets up the log of the process, and returns a function that changes its level.
    pub(crate) fn install(&self) -> anyhow::Result<Verbosity> {
        let filter = match std::env::var("RUST_LOG") {
            Ok(directives) if !directives.is_empty() => EnvFilter::try_new(&directives)
                .with_context(|| format!("failed to read RUST_LOG {directives:?}"))?,
            _ => EnvFilter::new(directives(self.verbosity)),
        };
        let (dispatch, verbosity) = self.logger(filter, std::io::stderr().is_terminal(), std::io::stderr);
        dispatch.try_init().context("failed to set up logging")?;
        Ok(verbosity)
    }

    /// The log subscriber, and a function that changes its level.
    fn logger<W>(&self, filter: EnvFilter, ansi: bool, writer: W) -> (Dispatch, Verbosity)
    where
        W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    {
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(writer);
        match self.logging_format {
            Format::Text => {
                let subscriber = subscriber.with_ansi(ansi).with_filter_reloading();
                let filter = subscriber.reload_handle();
                (subscriber.into(), verbosity(filter))
            }
            Format::Json => {
                let subscriber = subscriber.json().flatten_event(true).with_filter_reloading();
                let filter = subscriber.reload_handle();
                (subscriber.into(), verbosity(filter))
            }
        }
    }
}

fn verbosity<S: 'static>(filter: Handle<EnvFilter, S>) -> Verbosity {
    Arc::new(move |level| {
        // Fails only when the subscriber is gone.
        let _ = filter.reload(EnvFilter::new(directives(level)));
    })
}

/// Nephele's crates log at the requested level. Libraries only report problems, except at the highest levels. The
/// client builder is silenced, because it logs each failed request as an error and returns the error as well.
fn directives(verbosity: u8) -> &'static str {
    match verbosity {
        0..=3 => "warn,kube_client::client::builder=off,nephele=info",
        4..=5 => "warn,kube_client::client::builder=off,nephele=debug",
        6..=8 => "info,nephele=trace,kube=debug",
        _ => "trace",
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Mutex, PoisonError},
        time::Duration,
    };

    use nephele_api::infrastructure::v1beta2::InMemoryCluster;
    use nephele_manager::{Config, Manager, Options};
    use nephele_testkit::{ManagementApi, objects};
    use serde_json::{Value, json};
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// The log output.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Log {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()).expect("text")
        }
    }

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Log {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    /// The log of a manager at level 2 until the cluster `first` is provisioned, and at level 4 until `second` is.
    async fn logged(format: Format, workload_ports: &str) -> [String; 2] {
        let log = Log::default();
        let logging = Logging {
            verbosity: 2,
            logging_format: format,
        };
        let filter = EnvFilter::new(directives(logging.verbosity));
        let (dispatch, verbosity) = logging.logger(filter, false, log.clone());
        // The runtime of a test has one thread.
        let logging = tracing::dispatcher::set_default(&dispatch);
        let api = ManagementApi::start();
        let options = Options {
            health_address: String::new(),
            diagnostics_address: String::new(),
            bind_address: "127.0.0.1".into(),
            workload_ports: workload_ports.into(),
            ..Options::default()
        };
        let manager = Manager::build(Config::new(options).expect("valid"), api.client()).expect("free ports");
        let shutdown = CancellationToken::new();
        let manager = tokio::spawn(manager.run(shutdown.clone()));
        let provisioned = async |name: &str| {
            let cluster = api.create(&objects::cluster(name)).await;
            api.create(&objects::in_memory_cluster(&cluster)).await;
            api.eventually(name, "to be provisioned", InMemoryCluster::is_provisioned)
                .await;
        };
        provisioned("first").await;
        let at_two = log.text();
        verbosity(4);
        provisioned("second").await;
        shutdown.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(60), manager).await;
        ended
            .expect("an end in bounded time")
            .expect("no panic")
            .expect("an orderly end");
        drop(logging);
        let at_four = log.text().split_off(at_two.len());
        [at_two, at_four]
    }

    /// Cluster API, docs/book/src/developer/core/logging.md: messages begin with a capital letter and have no full
    /// stop.
    #[tokio::test]
    async fn every_line_of_json_is_an_object_with_time_level_message_and_its_subject() {
        let [at_two, at_four] = logged(Format::Json, "48600-48609").await.map(|text| {
            let lines = text.lines();
            lines
                .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
                .collect::<Vec<Value>>()
        });
        for line in at_two.iter().chain(&at_four) {
            let field = |name: &str| {
                line[name]
                    .as_str()
                    .unwrap_or_else(|| panic!("no {name} in {line}"))
            };
            field("timestamp").parse::<jiff::Timestamp>().expect("a time");
            let message = field("message");
            assert!(
                message.starts_with(char::is_uppercase) && !message.ends_with('.'),
                "{line}"
            );
        }
        let levels =
            |lines: &[Value], level: &str| lines.iter().filter(|line| line["level"] == level).count();
        assert!(
            levels(&at_two, "INFO") > 0 && levels(&at_two, "DEBUG") == 0,
            "{at_two:?}"
        );
        let of_second = at_four.iter().filter(|line| line["span"]["object"] == "second");
        let looked_at = of_second.clone().find(|line| line["level"] == "DEBUG");
        let line = looked_at.unwrap_or_else(|| panic!("{:?}", of_second.collect::<Vec<_>>()));
        let span = json!({
            "name": "reconcile", "kind": "InMemoryCluster", "namespace": objects::NAMESPACE, "object": "second",
        });
        assert_eq!(line["span"], span);
    }

    #[tokio::test]
    async fn text_says_the_same_for_people() {
        let [at_two, at_four] = logged(Format::Text, "48610-48619").await;
        assert!(
            at_two.contains(" INFO ") && !at_two.contains(" DEBUG "),
            "{at_two}"
        );
        let about = "reconcile{kind=InMemoryCluster namespace=\"default\" object=\"second\"}";
        assert!(
            at_four
                .lines()
                .any(|line| line.contains("DEBUG") && line.contains(about)),
            "{at_four}"
        );
    }
}
