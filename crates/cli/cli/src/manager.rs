//! `nephele manager`.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::{ArgAction, Args};
use kube::config::KubeConfigOptions;
use nephele_access::{Environment, Server};
use nephele_manager::{Config, Manager, Options, RequestRate, Urgent, Verbosity, connect, go_bool};
use prometheus::Registry;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{access, allocator, logging::Logging, manager_page};

/// The flags are those of Cluster API's own managers, as far as they apply, in the same forms. If a flag is given
/// twice, the second one counts, as in Go, because people append to lists of arguments.
#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub(crate) struct ManagerArgs {
    #[command(flatten)]
    pub(crate) logging: Logging,
    #[command(flatten)]
    api: ManagementApi,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    ignored: Ignored,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Management API")]
struct ManagementApi {
    /// Kubeconfig file [default: KUBECONFIG, the file in the home directory, or the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Requests per second to the management API. The lease and the reviews of callers have their own rates.
    #[arg(long, env = "NEPHELE_KUBE_API_QPS", value_name = "RATE", default_value_t = RequestRate::default().per_second,
          value_parser = positive)]
    kube_api_qps: f64,
    /// Burst of requests to the management API.
    #[arg(long, env = "NEPHELE_KUBE_API_BURST", value_name = "NUMBER", default_value_t = RequestRate::default().burst,
          value_parser = clap::value_parser!(u32).range(1..))]
    kube_api_burst: u32,
}

impl ManagementApi {
    fn rate(&self) -> RequestRate {
        RequestRate {
            per_second: self.kube_api_qps,
            burst: self.kube_api_burst,
        }
    }
}

/// Flags of managers in Go that Deployments may set, for instance those of the Cluster API Operator. With unknown
/// flags, the manager would not start. `--help` does not show them; the reference in the book does.
#[derive(Debug, Args)]
#[command(next_help_heading = "Accepted, and without effect")]
struct Ignored {
    /// Without effect: this program has no Go profiles. The metrics show its CPU time and memory.
    #[arg(
        long,
        env = "NEPHELE_PROFILER_ADDRESS",
        value_name = "ADDRESS",
        default_value = "",
        hide = true
    )]
    profiler_address: String,
    /// Without effect, like --profiler-address.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set, hide = true)]
    contention_profiling: bool,
    /// Without effect: --inmemorycluster-concurrency also sets the number for InMemoryMachinePools.
    #[arg(long, value_name = "NUMBER", hide = true)]
    inmemorymachinepool_concurrency: Option<u16>,
    /// Without effect: each address pool has its own task. The same holds for prefix pools and global pools.
    #[arg(long, value_name = "NUMBER", aliases = ["globalinclusterippool-concurrency", "inclusterprefixpool-concurrency",
          "globalinclusterprefixpool-concurrency"], hide = true)]
    inclusterippool_concurrency: Option<u16>,
}

impl Ignored {
    /// The flags without effect that were given.
    fn given(&self) -> Vec<&'static str> {
        let Self {
            profiler_address,
            contention_profiling,
            inmemorymachinepool_concurrency,
            inclusterippool_concurrency,
        } = self;
        let flags = [
            ("--profiler-address", !profiler_address.is_empty()),
            ("--contention-profiling", *contention_profiling),
            (
                "--inmemorymachinepool-concurrency",
                inmemorymachinepool_concurrency.is_some(),
            ),
            (
                "--inclusterippool-concurrency",
                inclusterippool_concurrency.is_some(),
            ),
        ];
        flags
            .into_iter()
            .filter_map(|(flag, is_given)| is_given.then_some(flag))
            .collect()
    }
}

/// The pod's environment (downward API).
#[derive(Debug, Default)]
struct Pod {
    ip: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
}

impl Pod {
    fn from_environment() -> Self {
        let variable = |name| {
            std::env::var(name)
                .ok()
                .filter(|value: &String| !value.is_empty())
        };
        Self {
            ip: variable("POD_IP"),
            name: variable("POD_NAME"),
            namespace: variable("POD_NAMESPACE"),
        }
    }
}

/// Runs the manager until it is told to stop.
pub(crate) async fn run(
    args: ManagerArgs,
    verbosity: Verbosity,
    shutdown: CancellationToken,
) -> anyhow::Result<ExitCode> {
    info!(version = nephele_manager::version(), "Starting");
    for flag in args.ignored.given() {
        warn!(flag, "A flag is without effect");
    }
    let management = management(args.api.kubeconfig.as_ref()).await?;
    let rate = args.api.rate();
    let options = args.options(Pod::from_environment(), &management.config.default_namespace);
    let config = Config::new(options)?;
    let registry = Registry::new();
    allocator::register(&registry).context("failed to register a metric")?;
    let urgent = Urgent::start().context("failed to start a thread")?;
    let clients = connect(&management, rate, &registry, urgent.handle())?;
    let manager = Manager::build_with(config, clients, registry)?
        .with_verbosity(verbosity)
        .with_page(Box::new(manager_page::serve));
    manager.run(shutdown).await?;
    Ok(ExitCode::SUCCESS)
}

