//! The lifecycle of our providers on a management cluster: clusters from every template, an upgrade, and deletion.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::Context;
use futures::future::try_join_all;
use nephele_e2e::{
    Bare, Cluster, Look, Scope,
    management::{Kind, kinds},
    state, templates, until,
    wait::LIMIT,
};
use serde_json::Value;

use crate::clusterctl::identity::Identity;

/// clusterctl's labels of our providers.
const LABELS: [&str; 2] = ["infrastructure-in-memory", "ipam-in-cluster"];
/// The kind of clusterctl's inventory.
const PROVIDER: Kind = ("clusterctl.cluster.x-k8s.io", "v1alpha3", "Provider");
/// The namespaces of our providers.
const NAMESPACES: [&str; 2] = ["nephele-system", "capi-ipam-in-cluster-system"];

#[tokio::test]
async fn provider_makes_clusters_of_all_templates_is_upgraded_under_them_and_leaves_nothing()
-> anyhow::Result<()> {
    let bare = Bare::up("provider", None).await?;
    names_are_free(&bare).await?;
    let scope = Scope::on(bare.management.clone(), "provider").await?;
    let clusters = generated(&bare, &scope).await?;
    try_join_all(clusters.iter().map(|cluster| cluster.settled(1, 1))).await?;
    for cluster in &clusters {
        described(&bare, cluster).await?;
    }
    upgraded(&bare, &clusters).await?;
    let namespace = scope.namespace.clone();
    scope.finish().await?;
    // The pool of a template is deleted with it.
    until("the namespace to be gone", LIMIT, async || {
        let found = bare.management.find(kinds::NAMESPACE, "", &namespace).await?;
        Ok(Look::when(found.is_none(), || format!("{found:?}")))
    })
    .await?;
    deleted(&bare).await?;
    bare.down().await
}

/// In clusterctl's default configuration, no infrastructure provider has our name, and the IPAM provider of our name is
/// the provider that we replace.
async fn names_are_free(bare: &Bare) -> anyhow::Result<()> {
    let config = bare.repository().join("nothing.yaml");
    fs::write(&config, "").context("failed to write a configuration")?;
    let mut clusterctl = Command::new("clusterctl");
    clusterctl
        .args(["config", "repositories", "--config"])
        .arg(&config);
    clusterctl.env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true");
    let output = tokio::task::spawn_blocking(move || clusterctl.output())
        .await
        .context("given up")?;
    let known = String::from_utf8(output.context("failed to run clusterctl")?.stdout).context("not text")?;
    let known: BTreeSet<_> = (known.lines())
        .filter_map(|line| {
            line.split_whitespace()
                .collect::<Vec<_>>()
                .get(..3)
                .map(<[_]>::to_vec)
        })
        .map(|fields| (fields[1].to_owned(), fields[0].to_owned(), fields[2].to_owned()))
        .collect();
    let named = |kind: &str, name: &str| -> Vec<_> {
        known
            .iter()
            .filter(|(of, known, _)| of == kind && known == name)
            .map(|(.., url)| url)
            .collect()
    };
    assert!(named("InfrastructureProvider", "docker").len() == 1, "{known:?}");
    assert_eq!(
        named("InfrastructureProvider", "in-memory"),
        Vec::<&String>::new()
    );
    assert_eq!(
        named("RuntimeExtensionProvider", "nephele"),
        Vec::<&String>::new()
    );
    let [url] = named("IPAMProvider", "in-cluster")[..] else {
        panic!("{known:?}")
    };
    assert!(url.contains("cluster-api-ipam-provider-in-cluster"), "{url}");
    Ok(())
}

/// A cluster of every template, with only the variables that clusterctl has flags for, and one machine of each role.
async fn generated(bare: &Bare, scope: &Scope) -> anyhow::Result<Vec<Cluster>> {
    let mut clusters = Vec::new();
    for flavor in flavors(&release(&bare.repository(), LABELS[0])?)? {
        let name = format!(
            "of-{}",
            if flavor.is_empty() {
                "default"
            } else {
                flavor.as_str()
            }
        );
        let mut args = vec![
            "generate",
            "cluster",
            &name,
            "--target-namespace",
            &scope.namespace,
        ];
        args.extend([
            "--infrastructure",
            "in-memory",
            "--kubernetes-version",
            templates::VERSION,
        ]);
        // The default of clusterctl is zero.
        args.extend(["--worker-machine-count", "1"]);
        if !flavor.is_empty() {
            args.extend(["--flavor", &flavor]);
        }
        let variables = bare
            .clusterctl(&[args.as_slice(), &["--list-variables"]].concat())
            .await?;
        let required = variables.split("Optional Variables").next().unwrap_or_default();
        let asked: Vec<_> = required
            .lines()
            .filter_map(|line| line.trim().strip_prefix("- "))
            .collect();
        // The variables that clusterctl has flags or arguments for.
        let given = ["CLUSTER_NAME", "NAMESPACE", "KUBERNETES_VERSION"];
        assert!(
            asked.iter().all(|variable| given.contains(variable)),
            "{flavor}: {variables}"
        );

        let manifest = bare.clusterctl(&args).await?;
        let objects = documents(&manifest)?;
        let elsewhere = objects
            .iter()
            .filter(|object| object["metadata"]["namespace"] != *scope.namespace);
        assert_eq!(elsewhere.collect::<Vec<_>>(), Vec::<&Value>::new(), "{flavor}");
        scope.management.apply(&scope.namespace, &objects).await?;
        // The class exists now, and is not created a second time.
        let again = documents(&bare.clusterctl(&args).await?)?;
        assert!(
            again.iter().all(|object| object["kind"] != "ClusterClass"),
            "{flavor}: {again:?}"
        );
        let management = scope.management.clone();
        let namespace = scope.namespace.clone();
        clusters.push(Cluster {
            management,
            namespace,
            name,
        });
    }
    Ok(clusters)
}

