//! `nephele doctor` on broken installations: it names what is broken and what mends it, and that mends it.

use std::{net::TcpListener, time::Duration};

use anyhow::Context;
use nephele_e2e::{Look, shell::Shell, until, wait::LIMIT};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    life::{is_ours, left},
    quickstart,
};

/// A way to break an installation.
struct Broken {
    /// Commands that break it. They run again until a doctor sees the effect.
    commands: &'static str,
    /// What a doctor says.
    problem: &'static str,
    /// What a doctor says that mends it.
    mend: &'static str,
    /// Commands that do so.
    mended: &'static str,
}

/// A Deployment is paused first, so that the spec changes and its pods do not.
const BROKEN: [Broken; 8] = [
    Broken {
        commands: "kubectl -n capi-system patch deployment capi-controller-manager --type merge -p '{\"spec\":{\"paused\":true}}'
            kubectl -n capi-system set image deployment/capi-controller-manager manager=${CAPI%:*}:v1.9.4",
        problem: "cluster-api is of release v1.9.4",
        mend: "run `clusterctl upgrade apply --contract v1beta2`",
        mended: "kubectl -n capi-system set image deployment/capi-controller-manager manager=$CAPI
            kubectl -n capi-system patch deployment capi-controller-manager --type merge -p '{\"spec\":{\"paused\":false}}'",
    },
    Broken {
        commands: "kubectl -n capi-system patch deployment capi-controller-manager --type merge -p '{\"spec\":{\"paused\":true}}'
            kubectl -n capi-system get deployment capi-controller-manager -o json |
            sed 's/ClusterTopology=true/ClusterTopology=false/' | kubectl replace -f -",
        problem: "Cluster API's feature gate ClusterTopology is off",
        mend: "set `--feature-gates=ClusterTopology=true` on the Deployment capi-controller-manager in capi-system",
        mended: "kubectl -n capi-system get deployment capi-controller-manager -o json |
            sed 's/ClusterTopology=false/ClusterTopology=true/' | kubectl replace -f -
            kubectl -n capi-system patch deployment capi-controller-manager --type merge -p '{\"spec\":{\"paused\":false}}'",
    },
    Broken {
        // Without the role, the manager cannot write it again at once.
        commands: "kubectl delete clusterrolebinding nephele-system-webhook --ignore-not-found
            kubectl patch validatingwebhookconfiguration nephele-validating-webhook-configuration --type json -p '[{\"op\":\"add\",\"path\":\"/webhooks/0/clientConfig/caBundle\",\"value\":null}]'",
        problem: "no certificate authority is in nephele-validating-webhook-configuration",
        mend: "delete the manager's pod: it writes the authority when it starts",
        mended: "nephele install\nkubectl -n nephele-system delete pod --selector control-plane=controller-manager",
    },
    Broken {
        commands: "kubectl delete clusterrolebinding nephele-system-manager --ignore-not-found",
        problem: "the manager's account may not",
        mend: "restore its roles with `nephele install`",
        mended: "nephele install",
    },
    Broken {
        commands: "kubectl -n nephele-system set image deployment/nephele-controller-manager manager=localhost/nephele:absent",
        problem: "the manager nephele-system/nephele-controller-manager is not available: ErrImageNeverPull",
        mend: "load the image into every node with `nephele install`",
        mended: "nephele install",
    },
    Broken {
        commands: "kubectl label crd inclusterippools.ipam.cluster.x-k8s.io --overwrite cluster.x-k8s.io/provider=ipam-other",
        problem: "inclusterippools.ipam.cluster.x-k8s.io belongs to the provider \"ipam-other\"",
        mend: "remove that provider first",
        mended: "kubectl label crd inclusterippools.ipam.cluster.x-k8s.io --overwrite cluster.x-k8s.io/provider=ipam-in-cluster",
    },
    Broken {
        commands: "kubectl -n default create deployment second --image=none --replicas=0 --dry-run=client -o json |
            kubectl label --local -f - -o json cluster.x-k8s.io/provider=infrastructure-in-memory | kubectl apply -f -",
        problem: "several managers reconcile the same objects: default/second, nephele-system/nephele-controller-manager",
        mend: "remove all but one",
        mended: "kubectl -n default delete deployment second",
    },
    Broken {
        commands: "node=$(kubectl get nodes -o name)
            kubectl patch $node --subresource status -p '{\"status\":{\"conditions\":[{\"type\":\"DiskPressure\",\"status\":\"True\"}]}}'",
        problem: "has DiskPressure",
        mend: "free disk space there",
        // The kubelet measures again, and there is room.
        mended: "kubectl wait node --all --for=condition=DiskPressure=False --timeout=1m",
    },
];

const IMAGE_OF_CLUSTER_API: &str = "kubectl -n capi-system get deployment capi-controller-manager -o jsonpath='{.spec.template.spec.containers[0].image}'";
const HEALTHY: &str = "✓ Nothing is wrong with this management cluster.\n";

#[tokio::test]
async fn a_doctor_names_what_is_broken_in_ten_ways_and_what_mends_it() -> anyhow::Result<()> {
    let shell = quickstart::shell("doctor").await?;
    let image = shell.run(IMAGE_OF_CLUSTER_API).await?;
    let shell = shell.with("CAPI", image);
    shell.run("nephele install").await?;
    healthy(&shell).await?;
    for broken in &BROKEN {
        let says = until(broken.problem, LIMIT, async || {
            shell.run(broken.commands).await?;
            let says = doctor(&shell, "").await?;
            Ok(if says.contains(broken.problem) {
                Look::Done(says)
            } else {
                Look::NotYet(says)
            })
        })
        .await?;
        names(&says, broken.problem, broken.mend);
        shell.run(broken.mended).await?;
        healthy(&shell).await?;
    }
    a_port_that_is_taken(&shell).await?;
    a_clock_that_is_ahead(&shell).await?;
    shell.run("nephele uninstall").await?;
    let left = left().await?;
    assert!(!left.lines().any(is_ours), "{left}");
    Ok(())
}