async fn management(file: Option<&PathBuf>) -> anyhow::Result<Server> {
    let options = KubeConfigOptions::default();
    match file {
        Some(file) => access::of_file(file, &options, &Environment::of_process()).await,
        None => access::usual(&options)
            .await
            .context("failed to find the management API"),
    }
}

impl ManagerArgs {
    fn options(self, pod: Pod, default_namespace: &str) -> Options {
        Options {
            advertise_host: self.options.advertise_host.or(pod.ip),
            pod_namespace: pod.namespace.unwrap_or_else(|| default_namespace.to_owned()),
            // A pod keeps its name when its container restarts, so the manager can take its own lease again at once.
            identity: pod
                .name
                .unwrap_or_else(|| format!("nephele_{}", std::process::id())),
            ..self.options
        }
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number > 0.0 && f64::is_finite(number) => Ok(number),
        _ => Err("expected a number above 0".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        manager: ManagerArgs,
    }

    fn options(flags: &[&str]) -> Options {
        let args = ["manager"].iter().chain(flags);
        let parsed = Only::try_parse_from(args).expect("valid flags");
        parsed.manager.options(Pod::default(), "default")
    }

    fn unchanged() -> Options {
        let identity = format!("nephele_{}", std::process::id());
        Options {
            identity,
            pod_namespace: "default".into(),
            webhook_port: 9443,
            ..Options::default()
        }
    }

    #[test]
    fn no_flags_are_the_defaults() {
        assert_eq!(options(&[]), unchanged());
    }

    #[test]
    fn flags_take_the_forms_of_go() {
        let on = Options {
            leader_elect: true,
            ..unchanged()
        };
        for form in [
            "--leader-elect",
            "--leader-elect=true",
            "--leader-elect=1",
            "--leader-elect=T",
        ] {
            assert_eq!(options(&[form]), on, "{form}");
        }
        assert_eq!(options(&["--leader-elect=false"]), unchanged());
        let quick = Options {
            sync_period: Duration::from_secs(90),
            ..unchanged()
        };
        assert_eq!(options(&["--sync-period=1m30s"]), quick);
        assert_eq!(options(&["--sync-period", "90s"]), quick);
    }

    /// That each flag has an effect is a test of the manager.
    #[test]
    fn flags_of_managers_in_go_have_their_names_there() {
        for (theirs, ours) in [
            ("--health-probe-bind-address=:1", "--health-addr=:1"),
            ("--metrics-bind-addr=:1", "--diagnostics-address=:1"),
            ("--metrics-bind-address=:1", "--diagnostics-address=:1"),
        ] {
            assert_eq!(options(&[theirs]), options(&[ours]), "{theirs}");
            assert_ne!(options(&[ours]), unchanged(), "{ours}");
        }
    }

    #[test]
    fn a_manager_starts_with_all_that_the_operator_adds() {
        let ours = [
            "--leader-elect",
            "--diagnostics-address=:8443",
            "--insecure-diagnostics=false",
            "--v=2",
        ];
        let added = [
            "--inmemorycluster-concurrency=1",
            "--inmemorymachine-concurrency=2",
            "--inmemorymachinepool-concurrency=3",
            "--ipaddressclaim-concurrency=4",
            "--inclusterippool-concurrency=5",
            "--globalinclusterippool-concurrency=6",
            "--inclusterprefixpool-concurrency=7",
            "--globalinclusterprefixpool-concurrency=8",
            "--max-concurrent-reconciles=9",
            "--namespace=watched",
            "--health-addr=:9441",
            "--leader-elect=true",
            "--leader-election-id=there/name",
            "--leader-elect-lease-duration=60s",
            "--leader-elect-renew-deadline=40s",
            "--leader-elect-retry-period=5s",
            "--metrics-bind-addr=:8080",
            "--webhook-host=10.0.0.1",
            "--webhook-port=9444",
            "--webhook-cert-dir=/certs",
            "--sync-period=600s",
            "--profiler-address=localhost:6060",
            "--v=5",
            "--feature-gates=",
        ];
        let seconds = Duration::from_secs;
        let expected = Options {
            max_concurrent_reconciles: Some(9),
            cluster_concurrency: Some(1),
            machine_concurrency: Some(2),
            claim_concurrency: Some(4),
            namespace: "watched".into(),
            health_address: ":9441".into(),
            leader_elect: true,
            leader_election_id: "there/name".into(),
            lease_duration: seconds(60),
            renew_deadline: seconds(40),
            retry_period: seconds(5),
            diagnostics_address: ":8080".into(),
            webhook_host: "10.0.0.1".into(),
            webhook_port: 9444,
            webhook_cert_dir: "/certs".into(),
            sync_period: seconds(600),
            ..unchanged()
        };
        assert_eq!(options(&[&ours[..], &added[..]].concat()), expected);
        // A newer version of the operator sets the secured diagnostics with their own flags.
        let open = ["--diagnostics-address=:8444", "--insecure-diagnostics=true"];
        let expected = Options {
            diagnostics_address: ":8444".into(),
            insecure_diagnostics: true,
            ..unchanged()
        };
        assert_eq!(options(&open), expected);
    }

    #[test]
    fn a_flag_without_effect_is_hidden_and_says_so_when_it_is_given() {
        let ignored = [
            "--profiler-address=:1",
            "--contention-profiling",
            "--inmemorymachinepool-concurrency=1",
            "--inclusterippool-concurrency=1",
        ];
        let parsed = Only::try_parse_from(["manager"].iter().chain(&ignored)).expect("valid flags");
        let names = ignored.map(|flag| flag.split('=').next().unwrap_or_default());
        assert_eq!(parsed.manager.ignored.given(), names);
        assert_eq!(options(&ignored), unchanged());
        let command = <Only as clap::CommandFactory>::command();
        let hidden: Vec<_> = command.get_arguments().filter(|arg| arg.is_hide_set()).collect();
        assert_eq!(hidden.len(), names.len());
        for arg in hidden {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.starts_with("Without effect"), "{help}");
        }
    }