/// The flavors in the folder of a release. The empty name is the default flavor.
fn flavors(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut flavors = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))? {
        let file = entry.context("failed to list a release")?.file_name();
        let template = file
            .to_str()
            .and_then(|file| file.strip_prefix("cluster-template")?.strip_suffix(".yaml"));
        flavors.extend(template.map(|flavor| flavor.trim_start_matches('-').to_owned()));
    }
    anyhow::ensure!(flavors.len() > 1, "only {flavors:?}");
    Ok(flavors)
}

fn documents(manifest: &str) -> anyhow::Result<Vec<Value>> {
    use serde::Deserialize;
    serde_yaml_ng::Deserializer::from_str(manifest)
        .map(|document| Value::deserialize(document).context("failed to read what was generated"))
        .collect()
}

/// The description that people see contains our objects, and they are ready.
async fn described(bare: &Bare, cluster: &Cluster) -> anyhow::Result<()> {
    let args = [
        "describe",
        "cluster",
        &cluster.name,
        "--namespace",
        &cluster.namespace,
    ];
    let text = bare
        .clusterctl(
            &[
                &args[..],
                &["--show-conditions", "all", "--grouping=false", "--echo"],
            ]
            .concat(),
        )
        .await?;
    let infrastructure = cluster.infrastructure().await?;
    let machines = cluster.of_kind(kinds::IN_MEMORY_MACHINE).await?;
    let of_machines = cluster.of_kind(kinds::MACHINE).await?;
    let owned = machines.iter().filter(|machine| {
        of_machines
            .iter()
            .any(|owner| owner["spec"]["infrastructureRef"]["name"] == machine["metadata"]["name"])
    });
    for object in owned.chain([&infrastructure]) {
        let kind = object["kind"].as_str().unwrap_or_default();
        let name = state::name(object);
        let lines: Vec<_> = text.lines().collect();
        let at = lines
            .iter()
            .position(|line| line.contains(&format!("{kind} {}/{name} ", cluster.namespace)));
        let at = at.with_context(|| format!("{kind} {name} is not shown:\n{text}"))?;
        // The conditions of the object follow, with the same indent.
        let shown = lines[at + 1..].iter().take_while(|line| !line.contains('/'));
        let ready = shown
            .into_iter()
            .any(|line| line.contains("Ready") && line.contains("True"));
        anyhow::ensure!(ready, "{kind} {name} is not shown as ready:\n{text}");
    }
    Ok(())
}

/// The next release replaces this one while clusters run, without affecting them.
async fn upgraded(bare: &Bare, clusters: &[Cluster]) -> anyhow::Result<()> {
    let repository = bare.repository();
    let mut next = String::new();
    for label in LABELS {
        next = next_release(&release(&repository, label)?)?;
    }
    let plan = bare.clusterctl(&["upgrade", "plan"]).await?;
    for label in LABELS {
        let offered = plan
            .lines()
            .any(|line| line.starts_with(label) && line.trim_end().ends_with(&next));
        anyhow::ensure!(offered, "{label} {next} is not offered:\n{plan}");
    }

    let before = identities(clusters).await?;
    let stop = AtomicBool::new(false);
    let upgrade = async {
        let infrastructure = format!("in-memory:{next}");
        let ipam = format!("in-cluster:{next}");
        bare.clusterctl(&[
            "upgrade",
            "apply",
            "--infrastructure",
            &infrastructure,
            "--ipam",
            &ipam,
        ])
        .await?;
        bare.follow_deployments().await?;
        let after = identities(clusters).await;
        stop.store(true, Ordering::Relaxed);
        after
    };
    let (after, available) = tokio::join!(upgrade, available_until(&stop, clusters));
    for (after, before) in after?.iter().zip(&before) {
        assert_eq!(after, before);
    }
    available?;
    for (label, namespace) in LABELS.into_iter().zip(NAMESPACES) {
        let provider = bare.management.get(PROVIDER, namespace, label).await?;
        assert_eq!(provider["version"], *next);
    }
    Ok(())
}

