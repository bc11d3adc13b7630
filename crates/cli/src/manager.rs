//! `nephele manager`.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context;
use clap::{ArgAction, Args};
use kube::config::{KubeConfigOptions, Kubeconfig};
use nephele_manager::{Config, Manager, Options, RequestRate, Verbosity, connect};
use prometheus::Registry;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{allocator, args::go_bool, logging::Logging};

/// The flags are those Cluster API's own managers have, as far as they make sense here, and take the same forms. One that
/// is given twice counts the second time, as with Go's: whoever adds to arguments does so at their end.
#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub(crate) struct ManagerArgs {
    #[command(flatten)]
    pub(crate) logging: Logging,
    #[command(flatten)]
    api: ManagementApi,
    #[command(flatten)]
    controllers: Controllers,
    #[command(flatten)]
    election: Election,
    #[command(flatten)]
    admin: Admin,
    #[command(flatten)]
    tls: Tls,
    #[command(flatten)]
    webhooks: Webhooks,
    #[command(flatten)]
    runtime_extension: RuntimeExtension,
    #[command(flatten)]
    cloud: SimulatedCloud,
    #[command(flatten)]
    ignored: Ignored,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Management API")]
struct ManagementApi {
    /// The kubeconfig to use; else KUBECONFIG, the one in the home directory, or the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Requests per second to the management API. The lease and the reviews of callers have rates of their own.
    #[arg(long, env = "NEPHELE_KUBE_API_QPS", value_name = "RATE", default_value_t = RequestRate::default().per_second,
          value_parser = positive)]
    kube_api_qps: f64,
    /// Requests to the management API that may be made at once.
    #[arg(long, env = "NEPHELE_KUBE_API_BURST", value_name = "NUMBER", default_value_t = RequestRate::default().burst,
          value_parser = clap::value_parser!(u32).range(1..))]
    kube_api_burst: u32,
}

