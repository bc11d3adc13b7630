use std::time::Duration;

use nephele_runtime_sdk::catalog::Release;

/// What the manager can be told, as texts and numbers that nobody has checked yet. The defaults are those of the
/// flags, but for webhooks: whoever starts a manager in his own process has no Service before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Which providers to be, as `infrastructure,ipam`.
    pub roles: String,
    /// Watch only this namespace; empty for all.
    pub namespace: String,
    /// Look only after objects whose label `cluster.x-k8s.io/watch-filter` has this value; empty for all.
    pub watch_filter: String,
    /// Whether to work only while holding a lease.
    pub leader_elect: bool,
    /// The lease, as `namespace/name` or `name`.
    pub leader_election_id: String,
    /// How long others see the lease unchanged before they take it.
    pub lease_duration: Duration,
    /// How long the holder tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// Time between attempts to take or renew the lease.
    pub retry_period: Duration,
    /// Where `/metrics` is served; empty or `0` for nowhere.
    pub diagnostics_address: String,
    /// Serve diagnostics without TLS and without asking who wants them.
    pub insecure_diagnostics: bool,
    /// The least version of TLS that is spoken, by Go's name: `VersionTLS12` or `VersionTLS13`.
    pub tls_min_version: String,
    /// The cipher suites that may be chosen, by Go's names and with commas between them; empty for all.
    pub tls_cipher_suites: String,
    /// Where `/healthz` and `/readyz` are served; empty or `0` for nowhere.
    pub health_address: String,
    /// The address or name of this machine on which webhooks are served; empty for all of its addresses.
    pub webhook_host: String,
    /// The port on which webhooks are served; 0 for none. Without a Service before them, and definitions and
    /// configurations that name it, as in `config/webhook-infrastructure` and `config/webhook`, nobody calls them.
    pub webhook_port: u16,
    /// The folder with the certificate of the webhooks; empty for one that the manager keeps itself.
    pub webhook_cert_dir: String,
    /// The file with the certificate in that folder.
    pub webhook_cert_name: String,
    /// The file with the key in that folder.
    pub webhook_key_name: String,
    /// The Service of the manager's namespace that API servers call the webhooks by; empty for those of the roles.
    pub webhook_service: String,
    /// The port on which the runtime extension is served, by a manager with that role.
    pub runtime_extension_port: u16,
    /// The oldest release of Cluster API that is to discover the runtime extension, such as `1.11`: hooks that it does
    /// not know are not offered.
    pub runtime_extension_cluster_api: String,
    /// The file with the authorities of clients of the runtime extension, PEM; empty when any client is answered.
    pub runtime_extension_client_ca_file: String,
    /// The folder in which calls of the runtime extension are recorded; empty for none.
    pub runtime_extension_recordings: String,
    /// Features to switch, as `Name=true,Other=false`.
    pub feature_gates: String,
    /// How often every object is looked at without having changed; zero for never.
    pub sync_period: Duration,
    /// How many `InMemoryCluster`s are reconciled at a time.
    pub cluster_concurrency: u16,
    /// How many `InMemoryMachine`s are reconciled at a time.
    pub machine_concurrency: u16,
    /// How many `IPAddressClaim`s are reconciled at a time.
    pub claim_concurrency: u16,
    /// Whether IPAddresses whose claim is gone are deleted rather than told of.
    pub ipam_reclaim_orphans: bool,
    /// What is done about pools with addresses in common: `off` or `warn`.
    pub ipam_overlap: String,
    /// Whether to make a new cluster's CA, etcd, proxy and kubeconfig Secrets before its KubeadmControlPlane does.
    pub prepare_credentials: bool,
    /// The IP address or DNS name under which clients reach the workload API servers.
    pub advertise_host: String,
    /// The address the workload API servers listen on.
    pub bind_address: String,
    /// The ports they listen on, as `first-last`.
    pub workload_ports: String,
    /// How many machines there may be in a namespace at a time; 0 for any number.
    pub machines_max: u32,
    /// How long a new connection to a workload cluster waits for a first control plane before it is closed.
    pub connection_hold: Duration,
    /// What every random draw starts from.
    pub seed: String,
    /// Where the objects of workload clusters are kept over a restart; empty for nowhere.
    pub state_dir: String,
    /// The file in which the journal of the simulated cloud is kept; empty for none.
    pub journal: String,
    /// The namespace the manager runs in.
    pub pod_namespace: String,
    /// Who this process is among the replicas.
    pub identity: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            roles: "infrastructure,ipam".to_owned(),
            namespace: String::new(),
            watch_filter: String::new(),
            leader_elect: false,
            leader_election_id: "controller-leader-election-nephele".to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            diagnostics_address: ":8443".to_owned(),
            insecure_diagnostics: false,
            tls_min_version: "VersionTLS12".to_owned(),
            tls_cipher_suites: String::new(),
            health_address: ":9440".to_owned(),
            webhook_host: String::new(),
            webhook_port: 0,
            webhook_cert_dir: String::new(),
            webhook_cert_name: "tls.crt".to_owned(),
            webhook_key_name: "tls.key".to_owned(),
            webhook_service: String::new(),
            runtime_extension_port: 9444,
            runtime_extension_cluster_api: Release::LATEST.to_string(),
            runtime_extension_client_ca_file: String::new(),
            runtime_extension_recordings: String::new(),
            feature_gates: String::new(),
            sync_period: Duration::from_mins(10),
            cluster_concurrency: 50,
            machine_concurrency: 100,
            // Most of the time a claim waits for a write of its pool, which up to 64 of them share.
            claim_concurrency: 128,
            ipam_reclaim_orphans: false,
            ipam_overlap: "off".to_owned(),
            prepare_credentials: true,
            advertise_host: "127.0.0.1".to_owned(),
            bind_address: "0.0.0.0".to_owned(),
            workload_ports: "20000-29999".to_owned(),
            // A thousand clusters with a hundred machines each, which is more than one manager is made for.
            machines_max: 100_000,
            // A client of Cluster API gives up a request after 10 s; the answer has to come before that.
            connection_hold: Duration::from_secs(9),
            seed: "nephele".to_owned(),
            state_dir: String::new(),
            journal: String::new(),
            pod_namespace: "nephele-system".to_owned(),
            identity: "nephele-manager".to_owned(),
        }
    }
}
