//! The managers of providers as processes. On a cluster without a node, they run as a kubelet would run their
//! Deployments.
//!
//! ```text
//!  Deployment ─▶ arguments, account, certificates ─▶ process ◀─ EndpointSlice ◀─ Service ◀─ API server (webhooks)
//! ```

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Command,
    time::Duration,
};

use anyhow::Context;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{
    kubectl::Kubectl, layout::Layout, pki, process::Processes, repository::Repository, site::Number,
    tools::Tools,
};
use crate::{
    files::write,
    release,
    wait::{self, LOOK_EVERY, Look},
};

const PROVIDER: &str = "cluster.x-k8s.io/provider";

/// The container ports that Services of managers refer to, by name.
const TARGETS: [&str; 2] = ["webhook-server", "runtime-hooks"];

const CERTIFICATE_LIMIT: Duration = Duration::from_secs(30);
const READY_LIMIT: Duration = Duration::from_secs(90);
/// Long enough for tests, which take minutes.
const TOKEN_DURATION: &str = "--duration=12h";

/// Our providers, by label.
const OURS: [&str; 3] = [
    release::LABEL,
    release::IPAM_LABEL,
    release::RUNTIME_EXTENSION_LABEL,
];

/// A manager to run.
struct Manager {
    /// clusterctl's name of the provider.
    label: String,
    namespace: String,
    deployment: String,
    /// The uid of the Deployment. A new Deployment gets a new process.
    uid: String,
    account: String,
    arguments: Vec<String>,
    /// The Secret with its certificate; `None` if the manager makes its own.
    certificate: Option<String>,
    /// The first of its three ports.
    port: u16,
    /// The ports of workload clusters' API servers, if it has any.
    workload_ports: String,
}

impl Manager {
    fn read(deployment: &Value, number: Number) -> anyhow::Result<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let metadata = &deployment["metadata"];
        let pod = &deployment["spec"]["template"]["spec"];
        let read = || {
            let volumes = pod["volumes"].as_array().into_iter().flatten();
            let arguments = pod["containers"][0]["args"].as_array()?.iter();
            let label = text(&metadata["labels"][PROVIDER])?;
            // A reinstalled provider gets the same ports.
            Some(Self {
                port: port(&label, number)?,
                workload_ports: number.workload_ports(),
                label,
                namespace: text(&metadata["namespace"])?,
                deployment: text(&metadata["name"])?,
                uid: text(&metadata["uid"])?,
                account: text(&pod["serviceAccountName"])?,
                arguments: arguments.filter_map(text).collect(),
                certificate: volumes
                    .filter(|volume| volume["name"] == "cert")
                    .find_map(|volume| text(&volume["secret"]["secretName"])),
            })
        };
        read().with_context(|| format!("failed to read Deployment {}", metadata["name"]))
    }

    /// The port that Services lead to.
    fn serving_port(&self) -> u16 {
        self.port
    }

    fn health_port(&self) -> u16 {
        self.port + 1
    }

    fn is_ours(&self) -> bool {
        OURS.contains(&self.label.as_str())
    }

    /// The arguments of its container, with its own ports and without settings that only work in pods.
    fn command_line(&self, address: &str, certificates: &Path) -> Vec<String> {
        let is_extension = self.label == release::RUNTIME_EXTENSION_LABEL;
        let serving = if is_extension {
            "--runtime-extension-port"
        } else {
            "--webhook-port"
        };
        let mut own = vec![
            format!("{serving}={}", self.serving_port()),
            format!("--health-addr={address}:{}", self.health_port()),
            format!("--diagnostics-address={address}:{}", self.port + 2),
        ];
        if self.certificate.is_some() {
            own.push(format!("--webhook-cert-dir={}", certificates.display()));
        }
        if self.label == release::LABEL {
            // Endpoints are the same on both sides of a move, as with a load balancer in front of both.
            own.extend(["--advertise-host=127.0.0.1", "--bind-address=127.0.0.1"].map(str::to_owned));
            own.push(format!("--workload-ports={}", self.workload_ports));
            // Clusters come from managers with all other ranges.
            own.push("--moved-ports=1024-65535".to_owned());
        }
        if !self.is_ours() {
            // The lease's namespace is read from a file that only pods have.
            own.push("--leader-elect=false".to_owned());
        }
        let flag = |argument: &str| argument.split('=').next().unwrap_or_default().to_owned();
        let replaced: Vec<_> = own.iter().map(|argument| flag(argument)).collect();
        let kept = self
            .arguments
            .iter()
            .filter(|argument| !replaced.contains(&flag(argument)));
        kept.cloned().chain(own.iter().cloned()).collect()
    }
}

