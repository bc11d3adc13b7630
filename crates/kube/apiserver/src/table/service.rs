//! Services and related kinds.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    column::{Column, Row},
    format::{count, items, joined, labels, selector, text, text_or, three_of},
};

pub(super) const SERVICE: &[Column] = &[
    Column::NAME,
    Column::text("Type", |row| text_or(row.spec("type"), "ClusterIP")),
    Column::text("Cluster-IP", |row| {
        let first = items(row.spec("clusterIPs")).first();
        text_or(first.unwrap_or(row.spec("clusterIP")), "<none>")
    }),
    Column::text("External-IP", external_ip),
    Column::text("Port(s)", ports),
    Column::AGE,
    Column::text("Selector", |row| labels(row.spec("selector"))).wide(),
];

pub(super) const ENDPOINTS: &[Column] = &[Column::NAME, Column::text("Endpoints", endpoints), Column::AGE];

pub(super) const ENDPOINT_SLICE: &[Column] = &[
    Column::NAME,
    Column::text("AddressType", |row| text_or(&row.object["addressType"], "")),
    Column::text("Ports", |row| {
        let port = |port: &Value| match (&port["port"], text(&port["name"])) {
            (Value::Number(number), _) => number.to_string(),
            (_, "") => "*".to_owned(),
            (_, name) => name.to_owned(),
        };
        three_of(&items(&row.object["ports"]).iter().map(port).collect::<Vec<_>>())
    }),
    Column::text("Endpoints", |row| {
        let addresses = items(&row.object["endpoints"])
            .iter()
            .flat_map(|e| items(&e["addresses"]));
        three_of(
            &addresses
                .map(|address| text(address).to_owned())
                .collect::<Vec<_>>(),
        )
    }),
    Column::AGE,
];

pub(super) const INGRESS: &[Column] = &[
    Column::NAME,
    Column::text("Class", |row| text_or(row.spec("ingressClassName"), "<none>")),
    Column::text("Hosts", |row| {
        let rules = items(row.spec("rules"));
        let hosts: Vec<_> = rules.iter().take(3).map(|rule| text(&rule["host"])).collect();
        let hosts = joined(hosts.into_iter().filter(|host| !host.is_empty()), "*");
        if rules.len() > 3 && hosts != "*" {
            return format!("{} + {} more...", text(&hosts), rules.len() - 3).into();
        }
        hosts
    }),
    Column::text("Address", |row| load_balancer(row).into()),
    Column::text("Ports", |row| {
        if items(row.spec("tls")).is_empty() {
            "80"
        } else {
            "80, 443"
        }
        .into()
    }),
    Column::AGE,
];

pub(super) const NETWORK_POLICY: &[Column] = &[
    Column::NAME,
    Column::text("Pod-Selector", |row| selector(row.spec("podSelector"), "<none>")),
    Column::AGE,
];

pub(super) const INGRESS_CLASS: &[Column] = &[
    // As [`Column::NAME`], with a mark on the default class.
    Column {
        format: "name",
        ..Column::text("Name", |row| {
            let default = &row.metadata("annotations")["ingressclass.kubernetes.io/is-default-class"];
            let name = text(row.metadata("name"));
            if *default == "true" {
                format!("{name} (default)").into()
            } else {
                name.into()
            }
        })
    },
    Column::text("Controller", |row| text_or(row.spec("controller"), "")),
    Column::text("Parameters", |row| match row.spec("parameters") {
        Value::Null => "<none>".into(),
        parameters => {
            let group = match text(&parameters["apiGroup"]) {
                "" => String::new(),
                group => format!(".{group}"),
            };
            format!(
                "{}{group}/{}",
                text(&parameters["kind"]),
                text(&parameters["name"])
            )
            .into()
        }
    }),
    Column::AGE,
];

pub(super) const IP_ADDRESS: &[Column] = &[
    Column::NAME,
    Column::text("ParentRef", |row| match row.spec("parentRef") {
        Value::Null => "<none>".into(),
        parent => {
            let group = text(&parent["group"]);
            let dot = if group.is_empty() { "" } else { "." };
            let collection = format!("{}{dot}{group}", text(&parent["resource"])).to_lowercase();
            let place = [text(&parent["namespace"]), text(&parent["name"])];
            let place: Vec<_> = place.into_iter().filter(|part| !part.is_empty()).collect();
            format!("{collection}/{}", place.join("/")).into()
        }
    }),
];

pub(super) const SERVICE_CIDR: &[Column] = &[
    Column::NAME,
    Column::text("CIDRs", |row| {
        joined(items(row.spec("cidrs")).iter().map(text), "")
    }),
    Column::AGE,
];

fn load_balancer(row: Row<'_>) -> String {
    let names: BTreeSet<_> = items(&row.status("loadBalancer")["ingress"])
        .iter()
        .filter_map(|ingress| {
            [&ingress["ip"], &ingress["hostname"]]
                .into_iter()
                .map(text)
                .find(|n| !n.is_empty())
        })
        .collect();
    names.into_iter().collect::<Vec<_>>().join(",")
}

fn external_ip(row: Row<'_>) -> Value {
    let external = items(row.spec("externalIPs")).iter().map(text);
    match text(row.spec("type")) {
        "ExternalName" => text_or(row.spec("externalName"), ""),
        "LoadBalancer" => {
            let balancer = load_balancer(row);
            let all = [balancer.as_str()]
                .into_iter()
                .filter(|names| !names.is_empty())
                .chain(external);
            joined(all, "<pending>")
        }
        _ => joined(external, "<none>"),
    }
}

fn ports(row: Row<'_>) -> Value {
    let port = |port: &Value| {
        let number = count(&port["port"]);
        let node_port = count(&port["nodePort"]);
        let protocol = text_or(&port["protocol"], "TCP");
        let protocol = text(&protocol);
        if node_port > 0 {
            format!("{number}:{node_port}/{protocol}")
        } else {
            format!("{number}/{protocol}")
        }
    };
    let ports: Vec<_> = items(row.spec("ports")).iter().map(port).collect();
    joined(ports.iter().map(String::as_str), "<none>")
}

fn endpoints(row: Row<'_>) -> Value {
    let mut list = Vec::new();
    for subset in items(&row.object["subsets"]) {
        let addresses = || {
            items(&subset["addresses"])
                .iter()
                .map(|address| text(&address["ip"]))
        };
        // A headless service may have no ports.
        if items(&subset["ports"]).is_empty() {
            list.extend(addresses().map(str::to_owned));
        }
        for port in items(&subset["ports"]) {
            let port = count(&port["port"]);
            list.extend(addresses().map(|ip| {
                if ip.contains(':') {
                    format!("[{ip}]:{port}")
                } else {
                    format!("{ip}:{port}")
                }
            }));
        }
    }
    if list.is_empty() {
        "<none>".into()
    } else {
        three_of(&list)
    }
}