impl ManagementApi {
    fn rate(&self) -> RequestRate {
        RequestRate { per_second: self.kube_api_qps, burst: self.kube_api_burst }
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Controllers")]
struct Controllers {
    /// What to be, of infrastructure, ipam and runtime-extension.
    #[arg(long, env = "NEPHELE_ROLES", value_name = "ROLES", default_value_t = Options::default().roles)]
    roles: String,
    /// Watch only this namespace; empty for all.
    #[arg(long, env = "NEPHELE_NAMESPACE", default_value = "")]
    namespace: String,
    /// Look only after objects whose label cluster.x-k8s.io/watch-filter has this value; empty for all.
    #[arg(long, env = "NEPHELE_WATCH_FILTER", value_name = "VALUE", default_value = "")]
    watch_filter: String,
    /// How often every object is looked at without having changed; 0 for never.
    #[arg(long, env = "NEPHELE_SYNC_PERIOD", value_name = "DURATION", default_value = "10m",
          value_parser = nephele_go_duration::parse)]
    sync_period: Duration,
    /// How many objects of each kind are reconciled at a time, where the kind has no number of its own.
    #[arg(long, env = "NEPHELE_MAX_CONCURRENT_RECONCILES", value_name = "NUMBER")]
    max_concurrent_reconciles: Option<u16>,
    /// How many InMemoryClusters are reconciled at a time, and as many InMemoryMachinePools [default: 50]
    #[arg(long, env = "NEPHELE_INMEMORYCLUSTER_CONCURRENCY", value_name = "NUMBER")]
    inmemorycluster_concurrency: Option<u16>,
    /// How many InMemoryMachines are reconciled at a time [default: 100]
    #[arg(long, env = "NEPHELE_INMEMORYMACHINE_CONCURRENCY", value_name = "NUMBER")]
    inmemorymachine_concurrency: Option<u16>,
    /// How many IPAddressClaims are reconciled at a time [default: 128]
    #[arg(long, env = "NEPHELE_IPADDRESSCLAIM_CONCURRENCY", value_name = "NUMBER")]
    ipaddressclaim_concurrency: Option<u16>,
    /// Delete IPAddresses of our pools whose claim is gone, instead of only telling of them.
    #[arg(long, env = "NEPHELE_IPAM_RECLAIM_ORPHANS", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set)]
    ipam_reclaim_orphans: bool,
    /// What to do about pools with addresses in common: off, or warn by a condition on both.
    #[arg(long, env = "NEPHELE_IPAM_OVERLAP", value_name = "POLICY", default_value_t = Options::default().ipam_overlap)]
    ipam_overlap: String,
    /// Make the CA, etcd, proxy and kubeconfig Secrets of a new cluster before its KubeadmControlPlane does, so that
    /// Cluster API connects at its first attempt rather than half a minute later.
    #[arg(long, env = "NEPHELE_PREPARE_CREDENTIALS", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "true", default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set)]
    prepare_credentials: bool,
    /// Features to switch, as Name=true,Other=false.
    #[arg(long, env = "NEPHELE_FEATURE_GATES", value_name = "GATES", default_value = "")]
    feature_gates: String,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Leader election")]
struct Election {
    /// Work only while holding a lease, so that several replicas can run.
    #[arg(long, env = "NEPHELE_LEADER_ELECT", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set)]
    leader_elect: bool,
    /// The lease, as namespace/name, or name in the manager's own namespace.
    #[arg(long, env = "NEPHELE_LEADER_ELECTION_ID", value_name = "LEASE",
          default_value_t = Options::default().leader_election_id)]
    leader_election_id: String,
    /// How long others see the lease unchanged before they take it.
    #[arg(long, env = "NEPHELE_LEADER_ELECT_LEASE_DURATION", value_name = "DURATION", default_value = "15s",
          value_parser = nephele_go_duration::parse)]
    leader_elect_lease_duration: Duration,
    /// How long the holder tries to renew the lease before it gives up.
    #[arg(long, env = "NEPHELE_LEADER_ELECT_RENEW_DEADLINE", value_name = "DURATION", default_value = "10s",
          value_parser = nephele_go_duration::parse)]
    leader_elect_renew_deadline: Duration,
    /// The time between two attempts to take or renew the lease.
    #[arg(long, env = "NEPHELE_LEADER_ELECT_RETRY_PERIOD", value_name = "DURATION", default_value = "2s",
          value_parser = nephele_go_duration::parse)]
    leader_elect_retry_period: Duration,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Health and diagnostics")]
struct Admin {
    /// Where /healthz and /readyz are served; 0 for nowhere. Also called --health-probe-bind-address.
    #[arg(long, alias = "health-probe-bind-address", env = "NEPHELE_HEALTH_ADDR", value_name = "ADDRESS",
          default_value_t = Options::default().health_address)]
    health_addr: String,
    /// Where /metrics is served; 0 for nowhere. Also called --metrics-bind-addr and --metrics-bind-address.
    #[arg(long, aliases = ["metrics-bind-addr", "metrics-bind-address"], env = "NEPHELE_DIAGNOSTICS_ADDRESS", value_name = "ADDRESS",
          default_value_t = Options::default().diagnostics_address)]
    diagnostics_address: String,
    /// Serve diagnostics by plain HTTP to everyone, instead of by HTTPS to those whom the cluster's roles allow it.
    #[arg(long, env = "NEPHELE_INSECURE_DIAGNOSTICS", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set)]
    insecure_diagnostics: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
struct Tls {
    /// The least version that webhooks, diagnostics and the runtime extension speak: VersionTLS12 or VersionTLS13. Older
    /// ones are not offered.
    #[arg(long, env = "NEPHELE_TLS_MIN_VERSION", value_name = "VERSION",
          default_value_t = Options::default().tls_min_version)]
    tls_min_version: String,
    /// The cipher suites that they may choose in TLS 1.2, by Go's names and with commas between them; those of TLS 1.3
    /// cannot be chosen [default: all that are secure]
    #[arg(
        long,
        env = "NEPHELE_TLS_CIPHER_SUITES",
        value_name = "SUITES",
        default_value = "",
        hide_default_value = true
    )]
    tls_cipher_suites: String,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Webhooks")]
