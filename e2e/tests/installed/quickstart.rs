//! The quickstart of the book, block by block from its own text: from the program alone to Nodes, and back to nothing.
//!
//! Only kind is replaced: the cluster is there, and the containerd of its node gets the image.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::Context;
use nephele_e2e::{
    Look, Management,
    management::kinds,
    manager::{self, Provider},
    page::{self, commands},
    shell::Shell,
    terminal::Terminals,
    until,
    wait::LIMIT,
};

use super::{
    clusterctl::{Releases, kubectl},
    life::{is_ours, left},
    page::Page,
};

const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src");
const PAGE: &str = "quickstart.md";
/// The end of the address by which blocks of other pages say that they are run here, where a management cluster has the cluster of
/// this page.
const THIS_TEST: &str = "quickstart.rs#the_quickstart_works_as_written_over_another_pod_and_leaves_nothing";
/// The command that runs on while others follow, and how it is named among those that do.
const CONNECT: &str = "nephele connect --all\n";
const CONNECTS: &str = "nephele connect";
/// The command whose page is looked at until then.
const LOOK: &str = "nephele page\n";
/// The first command of the block that removes everything.
const CLEAN_UP: &str = "kubectl delete cluster demo\n";
const CLUSTER: &str = "default-demo";
const NAMESPACE: &str = "default";

#[tokio::test]
async fn the_quickstart_works_as_written_over_another_pod_and_leaves_nothing() -> anyhow::Result<()> {
    let file = Path::new(BOOK).join(PAGE);
    let page = read(&file)?;
    let shell = shell("quickstart").await?;
    let mut terminals = Terminals::new(&shell, NAMESPACE);
    let management = Management::connect().await?;
    let started = Instant::now();
    let mut looked_at = None;
    let mut seen = Vec::new();
    for block in page::blocks(&page) {
        if block.text == CONNECT {
            terminals.play(&block).await?;
            let nodes = ready_nodes(&shell, &mut terminals, 3).await?;
            println!(
                "{} s from the program to Nodes\n{nodes}",
                started.elapsed().as_secs()
            );
            continue;
        }
        if block.text == LOOK {
            let mut page = Page::open(&shell, LOOK.trim()).await?;
            let all = page.has("/", "3/3 running").await?;
            if let Some(difference) = page::difference(&block, &page.printed()?) {
                anyhow::bail!(difference);
            }
            let machine = all.split("href=\"/machine/").nth(1).context("no machine")?;
            let machine = machine.split('"').next().unwrap_or_default();
            // The journal comes from the manager, by a port-forward to its pod.
            page.has(&format!("/fragment/machine/{machine}"), "CreateInstance")
                .await?;
            looked_at = Some(page);
            tenant_reads_only_its_namespace(&shell).await?;
            play_other_pages(&shell).await?;
            classes_of_other_namespaces_are_refused(&shell).await?;
            continue;
        }
        if block.text.starts_with(CLEAN_UP) {
            let page = looked_at
                .take()
                .context("the page of the book does not look at its cluster")?;
            page.close().await?;
            terminals
                .still_runs(CONNECTS)
                .context("the page cleans up before it connects")?;
            replace_manager(&management).await?;
            // The checkpoint had three.
            ready_nodes(&shell, &mut terminals, 3).await?;
            terminals.interrupt(CONNECTS).await?;
            assert!(!kubeconfig(&shell).exists(), "its kubeconfigs are left");
            let refused = shell
                .run("nephele uninstall")
                .await
                .err()
                .context("uninstalled under a cluster")?;
            assert!(
                refused.to_string().contains("kubectl delete cluster"),
                "{refused:#}"
            );
        }
        if let Some(said) = terminals.play(&block).await? {
            println!("{said}");
            seen.push((block, said));
        }
    }
    assert!(
        terminals.still_runs(CONNECTS).is_err(),
        "the page does not clean up"
    );
    let left = left().await?;
    assert!(!left.lines().any(is_ours), "{left}");
    page::compare(&page, &seen, &file)
}

