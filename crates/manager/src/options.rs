use std::time::Duration;

use nephele_runtime_sdk::catalog::Release;

/// The manager's options, as unchecked texts and numbers. The defaults are those of the flags, except for webhooks:
/// a program that starts a manager in its own process has no Service for them.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The roles of the manager, as `infrastructure,ipam`.
    pub roles: String,
    /// Watch only this namespace; empty for all.
    pub namespace: String,
    /// Reconcile only objects whose label `cluster.x-k8s.io/watch-filter` has this value; empty for all.
    pub watch_filter: String,
    /// Whether to work only while holding a lease.
    pub leader_elect: bool,
    /// The lease, as `namespace/name` or `name`.
    pub leader_election_id: String,
    /// How long candidates see the lease unchanged before they take it.
    pub lease_duration: Duration,
    /// How long the holder tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// Time between attempts to take or renew the lease.
    pub retry_period: Duration,
    /// The address of `/metrics`; empty or `0` for none.
    pub diagnostics_address: String,
    /// Serve diagnostics without TLS, to anybody.
    pub insecure_diagnostics: bool,
    /// The minimum TLS version, by Go's name: `VersionTLS12` or `VersionTLS13`.
    pub tls_min_version: String,
    /// The allowed cipher suites, by Go's names and separated by commas; empty for all.
    pub tls_cipher_suites: String,
    /// The address of `/healthz` and `/readyz`; empty or `0` for none.
    pub health_address: String,
    /// The address or name of this machine on which webhooks are served; empty for all of its addresses.
    pub webhook_host: String,
    /// The port on which webhooks are served; 0 for none. API servers call them only with a Service, and with
    /// definitions and configurations that name it, as in `config/webhook-infrastructure` and `config/webhook`.
    pub webhook_port: u16,
    /// The folder with the certificate of the webhooks; empty for a certificate that the manager makes and renews.
    pub webhook_cert_dir: String,
    /// The file with the certificate in that folder.
    pub webhook_cert_name: String,
    /// The file with the key in that folder.
    pub webhook_key_name: String,
    /// The Service in the manager's namespace through which API servers call the webhooks; empty for the Service of
    /// each role.
    pub webhook_service: String,
    /// The port on which the runtime extension is served, with that role.
    pub runtime_extension_port: u16,
    /// The oldest release of Cluster API that has to accept the runtime extension, such as `1.11`: hooks that it
    /// does not know are not offered.
    pub runtime_extension_cluster_api: String,
    /// The PEM file with the authorities of clients of the runtime extension; empty to answer any client.
    pub runtime_extension_client_ca_file: String,
    /// The folder in which calls of the runtime extension are recorded; empty for none.
    pub runtime_extension_recordings: String,
    /// Feature gates, as `Name=true,Other=false`.
    pub feature_gates: String,
    /// How often every object is reconciled without a change; zero for never.
    pub sync_period: Duration,
    /// How many `InMemoryCluster`s are reconciled at a time.
    pub cluster_concurrency: u16,
    /// How many `InMemoryMachine`s are reconciled at a time.
    pub machine_concurrency: u16,
    /// How many `IPAddressClaim`s are reconciled at a time.
    pub claim_concurrency: u16,
    /// Whether IPAddresses whose claim is gone are deleted rather than reported.
    pub ipam_reclaim_orphans: bool,
    /// What to do about pools with addresses in common: `off` or `warn`.
    pub ipam_overlap: String,
    /// Whether to create a new cluster's CA, etcd, proxy and kubeconfig Secrets before its KubeadmControlPlane
    /// does.
    pub prepare_credentials: bool,
    /// The IP address or DNS name under which clients reach the workload API servers.
    pub advertise_host: String,
    /// The address the workload API servers listen on.
    pub bind_address: String,
    /// The ports they listen on, as `first-last`.
    pub workload_ports: String,
    /// The most machines in a namespace; 0 for any number.
    pub machines_max: u32,
    /// How long a new connection to a workload cluster waits for a first control plane before it is closed.
    pub connection_hold: Duration,
    /// The seed of every random draw.
    pub seed: String,
    /// The folder that keeps the objects of workload clusters over a restart; empty for none.
    pub state_dir: String,
    /// The journal file of the simulated cloud; empty for none.
    pub journal: String,
    /// The namespace the manager runs in.
    pub pod_namespace: String,
    /// The identity of this process among the replicas.
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
            // A claim mostly waits for a write of its pool, which up to 64 of them share.
            claim_concurrency: 128,
            ipam_reclaim_orphans: false,
            ipam_overlap: "off".to_owned(),
            prepare_credentials: true,
            advertise_host: "127.0.0.1".to_owned(),
            bind_address: "0.0.0.0".to_owned(),
            workload_ports: "20000-29999".to_owned(),
            // A thousand clusters with a hundred machines each, more than one manager is made for.
            machines_max: 100_000,
            // A Cluster API client gives up a request after 10 s; the answer has to come before that.
            connection_hold: Duration::from_secs(9),
            seed: "nephele".to_owned(),
            state_dir: String::new(),
            journal: String::new(),
            pod_namespace: "nephele-system".to_owned(),
            identity: "nephele-manager".to_owned(),
        }
    }
}