struct Webhooks {
    /// The IP address or name of this machine on which they are served; empty for all of its addresses.
    #[arg(
        long,
        env = "NEPHELE_WEBHOOK_HOST",
        value_name = "HOST",
        default_value = "",
        hide_default_value = true
    )]
    webhook_host: String,
    /// The port on which they are served; 0 for not at all. API servers call them by a Service.
    #[arg(long, env = "NEPHELE_WEBHOOK_PORT", value_name = "PORT", default_value_t = 9443)]
    webhook_port: u16,
    /// The folder with their certificate, for instance cert-manager's [default: the manager makes one, renews it and
    /// has it trusted]
    #[arg(
        long,
        env = "NEPHELE_WEBHOOK_CERT_DIR",
        value_name = "FOLDER",
        default_value = "",
        hide_default_value = true
    )]
    webhook_cert_dir: String,
    /// The file with the certificate in that folder.
    #[arg(long, env = "NEPHELE_WEBHOOK_CERT_NAME", value_name = "FILE",
          default_value_t = Options::default().webhook_cert_name)]
    webhook_cert_name: String,
    /// The file with the key in that folder.
    #[arg(long, env = "NEPHELE_WEBHOOK_KEY_NAME", value_name = "FILE",
          default_value_t = Options::default().webhook_key_name)]
    webhook_key_name: String,
    /// The Service in the manager's own namespace that API servers call [default: nephele-webhook-service for the role
    /// infrastructure, capi-ipam-in-cluster-webhook-service for ipam]
    #[arg(
        long,
        env = "NEPHELE_WEBHOOK_SERVICE",
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    webhook_service: String,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Runtime extension")]
struct RuntimeExtension {
    /// The port on which the hooks of Cluster API are answered, with the role runtime-extension. Cluster API calls them by
    /// the Service nephele-runtime-extension-service.
    #[arg(long, env = "NEPHELE_RUNTIME_EXTENSION_PORT", value_name = "PORT",
          default_value_t = Options::default().runtime_extension_port)]
    runtime_extension_port: u16,
    /// The oldest release of Cluster API that is to discover the extension: 1.10 and 1.11 would refuse one that offers
    /// hooks that came with 1.12.
    #[arg(long, env = "NEPHELE_RUNTIME_EXTENSION_CLUSTER_API", value_name = "RELEASE",
          default_value_t = Options::default().runtime_extension_cluster_api)]
    runtime_extension_cluster_api: String,
    /// The file with the authorities of clients, PEM: only clients with a certificate of one of them are answered. Cluster API
    /// shows one with --runtime-extension-client-cert-file and --runtime-extension-client-key-file [default: answer any
    /// client]
    #[arg(
        long,
        env = "NEPHELE_RUNTIME_EXTENSION_CLIENT_CA_FILE",
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    runtime_extension_client_ca_file: String,
    /// Record the first 500 calls of each hook and their answers in this folder; empty for none.
    #[arg(
        long,
        env = "NEPHELE_RUNTIME_EXTENSION_RECORDINGS",
        value_name = "FOLDER",
        default_value = "",
        hide_default_value = true
    )]
    runtime_extension_recordings: String,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Simulated cloud")]
