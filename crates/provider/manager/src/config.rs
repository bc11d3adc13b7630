use std::{
    collections::BTreeMap,
    net::{AddrParseError, IpAddr},
    num::NonZeroU16,
    ops::RangeInclusive,
    path::PathBuf,
    time::Duration,
};

use nephele_controller::LeaseSettings;
use nephele_ipam_controller::OverlapPolicy;
use nephele_runtime_sdk::catalog::{Release, ReleaseError};
use nephele_webhook::{TlsPolicy, TlsPolicyError, certificate::folder::Folder};

use crate::{
    address::{AddressError, ListenAddress},
    feature_gates::{self, FeatureGateError},
    options::Options,
    roles::{Roles, RolesError},
    webhooks::Certificates,
};

/// How many objects of a kind are reconciled at a time by default. The help of the flags repeats the numbers.
const CLUSTERS_AT_ONCE: u16 = 50;
const MACHINES_AT_ONCE: u16 = 100;
/// Claims mostly wait for a write of their pool, and up to 64 claims share one write.
const CLAIMS_AT_ONCE: u16 = 128;
/// The host of workload cluster endpoints when the manager does not run in a pod.
const ADVERTISE_HOST: &str = "127.0.0.1";

/// The manager's validated options.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub(crate) roles: Roles,
    pub(crate) namespace: Option<String>,
    pub(crate) watch_filter: Option<String>,
    pub(crate) lease: Option<LeaseSettings>,
    pub(crate) diagnostics: Option<ListenAddress>,
    pub(crate) insecure_diagnostics: bool,
    pub(crate) page: Option<ListenAddress>,
    pub(crate) tls: TlsPolicy,
    pub(crate) health: Option<ListenAddress>,
    pub(crate) webhooks: Option<WebhookConfig>,
    pub(crate) runtime_extension: Option<RuntimeExtensionConfig>,
    pub(crate) sync_period: Option<Duration>,
    pub(crate) cluster_concurrency: NonZeroU16,
    pub(crate) machine_concurrency: NonZeroU16,
    pub(crate) claim_concurrency: NonZeroU16,
    pub(crate) ipam_reclaim_orphans: bool,
    pub(crate) ipam_overlap: OverlapPolicy,
    pub(crate) prepare_credentials: bool,
    pub(crate) advertise_host: String,
    pub(crate) bind_address: IpAddr,
    pub(crate) workload_ports: RangeInclusive<u16>,
    pub(crate) moved_ports: Vec<RangeInclusive<u16>>,
    pub(crate) clusters_max: Option<u32>,
    pub(crate) machines_max: Option<u32>,
    pub(crate) connection_hold: Duration,
    pub(crate) seed: String,
    pub(crate) state_directory: Option<PathBuf>,
    /// The journal file of the cloud.
    pub(crate) journal: Option<PathBuf>,
    pub(crate) identity: String,
    /// Whether a stand-in plays Cluster API.
    pub(crate) has_stand_in: bool,
}

/// The address and the certificate of the webhooks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WebhookConfig {
    pub(crate) address: ListenAddress,
    pub(crate) certificates: Certificates,
}

/// The runtime extension: its address, its clients, and the namespace of its Service and Secret.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RuntimeExtensionConfig {
    pub(crate) address: ListenAddress,
    pub(crate) namespace: String,
    /// The oldest release of Cluster API that has to accept it.
    pub(crate) cluster_api: Release,
    /// The file with the client authorities; without it, the extension answers any client.
    pub(crate) client_authorities: Option<PathBuf>,
    /// The folder for recorded calls.
    pub(crate) recordings: Option<PathBuf>,
}