    #[test]
    fn preparing_credentials_can_be_left_to_the_control_plane_provider() {
        let off = Options {
            prepare_credentials: false,
            ..unchanged()
        };
        assert_eq!(options(&["--prepare-credentials=false"]), off);
    }

    #[test]
    fn webhooks_can_be_left_out_or_have_certificates_of_a_folder() {
        let off = Options {
            webhook_port: 0,
            ..unchanged()
        };
        assert_eq!(options(&["--webhook-port=0"]), off);
        let folder = Options {
            webhook_cert_dir: "/certs".into(),
            ..unchanged()
        };
        assert_eq!(options(&["--webhook-cert-dir=/certs"]), folder);
    }

    #[test]
    fn a_boolean_flag_does_not_swallow_what_follows() {
        let both = Options {
            leader_elect: true,
            namespace: "ns".into(),
            ..unchanged()
        };
        assert_eq!(options(&["--leader-elect", "--namespace", "ns"]), both);
    }

    #[test]
    fn what_the_pod_says_counts_where_no_flag_does() {
        let pod = || Pod {
            ip: Some("10.0.0.7".into()),
            name: Some("pod-0".into()),
            namespace: Some("nephele-system".into()),
        };
        let parse = |flags: &[&str]| {
            let args = ["manager"].iter().chain(flags);
            Only::try_parse_from(args)
                .expect("valid flags")
                .manager
                .options(pod(), "default")
        };
        let expected = Options {
            advertise_host: Some("10.0.0.7".into()),
            identity: "pod-0".into(),
            pod_namespace: "nephele-system".into(),
            webhook_port: 9443,
            ..Options::default()
        };
        assert_eq!(parse(&[]), expected);
        let named = Options {
            advertise_host: Some("nephele.example".into()),
            ..expected
        };
        assert_eq!(parse(&["--advertise-host=nephele.example"]), named);
    }

    #[test]
    fn the_rate_of_requests_is_the_one_asked_for() {
        let rate = |flags: &[&str]| {
            let args = ["manager"].iter().chain(flags);
            Only::try_parse_from(args)
                .expect("valid flags")
                .manager
                .api
                .rate()
        };
        assert_eq!(rate(&[]), RequestRate::default());
        let slow = RequestRate {
            per_second: 0.5,
            burst: 3,
        };
        assert_eq!(rate(&["--kube-api-qps=0.5", "--kube-api-burst=3"]), slow);
    }

    #[test]
    fn rates_have_to_be_above_zero() {
        for flags in [
            ["--kube-api-qps=0"],
            ["--kube-api-qps=nan"],
            ["--kube-api-burst=0"],
            ["--sync-period=soon"],
        ] {
            assert!(
                Only::try_parse_from(["manager"].iter().chain(&flags)).is_err(),
                "{flags:?}"
            );
        }
    }
}