struct SimulatedCloud {
    /// The IP address or DNS name under which clients reach the workload API servers [default: the environment's
    /// POD_IP, else 127.0.0.1]
    #[arg(long, env = "NEPHELE_ADVERTISE_HOST", value_name = "HOST")]
    advertise_host: Option<String>,
    /// The address the workload API servers listen on.
    #[arg(long, env = "NEPHELE_BIND_ADDRESS", value_name = "IP", default_value_t = Options::default().bind_address)]
    bind_address: String,
    /// The ports the workload API servers listen on, one per cluster.
    #[arg(long, env = "NEPHELE_WORKLOAD_PORTS", value_name = "FIRST-LAST",
          default_value_t = Options::default().workload_ports)]
    workload_ports: String,
    /// How many machines there may be in a namespace at a time; further ones wait, and say so. 0 for any number.
    #[arg(long, env = "NEPHELE_MAX_MACHINES_PER_NAMESPACE", value_name = "NUMBER",
          default_value_t = Options::default().machines_max)]
    max_machines_per_namespace: u32,
    /// How long a new connection to a workload cluster waits for a first control plane before it is closed.
    #[arg(long, env = "NEPHELE_CONNECTION_HOLD", value_name = "DURATION", default_value = "9s",
          value_parser = nephele_go_duration::parse)]
    connection_hold: Duration,
    /// What every random draw starts from: the same seed and the same names give the same delays.
    #[arg(long, env = "NEPHELE_SEED", default_value_t = Options::default().seed)]
    seed: String,
    /// The folder in which what clients write to workload clusters is kept over a restart, made if it is not there; empty
    /// for none. One manager uses it at a time.
    #[arg(
        long,
        env = "NEPHELE_STATE_DIR",
        value_name = "FOLDER",
        default_value = "",
        hide_default_value = true
    )]
    state_dir: String,
    /// The file in which everything is kept that the simulated cloud was asked and that happened in it, for `nephele journal
    /// replay`; empty for none. It holds 256 MiB; the file before it is kept with the ending `.1`.
    #[arg(long, env = "NEPHELE_JOURNAL", value_name = "FILE", default_value = "", hide_default_value = true)]
    journal: String,
}

/// What managers written in Go know and deployments therefore set, the Cluster API Operator's among them. A manager that
/// did not know a flag would not start.
#[derive(Debug, Args)]
#[command(next_help_heading = "Accepted, and without effect")]
struct Ignored {
    /// Without effect: there are no profiles of a Go program here. Metrics have the process's processor time and memory.
    #[arg(
        long,
        env = "NEPHELE_PROFILER_ADDRESS",
        value_name = "ADDRESS",
        default_value = "",
        hide_default_value = true
    )]
    profiler_address: String,
    /// Without effect, as --profiler-address.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set, hide_default_value = true)]
    contention_profiling: bool,
    /// Without effect: as many InMemoryMachinePools are reconciled at a time as InMemoryClusters.
    #[arg(long, value_name = "NUMBER")]
    inmemorymachinepool_concurrency: Option<u16>,
    /// Without effect: each pool of addresses has a task of its own. Also for prefix pools and global pools.
    #[arg(long, value_name = "NUMBER", aliases = ["globalinclusterippool-concurrency", "inclusterprefixpool-concurrency",
          "globalinclusterprefixpool-concurrency"])]
    inclusterippool_concurrency: Option<u16>,
}

impl Ignored {
    /// The flags that were given.
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
            ("--inmemorymachinepool-concurrency", inmemorymachinepool_concurrency.is_some()),
            ("--inclusterippool-concurrency", inclusterippool_concurrency.is_some()),
        ];
        flags.into_iter().filter_map(|(flag, is_given)| is_given.then_some(flag)).collect()
    }
}

/// What the pod tells its process about itself through the environment (downward API).
#[derive(Debug, Default)]
struct Pod {
    ip: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
}

impl Pod {
    fn from_environment() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
        Self { ip: variable("POD_IP"), name: variable("POD_NAME"), namespace: variable("POD_NAMESPACE") }
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
    let kube_config = kube_config(args.api.kubeconfig.as_ref()).await?;
    let rate = args.api.rate();
    let options = args.options(Pod::from_environment(), &kube_config.default_namespace);
    let config = Config::new(options)?;
    let registry = Registry::new();
    allocator::register(&registry).context("failed to register a metric")?;
    let clients = connect(&kube_config, rate, &registry)?;
    let manager = Manager::build_with(config, clients, registry)?.with_verbosity(verbosity);
    manager.run(shutdown).await?;
    Ok(ExitCode::SUCCESS)
}

async fn kube_config(file: Option<&PathBuf>) -> anyhow::Result<kube::Config> {
    let Some(file) = file else {
        return kube::Config::infer().await.context("failed to find the management API");
    };
    let kubeconfig = Kubeconfig::read_from(file)
        .with_context(|| format!("failed to read kubeconfig {}", file.display()))?;
    kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("failed to use kubeconfig {}", file.display()))
}