/// Watches until `stop` whether the clusters stay available.
async fn available_until(stop: &AtomicBool, clusters: &[Cluster]) -> anyhow::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        for cluster in clusters {
            let object = cluster.get().await?;
            anyhow::ensure!(
                state::is(&object, "Available", "True"),
                "{}",
                state::line(&object)
            );
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

async fn identities(clusters: &[Cluster]) -> anyhow::Result<Vec<Identity>> {
    try_join_all(clusters.iter().map(Identity::of)).await
}

/// The only folder of a provider's release.
fn release(repository: &Path, label: &str) -> anyhow::Result<std::path::PathBuf> {
    let folder = repository.join(label);
    let attempt = || format!("failed to list {}", folder.display());
    let releases = fs::read_dir(&folder).with_context(attempt)?;
    let mut releases = releases.collect::<Result<Vec<_>, _>>().with_context(attempt)?;
    anyhow::ensure!(
        releases.len() == 1,
        "{} releases in {}",
        releases.len(),
        folder.display()
    );
    Ok(releases.remove(0).path())
}

/// Lays out the next patch release, and returns its version.
fn next_release(folder: &Path) -> anyhow::Result<String> {
    let version = folder
        .file_name()
        .and_then(|name| name.to_str())
        .context("a release has a version")?;
    let (series, patch) = version.rsplit_once('.').context("a version has three parts")?;
    let next = format!(
        "{series}.{}",
        patch.parse::<u32>().context("a version is of numbers")? + 1
    );
    let target = folder.with_file_name(&next);
    fs::create_dir_all(&target).context("failed to make a release")?;
    for entry in fs::read_dir(folder).context("failed to list a release")? {
        let file = entry.context("failed to list a release")?;
        let text = fs::read_to_string(file.path()).context("failed to read a release")?;
        let image = (format!("/nephele:{version}"), format!("/nephele:{next}"));
        fs::write(target.join(file.file_name()), text.replace(&image.0, &image.1))
            .context("failed to make a release")?;
    }
    Ok(next)
}

/// clusterctl removes our providers: first everything but definitions and namespaces, which need their own flags, then
/// those too.
async fn deleted(bare: &Bare) -> anyhow::Result<()> {
    let delete = ["delete", "--infrastructure", "in-memory", "--ipam", "in-cluster"];
    bare.clusterctl(&delete).await?;
    let kinds: BTreeSet<_> = left(bare).await?.into_iter().map(|(kind, _)| kind).collect();
    // The managers create leases and the certificates of their webhooks in their namespaces. The slices are from
    // the test, in place of pods.
    let of_managers = ["EndpointSlice", "Lease", "Secret"];
    let expected = ["CustomResourceDefinition", "Namespace"]
        .into_iter()
        .chain(of_managers);
    assert_eq!(kinds, expected.map(str::to_owned).collect());

    // The providers can be installed again while these objects are left.
    bare.follow_deployments().await?;
    // One provider after the other: clusterctl cannot list the objects of one provider while the kinds of another are
    // being deleted.
    for ([kind, name], label) in [["--infrastructure", "in-memory"], ["--ipam", "in-cluster"]]
        .into_iter()
        .zip(LABELS)
    {
        bare.clusterctl(&["delete", kind, name, "--include-crd", "--include-namespace"])
            .await?;
        let of_provider = format!("cluster.x-k8s.io/provider={label}");
        bare.kubectl(&["wait", "--for=delete", "--timeout=60s", "crd", "-l", &of_provider])
            .await?;
    }
    until("nothing of the providers to be left", LIMIT, async || {
        // A definition may be gone between the list of resources and that of objects, and then the second one fails.
        Ok(match left(bare).await {
            Ok(left) => Look::when(left.is_empty(), || format!("{left:?}")),
            Err(error) => Look::NotYet(format!("{error:#}")),
        })
    })
    .await
}

/// Objects of our providers by label, namespace or name: kind and name.
async fn left(bare: &Bare) -> anyhow::Result<BTreeSet<(String, String)>> {
    let resources = bare
        .kubectl(&["api-resources", "--verbs=list", "-o", "name"])
        .await?;
    let columns = "custom-columns=K:.kind,N:.metadata.name,S:.metadata.namespace,L:.metadata.labels.cluster\\.x-k8s\\.io/provider";
    // Events are in the namespace too, but they expire.
    let lasting = resources
        .lines()
        .filter(|resource| !resource.starts_with("events"));
    let lasting = lasting.collect::<Vec<_>>().join(",");
    let args = ["get", &lasting, "--all-namespaces", "--no-headers", "-o", columns];
    let mut found = BTreeSet::new();
    for object in bare.kubectl(&args).await?.lines() {
        let fields: Vec<_> = object.split_whitespace().collect();
        let [kind, name, namespace, label] = fields[..] else {
            continue;
        };
        let ours = LABELS.contains(&label)
            || NAMESPACES
                .iter()
                .any(|ours| namespace == *ours || name.starts_with(ours));
        // Every namespace has these objects.
        let of_namespace = ["kube-root-ca.crt", "default"].contains(&name);
        if ours && !of_namespace {
            found.insert((kind.to_owned(), name.to_owned()));
        }
    }
    Ok(found)
}