/// The first port of a provider's manager, if the provider is known.
fn port(label: &str, number: Number) -> Option<u16> {
    let mut known = Repository::programs().chain(OURS).zip(0..);
    let (_, index) = known.find(|(known, _)| *known == label)?;
    Some(number.port(3 * index))
}

/// The port of our runtime extension.
pub(super) fn runtime_extension_port(number: Number) -> u16 {
    port(release::RUNTIME_EXTENSION_LABEL, number).expect("it is one of ours")
}

/// Starts the manager of each installed provider that has no manager yet, or one of an earlier Deployment, and waits
/// until all are ready. Our managers run this program.
pub(super) fn up(
    layout: &Layout,
    tools: &Tools,
    processes: &Processes,
    kubectl: &Kubectl,
    number: Number,
    program: &Path,
) -> anyhow::Result<()> {
    let address = number.site().address;
    let deployments = kubectl.items(&["deployments.apps", "-A", "-l", PROVIDER])?;
    let managers: Vec<_> = deployments
        .iter()
        .map(|deployment| Manager::read(deployment, number))
        .collect::<anyhow::Result<_>>()?;
    for manager in &managers {
        expose(kubectl, manager, &address)?;
        let folder = layout.at("managers").join(&manager.label);
        let followed = folder.join("deployment");
        let same = fs::read_to_string(&followed).is_ok_and(|uid| uid == manager.uid);
        if same && processes.is_running(&manager.label) {
            continue;
        }
        processes.stop(&manager.label)?;
        if let Some(secret) = &manager.certificate {
            certificate(kubectl, &manager.namespace, secret, &folder)?;
        }
        let account = [
            "create",
            "token",
            &manager.account,
            "-n",
            &manager.namespace,
            TOKEN_DURATION,
        ];
        let kubeconfig = folder.join("kubeconfig");
        pki::service_account(layout, &number.site(), &kubeconfig, kubectl.run(&account)?.trim())?;
        let is_tool = Repository::programs().any(|tool| tool == manager.label);
        let mut command = Command::new(if is_tool {
            tools.program(&manager.label)
        } else {
            program
        });
        if manager.is_ours() {
            command.arg("manager");
        }
        command
            .args(manager.command_line(&address, &folder))
            .env("KUBECONFIG", kubeconfig)
            .env("POD_NAMESPACE", &manager.namespace)
            .env("POD_NAME", &manager.deployment);
        processes.start(&manager.label, &mut command)?;
        write(&followed, &manager.uid)?;
    }
    for manager in &managers {
        wait::until(
            &format!("{} to be ready", manager.label),
            READY_LIMIT,
            LOOK_EVERY,
            || {
                processes.check(&manager.label)?;
                Ok(match answer(&address, manager.health_port(), "/readyz") {
                    Ok(answer)
                        if answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200") =>
                    {
                        Look::Done(())
                    }
                    Ok(answer) => Look::NotYet(answer),
                    Err(error) => Look::NotYet(error.to_string()),
                })
            },
        )
        .with_context(|| processes.log_tail(&manager.label))?;
    }
    Ok(())
}