/// In the network of the node, where the namespace allows that, another program can have a port of the manager.
async fn a_port_that_is_taken(shell: &Shell) -> anyhow::Result<()> {
    let in_network_of_node = |on: &str| {
        format!(
            "kubectl -n nephele-system patch deployment nephele-controller-manager --type merge -p \
             '{{\"spec\":{{\"template\":{{\"spec\":{{\"hostNetwork\":{on}}}}}}}}}'"
        )
    };
    let enforced = |what: &str| {
        format!(
            "kubectl label namespace nephele-system --overwrite pod-security.kubernetes.io/enforce={what}"
        )
    };
    let taken = TcpListener::bind("0.0.0.0:9440").context("failed to take a port of the node")?;
    shell.run(&in_network_of_node("true")).await?;
    // First the namespace does not allow that.
    let says = until("a doctor to say that pods are forbidden", LIMIT, async || {
        let says = doctor(shell, "").await?;
        Ok(if says.contains("PodSecurity") {
            Look::Done(says)
        } else {
            Look::NotYet(says)
        })
    })
    .await?;
    names(
        &says,
        "is forbidden: violates PodSecurity",
        "allow such pods in the namespace nephele-system",
    );
    shell.run(&enforced("privileged")).await?;
    shell
        .run("kubectl -n nephele-system rollout restart deployment/nephele-controller-manager")
        .await?;
    let says = until("a doctor to say that a port is taken", LIMIT, async || {
        let says = doctor(shell, "").await?;
        Ok(if says.contains("in use") {
            Look::Done(says)
        } else {
            Look::NotYet(says)
        })
    })
    .await?;
    names(
        &says,
        "is not available",
        "another program on the node has the port: stop it",
    );
    drop(taken);
    healthy(shell).await?;
    shell.run(&in_network_of_node("null")).await?;
    shell.run(&enforced("restricted")).await?;
    healthy(shell).await
}

/// The header with the time of an answer, and how far a proxy puts it forward.
const HEADER: &str = "Date: ";
const AHEAD: Duration = Duration::from_secs(3600);

/// A proxy in front of the API server says that it is an hour later.
async fn a_clock_that_is_ahead(shell: &Shell) -> anyhow::Result<()> {
    let proxy = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .context("failed to listen")?;
    let address = proxy.local_addr().context("failed to read an address")?;
    let behind = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let behind = behind.context("failed to find a free port")?;
    let _running = shell.start(&format!("kubectl proxy --port {}", behind.port()))?;
    let serving = tokio::spawn(async move {
        while let Ok((client, _)) = proxy.accept().await {
            tokio::spawn(an_hour_later(client, behind));
        }
    });
    let kubeconfig = shell.folder().join("ahead");
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: a, clusters: [{{name: a, cluster: {{server: 'http://{address}'}}}}], \
         users: [{{name: a, user: {{}}}}], contexts: [{{name: a, context: {{cluster: a, user: a}}}}]}}"
    );
    std::fs::write(&kubeconfig, text).context("failed to write a kubeconfig")?;
    let says = until("a doctor to say that the clock is ahead", LIMIT, async || {
        let says = doctor(shell, "--kubeconfig ahead").await?;
        Ok(if says.contains("clock") {
            Look::Done(says)
        } else {
            Look::NotYet(says)
        })
    })
    .await?;
    serving.abort();
    names(&says, "s ahead of this machine's", "synchronize both clocks");
    healthy(shell).await
}

/// Copies requests, and answers with a later date.
async fn an_hour_later(client: TcpStream, behind: std::net::SocketAddr) -> anyhow::Result<()> {
    let server = TcpStream::connect(behind).await?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let requests = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = from_server.read(&mut buffer).await?;
        if read == 0 {
            break;
        }
        let text = &mut buffer[..read];
        let date = text
            .windows(HEADER.len())
            .position(|bytes| bytes == HEADER.as_bytes());
        let later = (jiff::Timestamp::now() + AHEAD)
            .strftime("%a, %d %b %Y %H:%M:%S GMT")
            .to_string();
        if let Some(date) =
            date.and_then(|at| text.get_mut(at + HEADER.len()..at + HEADER.len() + later.len()))
        {
            date.copy_from_slice(later.as_bytes());
        }
        to_client.write_all(text).await?;
    }
    requests.abort();
    Ok(())
}

/// What a doctor says, well or not.
async fn doctor(shell: &Shell, arguments: &str) -> anyhow::Result<String> {
    shell
        .run(&format!("nephele doctor {arguments} || test $? -eq 1"))
        .await
}

/// Waits until a doctor finds nothing.
async fn healthy(shell: &Shell) -> anyhow::Result<()> {
    until("a doctor to find nothing", LIMIT, async || {
        let says = doctor(shell, "").await?;
        Ok(if says == HEALTHY {
            Look::Done(())
        } else {
            Look::NotYet(says)
        })
    })
    .await
}

/// The problem, and in the next line what mends it.
fn names(says: &str, problem: &str, mend: &str) {
    let mut lines = says
        .lines()
        .skip_while(|line| !(line.starts_with('✗') && line.contains(problem)));
    assert!(lines.next().is_some(), "{problem:?} is not in {says}");
    assert!(
        lines.next().is_some_and(|line| line.contains(mend)),
        "{mend:?} does not mend it in {says}"
    );
}
