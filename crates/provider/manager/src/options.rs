use std::time::Duration;

use clap::{ArgAction, Args, Command, FromArgMatches, builder::Resettable};
use nephele_runtime_sdk::catalog::Release;

// The headings of `--help`.
const CONTROLLERS: &str = "Controllers";
const ELECTION: &str = "Leader election";
const ADMIN: &str = "Health and diagnostics";
const TLS: &str = "TLS";
const WEBHOOKS: &str = "Webhooks";
const RUNTIME_EXTENSION: &str = "Runtime extension";
const CLOUD: &str = "Simulated cloud";

/// The lease of a manager that was not given another one.
pub const LEADER_ELECTION_ID: &str = "controller-leader-election-nephele";

/// The clusters for which one manager is designed: a tenth of the default range of ports, so that ten namespaces have room.
const CLUSTERS_MAX: u32 = 1000;

/// A thousand clusters with a hundred machines each: more than one manager is made for.
const MACHINES_MAX: u32 = 100_000;

/// The manager's options, unchecked. This is the only declaration of the flags: their names, environment variables,
/// help and defaults. [`Config`](crate::Config) checks the values.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Options {
    /// Roles of the manager: infrastructure, ipam, runtime-extension.
    #[arg(long, env = "NEPHELE_ROLES", value_name = "ROLES", default_value = "infrastructure,ipam",
          help_heading = CONTROLLERS)]
    pub roles: String,
    /// Watch only this namespace; empty for all.
    #[arg(long, env = "NEPHELE_NAMESPACE", default_value = "", help_heading = CONTROLLERS)]
    pub namespace: String,
    /// Reconcile only objects whose label cluster.x-k8s.io/watch-filter has this value; empty for all.
    #[arg(long, env = "NEPHELE_WATCH_FILTER", value_name = "VALUE", default_value = "", help_heading = CONTROLLERS)]
    pub watch_filter: String,
    /// How often every object is reconciled without a change; 0 for never.
    #[arg(long, env = "NEPHELE_SYNC_PERIOD", value_name = "DURATION", default_value = "10m",
          value_parser = nephele_go_duration::parse, help_heading = CONTROLLERS)]
    pub sync_period: Duration,
    /// How many objects of each kind are reconciled at a time, for kinds without a flag of their own.
    #[arg(long, env = "NEPHELE_MAX_CONCURRENT_RECONCILES", value_name = "NUMBER", help_heading = CONTROLLERS)]
    pub max_concurrent_reconciles: Option<u16>,
    /// How many InMemoryClusters are reconciled at a time, and how many InMemoryMachinePools [default: 50]
    #[arg(long = "inmemorycluster-concurrency", env = "NEPHELE_INMEMORYCLUSTER_CONCURRENCY", value_name = "NUMBER",
          help_heading = CONTROLLERS)]
    pub cluster_concurrency: Option<u16>,
    /// How many InMemoryMachines are reconciled at a time [default: 100]
    #[arg(long = "inmemorymachine-concurrency", env = "NEPHELE_INMEMORYMACHINE_CONCURRENCY", value_name = "NUMBER",
          help_heading = CONTROLLERS)]
    pub machine_concurrency: Option<u16>,
    /// How many IPAddressClaims are reconciled at a time [default: 128]
    #[arg(long = "ipaddressclaim-concurrency", env = "NEPHELE_IPADDRESSCLAIM_CONCURRENCY", value_name = "NUMBER",
          help_heading = CONTROLLERS)]
    pub claim_concurrency: Option<u16>,
    /// Delete IPAddresses of our pools whose claim is gone, instead of only reporting them.
    #[arg(long, env = "NEPHELE_IPAM_RECLAIM_ORPHANS", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set,
          help_heading = CONTROLLERS)]
    pub ipam_reclaim_orphans: bool,
    /// What to do about pools with addresses in common: off, or warn with a condition on both.
    #[arg(long, env = "NEPHELE_IPAM_OVERLAP", value_name = "POLICY", default_value = "off",
          help_heading = CONTROLLERS)]
    pub ipam_overlap: String,
    /// Create the CA, etcd, proxy and kubeconfig Secrets of a new cluster before its KubeadmControlPlane does, so
    /// that Cluster API connects at its first attempt instead of half a minute later.
    #[arg(long, env = "NEPHELE_PREPARE_CREDENTIALS", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "true", default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set,
          help_heading = CONTROLLERS)]
    pub prepare_credentials: bool,
    /// Feature gates, as Name=true,Other=false.
    #[arg(long, env = "NEPHELE_FEATURE_GATES", value_name = "GATES", default_value = "", help_heading = CONTROLLERS)]
    pub feature_gates: String,
    /// Work only while holding a lease, so that several replicas can run.
    #[arg(long, env = "NEPHELE_LEADER_ELECT", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set,
          help_heading = ELECTION)]
    pub leader_elect: bool,
    /// The lease, as namespace/name, or name for the manager's own namespace.
    #[arg(long, env = "NEPHELE_LEADER_ELECTION_ID", value_name = "LEASE",
          default_value = LEADER_ELECTION_ID, help_heading = ELECTION)]
    pub leader_election_id: String,
    /// How long other replicas see the lease unchanged before they take it.
    #[arg(long = "leader-elect-lease-duration", env = "NEPHELE_LEADER_ELECT_LEASE_DURATION", value_name = "DURATION",
          default_value = "15s", value_parser = nephele_go_duration::parse, help_heading = ELECTION)]
    pub lease_duration: Duration,
    /// How long the holder tries to renew the lease before it gives up.
    #[arg(long = "leader-elect-renew-deadline", env = "NEPHELE_LEADER_ELECT_RENEW_DEADLINE", value_name = "DURATION",
          default_value = "10s", value_parser = nephele_go_duration::parse, help_heading = ELECTION)]
    pub renew_deadline: Duration,
    /// The time between two attempts to renew the lease. Replicas that wait read it four times as often.
    #[arg(long = "leader-elect-retry-period", env = "NEPHELE_LEADER_ELECT_RETRY_PERIOD", value_name = "DURATION",
          default_value = "2s", value_parser = nephele_go_duration::parse, help_heading = ELECTION)]
    pub retry_period: Duration,
    /// Address of /healthz and /readyz; 0 for none. Also called --health-probe-bind-address.
    #[arg(long = "health-addr", alias = "health-probe-bind-address", env = "NEPHELE_HEALTH_ADDR",
          value_name = "ADDRESS", default_value = ":9440", help_heading = ADMIN)]
    pub health_address: String,
    /// Address of /metrics; 0 for none. Also called --metrics-bind-addr and --metrics-bind-address.
    #[arg(long, aliases = ["metrics-bind-addr", "metrics-bind-address"], env = "NEPHELE_DIAGNOSTICS_ADDRESS",
          value_name = "ADDRESS", default_value = ":8443", help_heading = ADMIN)]
    pub diagnostics_address: String,
    /// Serve diagnostics over plain HTTP to everyone, instead of over HTTPS to users whose roles allow it.
    #[arg(long, env = "NEPHELE_INSECURE_DIAGNOSTICS", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set,
          help_heading = ADMIN)]
    pub insecure_diagnostics: bool,
    /// Address of the live page over HTTPS, for people who sign in with a token of the management API; 0 for none.
    #[arg(long, env = "NEPHELE_PAGE_ADDRESS", value_name = "ADDRESS", default_value = "0", help_heading = ADMIN)]
    pub page_address: String,
    /// The minimum TLS version of webhooks, diagnostics, the page and the runtime extension: VersionTLS12 or VersionTLS13.
    #[arg(long, env = "NEPHELE_TLS_MIN_VERSION", value_name = "VERSION", default_value = "VersionTLS12",
          help_heading = TLS)]
    pub tls_min_version: String,
    /// Cipher suites for TLS 1.2, by Go's names, separated by commas; those of TLS 1.3 cannot be chosen [default:
    /// all secure ones]
    #[arg(long, env = "NEPHELE_TLS_CIPHER_SUITES", value_name = "SUITES", default_value = "",
          hide_default_value = true, help_heading = TLS)]
    pub tls_cipher_suites: String,
    /// IP address or name of this machine on which webhooks are served; empty for all of its addresses.
    #[arg(long, env = "NEPHELE_WEBHOOK_HOST", value_name = "HOST", default_value = "", hide_default_value = true,
          help_heading = WEBHOOKS)]
    pub webhook_host: String,
    /// Port of the webhooks; 0 for none. API servers call them through a Service.
    #[arg(long, env = "NEPHELE_WEBHOOK_PORT", value_name = "PORT", default_value_t = 9443, help_heading = WEBHOOKS)]
    pub webhook_port: u16,
    /// Folder with the webhook certificate, for instance cert-manager's [default: the manager makes and renews one,
    /// and has API servers trust it]
    #[arg(long, env = "NEPHELE_WEBHOOK_CERT_DIR", value_name = "FOLDER", default_value = "",
          hide_default_value = true, help_heading = WEBHOOKS)]
    pub webhook_cert_dir: String,
    /// Certificate file in that folder.
    #[arg(long, env = "NEPHELE_WEBHOOK_CERT_NAME", value_name = "FILE", default_value = "tls.crt",
          help_heading = WEBHOOKS)]
    pub webhook_cert_name: String,
    /// Key file in that folder.
    #[arg(long, env = "NEPHELE_WEBHOOK_KEY_NAME", value_name = "FILE", default_value = "tls.key",
          help_heading = WEBHOOKS)]
    pub webhook_key_name: String,
    /// Service in the manager's namespace that API servers call [default: nephele-webhook-service for the role
    /// infrastructure, capi-ipam-in-cluster-webhook-service for ipam]
    #[arg(long, env = "NEPHELE_WEBHOOK_SERVICE", value_name = "NAME", default_value = "", hide_default_value = true,
          help_heading = WEBHOOKS)]
    pub webhook_service: String,
    /// Port of the runtime extension, for the role runtime-extension. Cluster API calls it through the Service
    /// nephele-runtime-extension-service.
    #[arg(long, env = "NEPHELE_RUNTIME_EXTENSION_PORT", value_name = "PORT", default_value_t = 9444,
          help_heading = RUNTIME_EXTENSION)]
    pub runtime_extension_port: u16,
    /// The oldest release of Cluster API that has to accept the extension: 1.10 and 1.11 refuse one that offers hooks
    /// of 1.12.
    #[arg(long, env = "NEPHELE_RUNTIME_EXTENSION_CLUSTER_API", value_name = "RELEASE",
          default_value_t = Release::LATEST.to_string(), help_heading = RUNTIME_EXTENSION)]
    pub runtime_extension_cluster_api: String,
    /// PEM file with client authorities: the extension answers only clients with a certificate of one of them.
    /// Cluster API shows one with --runtime-extension-client-cert-file and --runtime-extension-client-key-file
    /// [default: answer any client]
    #[arg(long, env = "NEPHELE_RUNTIME_EXTENSION_CLIENT_CA_FILE", value_name = "FILE", default_value = "",
          hide_default_value = true, help_heading = RUNTIME_EXTENSION)]
    pub runtime_extension_client_ca_file: String,
    /// Folder in which the first 500 calls of each hook are recorded, with their answers; empty for none.
    #[arg(long, env = "NEPHELE_RUNTIME_EXTENSION_RECORDINGS", value_name = "FOLDER", default_value = "",
          hide_default_value = true, help_heading = RUNTIME_EXTENSION)]
    pub runtime_extension_recordings: String,
    /// IP address or DNS name of all workload cluster endpoints [default: the environment's POD_IP, else 127.0.0.1]
    #[arg(long, env = "NEPHELE_ADVERTISE_HOST", value_name = "HOST", help_heading = CLOUD)]
    pub advertise_host: Option<String>,
    /// Address on which the workload API servers listen. `::` is all of IPv6 and IPv4.
    #[arg(long, env = "NEPHELE_BIND_ADDRESS", value_name = "IP", default_value = "::", help_heading = CLOUD)]
    pub bind_address: String,
    /// Ports of the workload API servers, one per cluster.
    #[arg(long, env = "NEPHELE_WORKLOAD_PORTS", value_name = "FIRST-LAST", default_value = "20000-29999",
          help_heading = CLOUD)]
    pub workload_ports: String,
    /// Further ports, served for clusters that were published with them, such as those of a manager from which clusters
    /// move, with commas between ranges; never given to new clusters.
    #[arg(long, env = "NEPHELE_MOVED_PORTS", value_name = "RANGES", default_value = "", hide_default_value = true,
          help_heading = CLOUD)]
    pub moved_ports: String,
    /// The most clusters in a namespace at a time, with leaked load balancers; further ones wait, with a condition that
    /// says so. 0 for any number.
    #[arg(long = "max-clusters-per-namespace", env = "NEPHELE_MAX_CLUSTERS_PER_NAMESPACE", value_name = "NUMBER",
          default_value_t = CLUSTERS_MAX, help_heading = CLOUD)]
    pub clusters_max: u32,
    /// The most machines in a namespace at a time; further ones wait, with a condition that says so. 0 for any
    /// number.
    #[arg(long = "max-machines-per-namespace", env = "NEPHELE_MAX_MACHINES_PER_NAMESPACE", value_name = "NUMBER",
          default_value_t = MACHINES_MAX, help_heading = CLOUD)]
    pub machines_max: u32,
    /// How long a new connection to a workload cluster waits for a first control plane before it is closed.
    #[arg(long, env = "NEPHELE_CONNECTION_HOLD", value_name = "DURATION", default_value = "9s",
          value_parser = nephele_go_duration::parse, help_heading = CLOUD)]
    pub connection_hold: Duration,
    /// Seed of every random draw; the same seed gives the same delays.
    #[arg(long, env = "NEPHELE_SEED", default_value = "nephele", help_heading = CLOUD)]
    pub seed: String,
    /// Folder that keeps the objects of workload clusters over a restart, created if missing; empty for none. One
    /// manager at a time can use it.
    #[arg(long, env = "NEPHELE_STATE_DIR", value_name = "FOLDER", default_value = "", hide_default_value = true,
          help_heading = CLOUD)]
    pub state_dir: String,
    /// Journal file: every call to the simulated cloud and every event in it, for `nephele journal replay`; empty
    /// for none. It holds 256 MiB; the one before it is kept with the ending `.1`.
    #[arg(long, env = "NEPHELE_JOURNAL", value_name = "FILE", default_value = "", hide_default_value = true,
          help_heading = CLOUD)]
    pub journal: String,
    /// The manager's namespace.
    #[arg(skip = "nephele-system")]
    pub pod_namespace: String,
    /// The identity of this process among the replicas.
    #[arg(skip = "nephele-manager")]
    pub identity: String,
}

impl Default for Options {
    /// The flags' defaults, without the environment and without webhooks: no Service leads to a manager that a
    /// program starts in its own process.
    fn default() -> Self {
        let flags = Self::augment_args(Command::new("manager").no_binary_name(true));
        let flags = flags.mut_args(|flag| flag.env(Resettable::Reset));
        let matches = flags
            .try_get_matches_from([""; 0])
            .expect("every flag has a default or is optional");
        let options = Self::from_arg_matches(&matches).expect("defaults are values of their flags");
        Self {
            webhook_port: 0,
            ..options
        }
    }
}

/// Parses a boolean as Go does (`strconv.ParseBool`).
///
/// # Errors
///
/// With a message when it is none.
pub fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}