/// The flag with an invalid value, and the reason.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ConfigError {
    /// Not a list of roles.
    #[error("failed to take --roles")]
    Roles(#[source] RolesError),
    /// Not an address to listen on.
    #[error("failed to take --{flag}")]
    Address {
        flag: &'static str,
        #[source]
        source: AddressError,
    },
    /// An unsupported TLS version or cipher suite.
    #[error("failed to take --{flag}")]
    Tls {
        flag: &'static str,
        #[source]
        source: TlsPolicyError,
    },
    /// Not an IP address.
    #[error("failed to take --bind-address {value:?}")]
    BindAddress {
        value: String,
        #[source]
        source: AddrParseError,
    },
    /// Not a range of ports.
    #[error("failed to read --workload-ports {0:?} as first-last, within 1..=65535 and in this order")]
    WorkloadPorts(String),
    /// Not ranges of ports.
    #[error("failed to read --moved-ports {0:?} as first-last,…, all within 1..=65535")]
    MovedPorts(String),
    /// Neither an IP address nor a DNS name.
    #[error("--advertise-host {0:?} is neither an IP address nor a DNS name")]
    AdvertiseHost(String),
    /// Zero, but at least one is needed.
    #[error("--{0} has to be at least 1")]
    Zero(&'static str),
    /// Empty, but a value is needed.
    #[error("--{0} must not be empty")]
    Empty(&'static str),
    /// Neither `off` nor `warn`.
    #[error("--ipam-overlap {0:?} is neither off nor warn")]
    Overlap(String),
    /// Not a release of Cluster API.
    #[error("failed to take --runtime-extension-cluster-api")]
    ClusterApi(#[source] ReleaseError),
    /// Not a known feature gate.
    #[error("failed to take --feature-gates")]
    FeatureGates(#[source] FeatureGateError),
    /// With these times, no leader can be elected.
    #[error(
        "leader election needs retry period < renew deadline < lease duration and whole seconds of the latter, got \
         {retry_period:?}, {renew_deadline:?}, {lease_duration:?}"
    )]
    LeaseTimes {
        retry_period: Duration,
        renew_deadline: Duration,
        lease_duration: Duration,
    },
}

impl Config {
    /// Checks the manager's options.
    ///
    /// # Errors
    ///
    /// Names the first flag with an invalid value.
    pub fn new(options: Options) -> Result<Self, ConfigError> {
        let lease = lease(&options)?;
        feature_gates::check(&options.feature_gates).map_err(ConfigError::FeatureGates)?;
        let roles: Roles = options.roles.parse().map_err(ConfigError::Roles)?;
        let runtime_extension = runtime_extension(&options, roles)?;
        let webhooks = webhooks(&options, roles)?;
        let lease = if options.leader_elect {
            Some(electable(lease)?)
        } else {
            None
        };
        let concurrency = |flag, of_kind: Option<u16>, default| {
            at_least_one(
                flag,
                of_kind.or(options.max_concurrent_reconciles).unwrap_or(default),
            )
        };
        Ok(Self {
            roles,
            namespace: some_text(options.namespace),
            watch_filter: some_text(options.watch_filter),
            lease,
            diagnostics: listen_address("diagnostics-address", &options.diagnostics_address)?,
            insecure_diagnostics: options.insecure_diagnostics,
            page: listen_address("page-address", &options.page_address)?,
            tls: TlsPolicy::new(&options.tls_min_version, &options.tls_cipher_suites).map_err(tls)?,
            health: listen_address("health-addr", &options.health_address)?,
            webhooks,
            runtime_extension,
            sync_period: (!options.sync_period.is_zero()).then_some(options.sync_period),
            cluster_concurrency: concurrency(
                "inmemorycluster-concurrency",
                options.cluster_concurrency,
                CLUSTERS_AT_ONCE,
            )?,
            machine_concurrency: concurrency(
                "inmemorymachine-concurrency",
                options.machine_concurrency,
                MACHINES_AT_ONCE,
            )?,
            claim_concurrency: concurrency(
                "ipaddressclaim-concurrency",
                options.claim_concurrency,
                CLAIMS_AT_ONCE,
            )?,
            ipam_reclaim_orphans: options.ipam_reclaim_orphans,
            ipam_overlap: overlap(options.ipam_overlap)?,
            prepare_credentials: options.prepare_credentials,
            advertise_host: host(
                options
                    .advertise_host
                    .unwrap_or_else(|| ADVERTISE_HOST.to_owned()),
            )?,
            bind_address: bind_address(options.bind_address)?,
            workload_ports: ports(&options.workload_ports)
                .ok_or(ConfigError::WorkloadPorts(options.workload_ports))?,
            moved_ports: several_ports(&options.moved_ports)
                .ok_or(ConfigError::MovedPorts(options.moved_ports))?,
            clusters_max: (options.clusters_max > 0).then_some(options.clusters_max),
            machines_max: (options.machines_max > 0).then_some(options.machines_max),
            connection_hold: options.connection_hold,
            seed: not_empty("seed", options.seed)?,
            state_directory: some_text(options.state_dir).map(PathBuf::from),
            journal: some_text(options.journal).map(PathBuf::from),
            identity: options.identity,
            has_stand_in: false,
        })
    }

    /// For a manager whose management cluster has a stand-in that plays Cluster API.
    #[must_use]
    pub fn with_stand_in(self) -> Self {
        Self {
            has_stand_in: true,
            ..self
        }
    }
}

/// The lease of the leader: in the namespace that its name begins with, or in that of the pod.
fn lease(options: &Options) -> Result<LeaseSettings, ConfigError> {
    let id = &options.leader_election_id;
    let (namespace, name) = id.split_once('/').unwrap_or((&options.pod_namespace, id));
    Ok(LeaseSettings {
        namespace: not_empty("leader-election-id", namespace.to_owned())?,
        name: not_empty("leader-election-id", name.to_owned())?,
        identity: options.identity.clone(),
        lease_duration: options.lease_duration,
        renew_deadline: options.renew_deadline,
        retry_period: options.retry_period,
        published: BTreeMap::new(),
    })
}

fn webhooks(options: &Options, roles: Roles) -> Result<Option<WebhookConfig>, ConfigError> {
    let folder = options.webhook_cert_dir.as_str();
    let certificates = if folder.is_empty() {
        let service = some_text(options.webhook_service.clone());
        Certificates::Kept {
            namespace: options.pod_namespace.clone(),
            service,
        }
    } else {
        Certificates::Folder(Folder {
            path: folder.into(),
            certificate: not_empty("webhook-cert-name", options.webhook_cert_name.clone())?,
            key: not_empty("webhook-key-name", options.webhook_key_name.clone())?,
        })
    };
    Ok(match options.webhook_port {
        0 => None,
        _ if !roles.serve_webhooks() => None,
        port => {
            let address = ListenAddress::new(some_text(options.webhook_host.clone()), port);
            Some(WebhookConfig {
                address,
                certificates,
            })
        }
    })
}

fn runtime_extension(options: &Options, roles: Roles) -> Result<Option<RuntimeExtensionConfig>, ConfigError> {
    match (roles.runtime_extension, options.runtime_extension_port) {
        (false, _) => Ok(None),
        (true, 0) => Err(ConfigError::Zero("runtime-extension-port")),
        (true, port) => Ok(Some(RuntimeExtensionConfig {
            address: ListenAddress::new(None, port),
            namespace: options.pod_namespace.clone(),
            cluster_api: options
                .runtime_extension_cluster_api
                .parse()
                .map_err(ConfigError::ClusterApi)?,
            client_authorities: some_text(options.runtime_extension_client_ca_file.clone())
                .map(PathBuf::from),
            recordings: some_text(options.runtime_extension_recordings.clone()).map(PathBuf::from),
        })),
    }
}

/// The conditions of client-go (`tools/leaderelection`, `NewLeaderElector`). A lease duration is in whole seconds.
fn electable(lease: LeaseSettings) -> Result<LeaseSettings, ConfigError> {
    let LeaseSettings {
        lease_duration,
        renew_deadline,
        retry_period,
        ..
    } = lease;
    let ordered = retry_period < renew_deadline && renew_deadline < lease_duration && !retry_period.is_zero();
    if ordered && lease_duration.subsec_nanos() == 0 {
        Ok(lease)
    } else {
        Err(ConfigError::LeaseTimes {
            retry_period,
            renew_deadline,
            lease_duration,
        })
    }
}

fn some_text(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn not_empty(flag: &'static str, text: String) -> Result<String, ConfigError> {
    some_text(text).ok_or(ConfigError::Empty(flag))
}

fn at_least_one(flag: &'static str, number: u16) -> Result<NonZeroU16, ConfigError> {
    NonZeroU16::new(number).ok_or(ConfigError::Zero(flag))
}

/// An empty text and `0` disable a server, as in controller-runtime.
fn listen_address(flag: &'static str, text: &str) -> Result<Option<ListenAddress>, ConfigError> {
    if matches!(text, "" | "0") {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|source| ConfigError::Address { flag, source })
}

fn tls(source: TlsPolicyError) -> ConfigError {
    let flag = match source {
        TlsPolicyError::Version { .. } | TlsPolicyError::OldVersion { .. } => "tls-min-version",
        TlsPolicyError::Suite { .. } => "tls-cipher-suites",
    };
    ConfigError::Tls { flag, source }
}

fn bind_address(text: String) -> Result<IpAddr, ConfigError> {
    text.parse()
        .map_err(|source| ConfigError::BindAddress { value: text, source })
}

fn overlap(text: String) -> Result<OverlapPolicy, ConfigError> {
    match text.as_str() {
        "off" => Ok(OverlapPolicy::Off),
        "warn" => Ok(OverlapPolicy::Warn),
        _ => Err(ConfigError::Overlap(text)),
    }
}

fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-')?;
    let first: u16 = first.trim().parse().ok()?;
    let last: u16 = last.trim().parse().ok()?;
    (first >= 1 && first <= last).then_some(first..=last)
}

/// Ranges with commas between them; an empty text has none.
fn several_ports(text: &str) -> Option<Vec<RangeInclusive<u16>>> {
    let ranges = text.split(',').map(str::trim).filter(|range| !range.is_empty());
    ranges.map(ports).collect()
}

fn host(text: String) -> Result<String, ConfigError> {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_name = || text.len() <= 253 && text.split('.').all(label);
    if text.parse::<IpAddr>().is_ok() || is_name() {
        Ok(text)
    } else {
        Err(ConfigError::AdvertiseHost(text))
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;

    #[test]
    fn the_defaults_are_a_configuration() {
        let config = Config::new(Options::default()).expect("valid");
        assert_eq!(config.lease, None);
        assert_eq!(config.namespace, None);
        assert_eq!(config.workload_ports, 20000..=29999);
        assert_eq!((config.moved_ports, config.clusters_max), (vec![], Some(1000)));
        assert_eq!(config.sync_period, Some(Duration::from_mins(10)));
        assert_eq!(
            config.health.map(|address| address.to_string()).as_deref(),
            Some(":9440")
        );
    }

    #[test]
    fn a_value_that_cannot_be_used_is_refused_by_the_name_of_its_flag() {
        type Change = fn(&mut Options);
        let cases: [(Change, &str); 20] = [
            (
                |o| o.diagnostics_address = "8443".into(),
                "failed to take --diagnostics-address",
            ),
            (
                |o| o.health_address = "x:y".into(),
                "failed to take --health-addr",
            ),
            (
                |o| o.tls_min_version = "VersionTLS11".into(),
                "failed to take --tls-min-version",
            ),
            (
                |o| o.tls_cipher_suites = "RC4".into(),
                "failed to take --tls-cipher-suites",
            ),
            (
                |o| o.bind_address = "localhost".into(),
                r#"failed to take --bind-address "localhost""#,
            ),
            (
                |o| o.workload_ports = "30000-20000".into(),
                r#"failed to read --workload-ports "30000-20000" as first-last, within 1..=65535 and in this order"#,
            ),
            (
                |o| o.moved_ports = "30000-30999,443".into(),
                r#"failed to read --moved-ports "30000-30999,443" as first-last,…, all within 1..=65535"#,
            ),
            (
                |o| o.workload_ports = "0-20000".into(),
                r#"failed to read --workload-ports "0-20000" as first-last, within 1..=65535 and in this order"#,
            ),
            (
                |o| o.workload_ports = "20000".into(),
                r#"failed to read --workload-ports "20000" as first-last, within 1..=65535 and in this order"#,
            ),
            (
                |o| o.advertise_host = Some("http://x".into()),
                r#"--advertise-host "http://x" is neither an IP address nor a DNS name"#,
            ),
            (
                |o| o.advertise_host = Some(String::new()),
                r#"--advertise-host "" is neither an IP address nor a DNS name"#,
            ),
            (
                |o| o.cluster_concurrency = Some(0),
                "--inmemorycluster-concurrency has to be at least 1",
            ),
            (
                |o| o.machine_concurrency = Some(0),
                "--inmemorymachine-concurrency has to be at least 1",
            ),
            (
                |o| o.claim_concurrency = Some(0),
                "--ipaddressclaim-concurrency has to be at least 1",
            ),
            (
                |o| o.ipam_overlap = "deny".into(),
                r#"--ipam-overlap "deny" is neither off nor warn"#,
            ),
            (|o| o.seed = String::new(), "--seed must not be empty"),
            (
                |o| o.feature_gates = "Nonsense=true".into(),
                "failed to take --feature-gates",
            ),
            (
                |o| o.leader_election_id = "ns/".into(),
                "--leader-election-id must not be empty",
            ),
            (
                |o| {
                    o.leader_elect = true;
                    o.renew_deadline = Duration::from_secs(15);
                },
                "leader election needs retry period < renew deadline < lease duration and whole seconds of the \
                 latter, got 2s, 15s, 15s",
            ),
            (
                |o| {
                    o.leader_elect = true;
                    o.lease_duration = Duration::from_millis(10_500);
                },
                "leader election needs retry period < renew deadline < lease duration and whole seconds of the \
                 latter, got 2s, 10s, 10.5s",
            ),
        ];
        for (change, message) in cases {
            let mut options = Options::default();
            change(&mut options);
            let error = Config::new(options).expect_err(message);
            assert_eq!(error.to_string(), message);
        }
    }

    /// Values that differ from the defaults, for flags that take neither a number, a duration nor a boolean.
    const OTHER_VALUES: [(&str, &str); 27] = [
        ("roles", "ipam,runtime-extension"),
        ("namespace", "other"),
        ("watch_filter", "other"),
        ("ipam_overlap", "warn"),
        ("leader_election_id", "other"),
        ("lease_duration", "20s"),
        ("renew_deadline", "9s"),
        ("retry_period", "1s"),
        ("sync_period", "1s"),
        ("connection_hold", "1s"),
        ("health_address", ":1"),
        ("diagnostics_address", ":1"),
        ("page_address", ":1"),
        ("tls_min_version", "VersionTLS13"),
        ("tls_cipher_suites", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        ("webhook_host", "::1"),
        ("webhook_cert_dir", "/other"),
        ("webhook_service", "other"),
        ("runtime_extension_cluster_api", "1.11"),
        ("runtime_extension_client_ca_file", "/other"),
        ("runtime_extension_recordings", "/other"),
        ("advertise_host", "192.0.2.1"),
        ("bind_address", "::1"),
        ("workload_ports", "1-2"),
        ("moved_ports", "3-4"),
        ("state_dir", "/other"),
        ("journal", "/other"),
    ];
    /// Flags whose values are read only together with another flag, which is given beside them.
    const WITH: [(&str, &str); 2] = [
        ("webhook_cert_name", "--webhook-cert-dir=/any"),
        ("webhook_key_name", "--webhook-cert-dir=/any"),
    ];
    /// It is checked, and no gate changes what the manager does.
    const CHECKED_ONLY: &str = "feature_gates";

    #[test]
    fn every_option_changes_the_configuration() {
        let command = || {
            let flags = Command::new("manager").no_binary_name(true);
            Options::augment_args(flags.args_override_self(true))
        };
        let config = |flags: &[String]| {
            let base = ["--roles=infrastructure,ipam,runtime-extension", "--leader-elect"].map(str::to_owned);
            let matches = command().try_get_matches_from(base.iter().chain(flags));
            let options = Options::from_arg_matches(&matches.expect("known flags")).expect("values");
            Config::new(options).expect("valid")
        };
        for flag in command().get_arguments() {
            let id = flag.get_id().as_str();
            if id == CHECKED_ONLY {
                continue;
            }
            let value = match OTHER_VALUES.iter().find(|(of, _)| *of == id) {
                Some((_, value)) => *value,
                None if flag.get_num_args().is_some_and(|range| range.min_values() == 0) => {
                    match flag.get_default_values() {
                        [default] if default == "false" && id != "leader_elect" => "true",
                        _ => "false",
                    }
                }
                None => "7",
            };
            let given = format!("--{}={value}", flag.get_long().expect("each option is a flag"));
            let with = WITH.iter().filter(|(of, _)| *of == id);
            let with: Vec<_> = with.map(|(_, other)| (*other).to_owned()).collect();
            assert_ne!(
                config(&[&with[..], std::slice::from_ref(&given)].concat()),
                config(&with),
                "{given}"
            );
        }
    }

    #[test]
    fn the_lease_is_in_the_namespace_of_the_pod_unless_named_with_its_own() {
        let lease = |id: &str| {
            let options = Options {
                leader_elect: true,
                leader_election_id: id.into(),
                pod_namespace: "here".into(),
                ..Options::default()
            };
            let lease = Config::new(options).expect("valid").lease.expect("elected");
            (lease.namespace, lease.name)
        };
        assert_eq!(lease("name"), ("here".into(), "name".into()));
        assert_eq!(lease("there/name"), ("there".into(), "name".into()));
    }

    #[test]
    fn webhooks_are_served_with_certificates_of_a_folder_or_our_own() {
        let webhooks = |port: u16, folder: &str, service: &str| {
            let options = Options {
                webhook_port: port,
                webhook_cert_dir: folder.into(),
                webhook_service: service.into(),
                pod_namespace: "here".into(),
                ..Options::default()
            };
            Config::new(options).expect("valid").webhooks
        };
        assert_eq!(webhooks(0, "", ""), None);
        let address: ListenAddress = ":9443".parse().expect("an address");
        for (given, service) in [("", None), ("other", Some("other".to_owned()))] {
            let kept = Certificates::Kept {
                namespace: "here".into(),
                service,
            };
            let expected = WebhookConfig {
                address: address.clone(),
                certificates: kept,
            };
            assert_eq!(webhooks(9443, "", given), Some(expected));
        }
        let local = Options {
            webhook_host: "::1".into(),
            webhook_port: 9443,
            ..Options::default()
        };
        let local = Config::new(local)
            .expect("valid")
            .webhooks
            .expect("served")
            .address;
        assert_eq!(local.to_string(), "[::1]:9443");
        let certificates = Certificates::Folder(Folder::new("/certs"));
        let expected = WebhookConfig {
            address,
            certificates,
        };
        assert_eq!(webhooks(9443, "/certs", "other"), Some(expected));
    }

    #[test]
    fn only_managers_with_the_role_serve_the_runtime_extension() {
        let config = |roles: &str, port| {
            let options = Options {
                roles: roles.into(),
                runtime_extension_port: port,
                webhook_port: 9443,
                pod_namespace: "here".into(),
                ..Options::default()
            };
            Config::new(options)
        };
        let address: ListenAddress = ":9444".parse().expect("an address");
        let served = Some(RuntimeExtensionConfig {
            address,
            namespace: "here".into(),
            cluster_api: Release::LATEST,
            client_authorities: None,
            recordings: None,
        });
        let alone = config("runtime-extension", 9444).expect("valid");
        // The runtime extension has no kinds, so it needs no webhooks.
        assert_eq!((alone.runtime_extension, alone.webhooks), (served.clone(), None));
        let all = config("infrastructure,ipam,runtime-extension", 9444).expect("valid");
        assert_eq!((all.runtime_extension, all.webhooks.is_some()), (served, true));
        assert_eq!(
            config("infrastructure,ipam", 0).expect("valid").runtime_extension,
            None
        );
        let error = config("runtime-extension", 0).expect_err("no port");
        assert_eq!(error.to_string(), "--runtime-extension-port has to be at least 1");
        let told = |cluster_api: &str| {
            let options = Options {
                roles: "runtime-extension".into(),
                runtime_extension_cluster_api: cluster_api.into(),
                runtime_extension_client_ca_file: "/clients/ca.crt".into(),
                runtime_extension_recordings: "/calls".into(),
                pod_namespace: "here".into(),
                ..Options::default()
            };
            Config::new(options).map(|config| config.runtime_extension.expect("it has the role"))
        };
        let old = told("v1.11.3").expect("valid");
        assert_eq!(
            (old.cluster_api, old.recordings),
            (Release::new(11), Some("/calls".into()))
        );
        assert_eq!(old.client_authorities, Some("/clients/ca.crt".into()));
        let error = told("1.9").expect_err("too old");
        assert_eq!(
            error.to_string(),
            "failed to take --runtime-extension-cluster-api"
        );
    }

    #[test]
    fn a_kinds_own_concurrency_counts_before_that_of_all_kinds() {
        let at_once = |options: Options| {
            let config = Config::new(options).expect("valid");
            [
                config.cluster_concurrency,
                config.machine_concurrency,
                config.claim_concurrency,
            ]
            .map(NonZeroU16::get)
        };
        assert_eq!(at_once(Options::default()), [50, 100, 128]);
        let all = Options {
            max_concurrent_reconciles: Some(7),
            ..Options::default()
        };
        assert_eq!(at_once(all.clone()), [7, 7, 7]);
        assert_eq!(
            at_once(Options {
                machine_concurrency: Some(9),
                ..all
            }),
            [7, 9, 7]
        );
    }

    #[test]
    fn the_concurrency_that_the_help_names_is_the_default() {
        let help = Options::augment_args(clap::Command::new("manager"))
            .render_long_help()
            .to_string();
        for (kind, default) in [
            ("InMemoryClusters", CLUSTERS_AT_ONCE),
            ("InMemoryMachines", MACHINES_AT_ONCE),
            ("IPAddressClaims", CLAIMS_AT_ONCE),
        ] {
            let after = help
                .split(&format!("How many {kind} are"))
                .nth(1)
                .expect("the help names it");
            let said = after
                .split_once("[default: ")
                .and_then(|(_, rest)| rest.split_once(']'));
            assert_eq!(
                said.map(|(number, _)| number),
                Some(default.to_string().as_str()),
                "{kind}"
            );
        }
    }

    #[test]
    fn zero_and_nothing_switch_a_server_off() {
        for off in ["", "0"] {
            let options = Options {
                diagnostics_address: off.into(),
                health_address: off.into(),
                sync_period: Duration::ZERO,
                ..Options::default()
            };
            let config = Config::new(options).expect("valid");
            assert_eq!(
                (config.diagnostics, config.health, config.sync_period),
                (None, None, None)
            );
        }
    }
}