/// Directs the Services of a manager to its process, with the endpoints that pods would have.
fn expose(kubectl: &Kubectl, manager: &Manager, address: &str) -> anyhow::Result<()> {
    let selector = format!("{PROVIDER}={}", manager.label);
    for service in kubectl.items(&["services", "-n", &manager.namespace, "-l", &selector])? {
        let name = &service["metadata"]["name"];
        let ports = service["spec"]["ports"].as_array().into_iter().flatten();
        let ports: Vec<_> = ports
            .filter(|port| {
                port["targetPort"]
                    .as_str()
                    .is_some_and(|target| TARGETS.contains(&target))
            })
            .map(|port| {
                let name = port["name"].as_str().unwrap_or_default();
                json!({"name": name, "port": manager.serving_port(), "protocol": "TCP"})
            })
            .collect();
        if ports.is_empty() {
            continue;
        }
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": format!("{}-process", name.as_str().unwrap_or_default()),
                "namespace": manager.namespace,
                // Without the controller's label, the controller ignores the slice.
                "labels": {
                    "kubernetes.io/service-name": name, "endpointslice.kubernetes.io/managed-by": "nephele-e2e",
                },
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
            "ports": ports,
        });
        kubectl.apply(&slice.to_string())?;
    }
    Ok(())
}

/// Writes the certificate in a Secret to a folder, as a mount would, once it is issued.
fn certificate(kubectl: &Kubectl, namespace: &str, secret: &str, folder: &Path) -> anyhow::Result<()> {
    let what = format!("Secret {namespace}/{secret}");
    let data = wait::until(&what, CERTIFICATE_LIMIT, LOOK_EVERY, || {
        Ok(match kubectl.items(&["secrets", "-n", namespace, secret]) {
            Ok(mut found) => Look::Done(found.remove(0)["data"].take()),
            Err(error) => Look::NotYet(error.to_string()),
        })
    })?;
    for (key, place) in [("tls.crt", "tls.crt"), ("tls.key", "tls.key")] {
        let text = data[key]
            .as_str()
            .with_context(|| format!("{what} has no {key}"))?;
        let bytes = BASE64_STANDARD
            .decode(text)
            .with_context(|| format!("failed to decode {what}"))?;
        write(&folder.join(place), bytes)?;
    }
    Ok(())
}

/// The beginning of the answer to a request.
fn answer(address: &str, port: u16, path: &str) -> anyhow::Result<String> {
    const LIMIT: Duration = Duration::from_secs(2);
    let server: SocketAddr = format!("{address}:{port}").parse().context("not an address")?;
    let mut stream = TcpStream::connect_timeout(&server, LIMIT).context("failed to connect")?;
    stream
        .set_read_timeout(Some(LIMIT))
        .context("failed to set a limit")?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).context("failed to ask")?;
    let mut answer = [0; 512];
    let length = stream.read(&mut answer).context("failed to read an answer")?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Value {
        json!({
            "metadata": {
                "name": "capi-controller-manager", "namespace": "capi-system", "uid": "u",
                "labels": {PROVIDER: "cluster-api"},
            },
            "spec": {"template": {"spec": {
                "serviceAccountName": "capi-manager",
                "containers": [{"name": "manager", "args": [
                    "--leader-elect", "--diagnostics-address=:8443", "--feature-gates=A=true,B=false",
                ]}],
                "volumes": [{"name": "cert", "secret": {"secretName": "capi-webhook-service-cert"}}],
            }}},
        })
    }

    #[test]
    fn a_process_has_the_arguments_of_its_container_but_for_its_places() {
        let manager = Manager::read(&deployment(), Number::first()).expect("a Deployment");
        let expected = [
            "--feature-gates=A=true,B=false",
            "--webhook-port=9200",
            "--health-addr=10.251.0.2:9201",
            "--diagnostics-address=10.251.0.2:9202",
            "--webhook-cert-dir=/c",
            "--leader-elect=false",
        ];
        assert_eq!(manager.command_line("10.251.0.2", Path::new("/c")), expected);
        assert!(!manager.is_ours());
    }

    #[test]
    fn the_manager_of_clusters_has_ports_of_its_own_for_their_api_servers() {
        let mut ours = deployment();
        ours["metadata"]["labels"][PROVIDER] = json!(release::LABEL);
        let manager = Manager::read(&ours, Number::first()).expect("a Deployment");
        let line = manager.command_line("10.251.0.2", Path::new("/c"));
        assert!(
            line.contains(&"--workload-ports=21000-21999".to_owned()),
            "{line:?}"
        );
    }
}