impl ManagerArgs {
    fn options(self, pod: Pod, default_namespace: &str) -> Options {
        let Self {
            logging: _,
            api: _,
            controllers,
            election,
            admin,
            tls,
            webhooks,
            runtime_extension,
            cloud,
            ignored: _,
        } = self;
        let defaults = Options::default();
        let concurrency = |of_kind: Option<u16>, default| {
            of_kind.or(controllers.max_concurrent_reconciles).unwrap_or(default)
        };
        Options {
            roles: controllers.roles,
            namespace: controllers.namespace,
            watch_filter: controllers.watch_filter,
            leader_elect: election.leader_elect,
            leader_election_id: election.leader_election_id,
            lease_duration: election.leader_elect_lease_duration,
            renew_deadline: election.leader_elect_renew_deadline,
            retry_period: election.leader_elect_retry_period,
            diagnostics_address: admin.diagnostics_address,
            insecure_diagnostics: admin.insecure_diagnostics,
            tls_min_version: tls.tls_min_version,
            tls_cipher_suites: tls.tls_cipher_suites,
            health_address: admin.health_addr,
            webhook_host: webhooks.webhook_host,
            webhook_port: webhooks.webhook_port,
            webhook_cert_dir: webhooks.webhook_cert_dir,
            webhook_cert_name: webhooks.webhook_cert_name,
            webhook_key_name: webhooks.webhook_key_name,
            webhook_service: webhooks.webhook_service,
            runtime_extension_port: runtime_extension.runtime_extension_port,
            runtime_extension_cluster_api: runtime_extension.runtime_extension_cluster_api,
            runtime_extension_client_ca_file: runtime_extension.runtime_extension_client_ca_file,
            runtime_extension_recordings: runtime_extension.runtime_extension_recordings,
            feature_gates: controllers.feature_gates,
            sync_period: controllers.sync_period,
            cluster_concurrency: concurrency(
                controllers.inmemorycluster_concurrency,
                defaults.cluster_concurrency,
            ),
            machine_concurrency: concurrency(
                controllers.inmemorymachine_concurrency,
                defaults.machine_concurrency,
            ),
            claim_concurrency: concurrency(
                controllers.ipaddressclaim_concurrency,
                defaults.claim_concurrency,
            ),
            ipam_reclaim_orphans: controllers.ipam_reclaim_orphans,
            ipam_overlap: controllers.ipam_overlap,
            prepare_credentials: controllers.prepare_credentials,
            advertise_host: cloud.advertise_host.or(pod.ip).unwrap_or(defaults.advertise_host),
            bind_address: cloud.bind_address,
            workload_ports: cloud.workload_ports,
            machines_max: cloud.max_machines_per_namespace,
            connection_hold: cloud.connection_hold,
            seed: cloud.seed,
            state_dir: cloud.state_dir,
            journal: cloud.journal,
            pod_namespace: pod.namespace.unwrap_or_else(|| default_namespace.to_owned()),
            // A pod keeps its name over a restart of its container, so that it takes its own lease up again at once.
            identity: pod.name.unwrap_or_else(|| format!("nephele_{}", std::process::id())),
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
        Options { identity, pod_namespace: "default".into(), webhook_port: 9443, ..Options::default() }
    }

    #[test]
    fn no_flags_are_the_defaults() {
        assert_eq!(options(&[]), unchanged());
    }

    #[test]
    fn flags_take_the_forms_of_go() {
        let on = Options { leader_elect: true, ..unchanged() };
        for form in ["--leader-elect", "--leader-elect=true", "--leader-elect=1", "--leader-elect=T"] {
            assert_eq!(options(&[form]), on, "{form}");
        }
        assert_eq!(options(&["--leader-elect=false"]), unchanged());
        let quick = Options { sync_period: Duration::from_secs(90), ..unchanged() };
        assert_eq!(options(&["--sync-period=1m30s"]), quick);
        assert_eq!(options(&["--sync-period", "90s"]), quick);
    }

    #[test]
    fn every_flag_reaches_its_option() {
        let text = |text: &str| text.to_owned();
        let seconds = Duration::from_secs;
        let plain = unchanged;
        for (flag, expected) in [
            ("--namespace=a", Options { namespace: text("a"), ..plain() }),
            ("--watch-filter=a", Options { watch_filter: text("a"), ..plain() }),
            ("--leader-election-id=a/b", Options { leader_election_id: text("a/b"), ..plain() }),
            ("--leader-elect-lease-duration=60s", Options { lease_duration: seconds(60), ..plain() }),
            ("--leader-elect-renew-deadline=40s", Options { renew_deadline: seconds(40), ..plain() }),
            ("--leader-elect-retry-period=5s", Options { retry_period: seconds(5), ..plain() }),
            ("--diagnostics-address=:1", Options { diagnostics_address: text(":1"), ..plain() }),
            ("--insecure-diagnostics", Options { insecure_diagnostics: true, ..plain() }),
            ("--tls-min-version=VersionTLS13", Options { tls_min_version: "VersionTLS13".into(), ..plain() }),
            ("--tls-cipher-suites=A,B", Options { tls_cipher_suites: "A,B".into(), ..plain() }),
            ("--health-addr=:1", Options { health_address: text(":1"), ..plain() }),
            ("--health-probe-bind-address=:1", Options { health_address: text(":1"), ..plain() }),
            ("--metrics-bind-addr=:1", Options { diagnostics_address: text(":1"), ..plain() }),
            ("--metrics-bind-address=:1", Options { diagnostics_address: text(":1"), ..plain() }),
            ("--max-machines-per-namespace=5", Options { machines_max: 5, ..plain() }),
            ("--webhook-host=::1", Options { webhook_host: text("::1"), ..plain() }),
            ("--webhook-port=1", Options { webhook_port: 1, ..plain() }),
            ("--webhook-cert-dir=/a", Options { webhook_cert_dir: text("/a"), ..plain() }),
            ("--webhook-cert-name=a", Options { webhook_cert_name: text("a"), ..plain() }),
            ("--state-dir=/a", Options { state_dir: text("/a"), ..plain() }),
            ("--journal=/a", Options { journal: text("/a"), ..plain() }),
            ("--webhook-key-name=a", Options { webhook_key_name: text("a"), ..plain() }),
            ("--runtime-extension-port=1", Options { runtime_extension_port: 1, ..plain() }),
            (
                "--runtime-extension-cluster-api=1.11",
                Options { runtime_extension_cluster_api: text("1.11"), ..plain() },
            ),
            (
                "--runtime-extension-client-ca-file=/a",
                Options { runtime_extension_client_ca_file: text("/a"), ..plain() },
            ),
            (
                "--runtime-extension-recordings=/a",
                Options { runtime_extension_recordings: text("/a"), ..plain() },
            ),
            ("--feature-gates=A=true", Options { feature_gates: text("A=true"), ..plain() }),
            ("--inmemorycluster-concurrency=7", Options { cluster_concurrency: 7, ..plain() }),
            ("--inmemorymachine-concurrency=7", Options { machine_concurrency: 7, ..plain() }),
            ("--ipaddressclaim-concurrency=7", Options { claim_concurrency: 7, ..plain() }),
        ] {
            assert_eq!(options(&[flag]), expected, "{flag}");
            if let Some((name, value)) = flag.split_once('=') {
                assert_eq!(options(&[name, value]), expected, "{name} {value}");
            }
        }
    }

    #[test]
    fn a_kind_s_own_concurrency_counts_before_that_of_all() {
        let all =
            Options { cluster_concurrency: 7, machine_concurrency: 7, claim_concurrency: 7, ..unchanged() };
        assert_eq!(options(&["--max-concurrent-reconciles=7"]), all);
        let own = Options { machine_concurrency: 9, ..all };
        for flags in [
            ["--max-concurrent-reconciles=7", "--inmemorymachine-concurrency=9"],
            ["--inmemorymachine-concurrency=9", "--max-concurrent-reconciles=7"],
        ] {
            assert_eq!(options(&flags), own, "{flags:?}");
        }
    }

    #[test]
    fn the_concurrency_that_the_help_speaks_of_is_the_default() {
        let help = <Only as clap::CommandFactory>::command().render_long_help().to_string();
        let Options { cluster_concurrency, machine_concurrency, claim_concurrency, .. } = Options::default();
        for (kind, default) in [
            ("InMemoryClusters", cluster_concurrency),
            ("InMemoryMachines", machine_concurrency),
            ("IPAddressClaims", claim_concurrency),
        ] {
            let after = help.split(&format!("How many {kind} are")).nth(1).expect("the help names it");
            let said = after.split_once("[default: ").and_then(|(_, rest)| rest.split_once(']'));
            assert_eq!(said.map(|(number, _)| number), Some(default.to_string().as_str()), "{kind}");
        }
    }

    /// What the Cluster API Operator makes of every field of a provider's `spec.manager`
    /// (internal/controller/component_customizer.go): it replaces the value of a flag that the components give with `=`,
    /// and adds any other flag at the end.
    #[test]
    fn a_manager_starts_with_all_that_the_operator_adds() {
        let ours = ["--leader-elect", "--diagnostics-address=:8443", "--insecure-diagnostics=false", "--v=2"];
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
            cluster_concurrency: 1,
            machine_concurrency: 2,
            claim_concurrency: 4,
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
        // A newer form of the operator sets the secured diagnostics by their own name.
        let open = ["--diagnostics-address=:8444", "--insecure-diagnostics=true"];
        let expected =
            Options { diagnostics_address: ":8444".into(), insecure_diagnostics: true, ..unchanged() };
        assert_eq!(options(&open), expected);
    }

    #[test]
    fn a_flag_without_effect_says_so_in_its_help_and_when_it_is_given() {
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
        let heading = Some("Accepted, and without effect");
        let without: Vec<_> =
            command.get_arguments().filter(|arg| arg.get_help_heading() == heading).collect();
        assert_eq!(without.len(), names.len());
        for arg in without {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.starts_with("Without effect"), "{help}");
        }
    }