/// Plays what other pages do with the cluster of this one. `nephele connect` runs already.
async fn play_other_pages(shell: &Shell) -> anyhow::Result<()> {
    let mut played = 0;
    for (file, text) in page::pages(Path::new(BOOK))? {
        let mut terminals = Terminals::new(shell, NAMESPACE);
        let mut seen = Vec::new();
        for block in page::blocks_for(&text, THIS_TEST) {
            if block.text == CONNECT {
                terminals.compare(&block, CONNECTS)?;
                continue;
            }
            let said = terminals.play(&block).await;
            let said = said.with_context(|| format!("{}", file.display()))?;
            played += 1;
            // A block may show nothing: what a log says belongs to no page.
            if let Some(said) = said.filter(|_| block.output.is_some()) {
                seen.push((block, said));
            }
        }
        terminals.finish().await?;
        page::compare(&text, &seen, &file).with_context(|| format!("{}", file.display()))?;
    }
    assert!(played > 0, "no page has a block with the address of this test");
    Ok(())
}

/// The policy of the book keeps classes inside their namespace: a Cluster of the class of this page is refused elsewhere, in both
/// versions, and one that was there before may change.
async fn classes_of_other_namespaces_are_refused(shell: &Shell) -> anyhow::Result<()> {
    let text = read(&Path::new(BOOK).join("security.md"))?;
    let policy = text
        .split("```yaml\n")
        .filter_map(|rest| rest.split_once("```"))
        .map(|(objects, _)| objects)
        .find(|objects| objects.contains("kind: ValidatingAdmissionPolicy\n"))
        .context("the page has no policy")?;
    fs::write(shell.folder().join("policy.yaml"), policy).context("failed to write the policy")?;
    let cluster = |version: &str, name: &str, topology: &str| {
        format!(
            "apiVersion: cluster.x-k8s.io/{version}
kind: Cluster
metadata: {{name: {name}, namespace: elsewhere}}
spec: {{paused: true, topology: {{{topology}, version: v1.36.3}}}}
"
        )
    };
    let newer = "classRef: {name: in-memory, namespace: default}";
    let older = "class: in-memory, classNamespace: default";
    // A run that failed has left some of it. Cluster API leaves a paused Cluster alone, also its finalizer.
    shell
        .run(&format!(
            "kubectl create namespace elsewhere --dry-run=client -o yaml | kubectl apply -f -
kubectl delete -f policy.yaml --ignore-not-found
kubectl apply -f - <<END
{}END
kubectl apply -f policy.yaml",
            cluster("v1beta2", "before", newer)
        ))
        .await?;
    for (version, topology) in [("v1beta2", newer), ("v1beta1", older)] {
        let object = cluster(version, "after", topology);
        let create = format!("kubectl create --dry-run=server -f - <<END\n{object}END");
        // The API server hears of the policy later.
        until("a class of another namespace to be refused", LIMIT, async || {
            let said = shell.run(&create).await.err();
            let said = said.map_or_else(|| "it was accepted".to_owned(), |error| format!("{error:#}"));
            let is_refused = said.contains("classRef.namespace has to be the namespace of the Cluster");
            Ok(Look::when(is_refused, || said))
        })
        .await?;
    }
    shell
        .run(
            "kubectl --namespace elsewhere label cluster before policy=holds
kubectl --namespace elsewhere patch cluster before --type merge --patch '{\"metadata\": {\"finalizers\": null}}'
kubectl --namespace elsewhere delete cluster before
kubectl delete -f policy.yaml
kubectl delete namespace elsewhere",
        )
        .await
        .map(drop)
}

fn read(file: &Path) -> anyhow::Result<String> {
    fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))
}

/// A token of a tenant opens what the journal has about its namespace, and nothing else.
async fn tenant_reads_only_its_namespace(shell: &Shell) -> anyhow::Result<()> {
    shell
        .run(
            "kubectl create serviceaccount tenant\n\
             kubectl create rolebinding tenant --clusterrole nephele-system-tenant --serviceaccount default:tenant\n\
             kubectl create token tenant --audience diagnostics.nephele.dev > token",
        )
        .await?;
    // The API server hears of the binding later, and the manager remembers a refusal for some seconds.
    until("the tenant to read its records", LIMIT, async || {
        let read = shell
            .run("nephele journal show --namespace default --token-file token")
            .await;
        let read = read.unwrap_or_else(|error| format!("{error:#}"));
        let is_read = read.contains("CreateInstance");
        Ok(Look::when(is_read, || read))
    })
    .await?;
    for (flag, permission) in [
        ("--namespace kube-system", "in namespace kube-system"),
        ("--all-namespaces", "-n NAMESPACE asks for one namespace"),
    ] {
        let refused = shell
            .run(&format!("nephele journal show {flag} --token-file token"))
            .await;
        let refused = format!(
            "{:#}",
            refused.err().context("a tenant reads what is not its own")?
        );
        assert!(
            refused.contains("403 Forbidden") && refused.contains(permission),
            "{refused}"
        );
    }
    shell
        .run("kubectl delete rolebinding tenant && kubectl delete serviceaccount tenant && rm token")
        .await
        .map(drop)
}

