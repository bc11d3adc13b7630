//! The contents of the certificates of a cluster's servers, as kubeadm makes them (`cmd/kubeadm/app/phases/certs` and
//! `cmd/kubeadm/app/util/pkiutil` in kubernetes).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use jiff::Timestamp;
use nephele_pki::LeafRequest;

use crate::spec::{ClusterSpec, MachineSpec};

const DAY: i64 = 86_400;

/// The certificate of the load balancer. It stands for whichever API server is up and outlives them all, so it is valid
/// for as long as Cluster API's authorities are by default: ten years from the cluster's creation.
pub(crate) fn frontend(spec: &ClusterSpec) -> LeafRequest {
    LeafRequest {
        identity: format!("{}/kube-apiserver", spec.id),
        ..api_server_of(spec, validity(spec.created_at, 10 * 365 * DAY))
    }
}

/// The certificate of an API server of another cluster, for the address of this one.
pub(crate) fn foreign_server(spec: &ClusterSpec, now: Timestamp) -> LeafRequest {
    LeafRequest {
        identity: format!("{}/stranger", spec.id),
        ..api_server_of(spec, validity(now, 365 * DAY))
    }
}

/// The certificate of a machine's API server. It is valid for a year; KCP reads this to know when to replace the
/// machine. With a fault, it is valid until `expires`.
pub(crate) fn api_server(
    spec: &ClusterSpec,
    machine: &MachineSpec,
    started_at: Timestamp,
    expires: Option<Timestamp>,
) -> LeafRequest {
    let (not_before, not_after) = validity(started_at, 365 * DAY);
    let validity = match expires {
        Some(expires) => (not_before.min(validity(expires, 0).0), expires),
        None => (not_before, not_after),
    };
    let mut request = api_server_of(spec, validity);
    request.dns_names.push(machine.node_name().into_owned());
    request.ip_addresses.extend(addresses(machine));
    unique(&mut request);
    LeafRequest {
        identity: format!("{}/kube-apiserver/{}", spec.id, machine.id.name),
        ..request
    }
}

/// The certificate that a machine's etcd member presents to clients and peers.
pub(crate) fn etcd_member(spec: &ClusterSpec, machine: &MachineSpec, started_at: Timestamp) -> LeafRequest {
    let name = &machine.id.name;
    let node = machine.node_name();
    let (not_before, not_after) = validity(started_at, 365 * DAY);
    let mut request = LeafRequest {
        common_name: node.to_string(),
        organizations: Vec::new(),
        dns_names: vec!["localhost".to_owned(), node.to_string(), format!("etcd-{node}")],
        ip_addresses: LOOPBACK.into_iter().chain(addresses(machine)).collect(),
        server_auth: true,
        client_auth: true,
        not_before,
        not_after,
        identity: format!("{}/etcd/{name}", spec.id),
    };
    unique(&mut request);
    request
}

const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

fn api_server_of(spec: &ClusterSpec, (not_before, not_after): (Timestamp, Timestamp)) -> LeafRequest {
    let mut dns_names: Vec<String> = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
    ]
    .map(str::to_owned)
    .to_vec();
    dns_names.push(format!("kubernetes.default.svc.{}", spec.domain()));
    let mut ip_addresses = LOOPBACK.to_vec();
    ip_addresses.push(spec.service_address(1));
    if let Some(endpoint) = &spec.endpoint {
        match endpoint.host.parse() {
            Ok(address) => ip_addresses.push(address),
            Err(_) => dns_names.push(endpoint.host.clone()),
        }
    }
    let mut request = LeafRequest {
        common_name: "kube-apiserver".to_owned(),
        organizations: Vec::new(),
        dns_names,
        ip_addresses,
        server_auth: true,
        client_auth: false,
        not_before,
        not_after,
        identity: String::new(),
    };
    unique(&mut request);
    request
}

fn addresses(machine: &MachineSpec) -> impl Iterator<Item = IpAddr> {
    machine
        .allocation
        .addresses
        .iter()
        .filter_map(|address| address.address.parse().ok())
}

/// Removes duplicates and keeps the first of each.
fn unique(request: &mut LeafRequest) {
    let mut seen = Vec::new();
    request.ip_addresses.retain(|address| {
        !seen.contains(address) && {
            seen.push(*address);
            true
        }
    });
    let mut seen = Vec::new();
    request.dns_names.retain(|name| {
        !seen.contains(name) && {
            seen.push(name.clone());
            true
        }
    });
}

/// Valid from five minutes before `from`, as Cluster API's authorities, so that clocks may differ. Whole seconds.
fn validity(from: Timestamp, seconds: i64) -> (Timestamp, Timestamp) {
    let at = |offset: i64| Timestamp::from_second(from.as_second().saturating_add(offset)).unwrap_or(from);
    (at(-300), at(seconds))
}