    #[test]
    fn preparing_credentials_can_be_left_to_the_control_plane_provider() {
        let off = Options { prepare_credentials: false, ..unchanged() };
        assert_eq!(options(&["--prepare-credentials=false"]), off);
    }

    #[test]
    fn webhooks_can_be_left_out_or_have_certificates_of_a_folder() {
        let off = Options { webhook_port: 0, ..unchanged() };
        assert_eq!(options(&["--webhook-port=0"]), off);
        let folder = Options { webhook_cert_dir: "/certs".into(), ..unchanged() };
        assert_eq!(options(&["--webhook-cert-dir=/certs"]), folder);
    }

    #[test]
    fn a_boolean_flag_does_not_swallow_what_follows() {
        let both = Options { leader_elect: true, namespace: "ns".into(), ..unchanged() };
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
            Only::try_parse_from(args).expect("valid flags").manager.options(pod(), "default")
        };
        let expected = Options {
            advertise_host: "10.0.0.7".into(),
            identity: "pod-0".into(),
            pod_namespace: "nephele-system".into(),
            webhook_port: 9443,
            ..Options::default()
        };
        assert_eq!(parse(&[]), expected);
        let named = Options { advertise_host: "nephele.example".into(), ..expected };
        assert_eq!(parse(&["--advertise-host=nephele.example"]), named);
    }

    #[test]
    fn the_rate_of_requests_is_the_one_asked_for() {
        let rate = |flags: &[&str]| {
            let args = ["manager"].iter().chain(flags);
            Only::try_parse_from(args).expect("valid flags").manager.api.rate()
        };
        assert_eq!(rate(&[]), RequestRate::default());
        let slow = RequestRate { per_second: 0.5, burst: 3 };
        assert_eq!(rate(&["--kube-api-qps=0.5", "--kube-api-burst=3"]), slow);
    }

    #[test]
    fn rates_have_to_be_above_zero() {
        for flags in
            [["--kube-api-qps=0"], ["--kube-api-qps=nan"], ["--kube-api-burst=0"], ["--sync-period=soon"]]
        {
            assert!(Only::try_parse_from(["manager"].iter().chain(&flags)).is_err(), "{flags:?}");
        }
    }
}