/// A shell with our program, and with programs that stand in for kind and for what needs the internet.
pub(super) async fn shell(name: &str) -> anyhow::Result<Shell> {
    let variable = |name: &str| {
        std::env::var(name).with_context(|| format!("{name} is not set: run cargo xtask installed"))
    };
    let socket = variable("NEPHELE_E2E_CONTAINERD")?;
    let program = variable("NEPHELE_PROGRAM")?;
    let config = Releases::from_environment()?.config;
    let shell = Shell::new(name)?.with_nephele(program)?;
    let folder = shell.programs();
    let kind = format!(
        "case \"$1 $2\" in\n  'create cluster' | 'delete cluster') ;;\n  'load image-archive')\n    test \"$4 $5\" = \
         '--name kind'\n    exec ctr --address '{socket}' --namespace k8s.io images import --local \"$3\" ;;\n  *) \
         exit 1 ;;\nesac\n"
    );
    script(&folder.join("kind"), &kind)?;
    let rest = std::env::var("PATH").unwrap_or_default();
    // Cluster API is installed, from the same configuration.
    let clusterctl =
        format!("test \"$1\" != init || exit 0\nPATH='{rest}'\nexec clusterctl --config '{config}' \"$@\"\n");
    script(&folder.join("clusterctl"), &clusterctl)?;
    // The context has the name that kind gives it, by which `nephele install` knows how nodes get the image.
    let kubeconfig = folder.join("kubeconfig");
    let own = kubectl(&["config", "view", "--raw", "--minify", "--flatten"]).await?;
    fs::write(&kubeconfig, own).context("failed to write a kubeconfig")?;
    let shell = shell.with("KUBECONFIG", kubeconfig);
    shell
        .run("kubectl config rename-context \"$(kubectl config current-context)\" kind-kind")
        .await?;
    Ok(shell)
}

fn script(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, format!("#!/bin/sh\nset -eu\n{text}"))
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)))
        .with_context(|| format!("failed to write {}", path.display()))
}

fn kubeconfig(shell: &Shell) -> PathBuf {
    shell
        .folder()
        .join(format!("nephele-kubeconfigs/{CLUSTER}.kubeconfig"))
}

/// Waits until so many Nodes of the cluster are ready, through the connection, and returns them, one a line.
async fn ready_nodes(shell: &Shell, terminals: &mut Terminals<'_>, number: usize) -> anyhow::Result<String> {
    let get = format!(
        "kubectl --kubeconfig {} get nodes --no-headers",
        kubeconfig(shell).display()
    );
    until(&format!("{number} Nodes to be ready"), LIMIT, async || {
        terminals.still_runs(CONNECTS)?;
        let nodes = shell.run(&get).await.unwrap_or_else(|error| format!("{error:#}"));
        let ready = nodes
            .lines()
            .filter(|line| line.split_whitespace().nth(1) == Some("Ready"))
            .count();
        Ok(if ready == number {
            Look::Done(nodes)
        } else {
            Look::NotYet(nodes)
        })
    })
    .await
}

/// Deletes the manager's pod, and waits until the next one leads.
async fn replace_manager(management: &Management) -> anyhow::Result<()> {
    let provider = Provider::Infrastructure;
    let leads = async || Ok(Look::Done(manager::leader(management, provider).await?));
    let leader = until("the leader's process to be known", LIMIT, leads).await?;
    management
        .delete(kinds::POD, provider.namespace(), &leader.pod)
        .await?;
    manager::another_leads(management, provider, &leader)
        .await
        .map(drop)
}

#[test]
fn the_blocks_of_a_page_are_its_commands() {
    let page = "Text.\n\n```sh\none\n  two\n```\n\n```yaml\na: b\n```\n```sh\nthree\n```\n";
    let blocks: Vec<_> = commands(page).map(|block| block.text).collect();
    assert_eq!(blocks, ["one\n  two\n", "three\n"]);
}
