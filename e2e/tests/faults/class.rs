//! A class on a real cluster: each person has the files that the teacher hands out, and nothing else.

use anyhow::ensure;
use nephele_e2e::{Look, Scope, manager::Provider, shell::Shell, until, wait::LIMIT};

use crate::lifecycle::chapters::shell;

#[tokio::test]
async fn a_person_of_a_class_has_one_namespace_and_what_is_needed_there() -> anyhow::Result<()> {
    // Its name is of this run alone.
    let scope = Scope::new("class").await?;
    let class = format!("{}-of", scope.namespace);
    let teacher = shell("class")?;
    let said = teacher
        .run(&format!(
            "nephele workshop class --people 2 --name {class} --folder files"
        ))
        .await?;
    let begin = format!(
        "Namespaces {class}-01 to {class}-02. Their kubeconfigs and tokens are in files, and are valid until "
    );
    ensure!(said.starts_with(&begin), "{said}");
    // The same command again makes the files again.
    teacher
        .run(&format!(
            "nephele workshop class --people 2 --name {class} --folder files"
        ))
        .await?;
    let own = format!("{class}-01");
    let other = format!("{class}-02");
    let student = shell("student")?.with(
        "KUBECONFIG",
        teacher.folder().join(format!("files/{own}.kubeconfig")),
    );

    student
        .run(
            "nephele workshop start 1 && eval \"$(nephele workshop solution 1)\" && nephele workshop check 1",
        )
        .await?;
    // The commands are those of the chapters: the token lies beside the kubeconfig, which has the namespace.
    let journal = student.run("nephele journal show").await?;
    ensure!(journal.contains("CreateInstance"), "{journal}");
    let top = student.run("nephele top --once").await?;
    ensure!(top.contains("demo"), "{top}");
    let fault = "nephele fault add notReady --name silent --machines cluster.x-k8s.io/cluster-name=demo && nephele fault heal silent";
    student.run(fault).await?;
    reaches_its_cluster(&student, &own).await?;
    has_its_page(&teacher, &student, &own, &other).await?;
    for refused in [
        format!("kubectl get secrets -n {other}"),
        format!("kubectl get clusters -n {other}"),
        "kubectl get secrets -n nephele-system".to_owned(),
        "kubectl get nodes".to_owned(),
        format!("nephele journal show -n {other}"),
        "nephele journal show -A".to_owned(),
        format!("nephele workshop start 1 -n {other}"),
    ] {
        let answer = student.run(&refused).await;
        let said = answer.err().map(|error| format!("{error:#}"));
        ensure!(said.is_some(), "{refused} is answered");
    }

    let said = teacher
        .run(&format!("nephele workshop class --remove --name {class}"))
        .await?;
    ensure!(
        said.starts_with("2 namespaces and the rights of their people are gone."),
        "{said}"
    );
    let left = teacher
        .run(&format!(
            "kubectl get namespaces,rolebindings -A -l cloud.nephele.dev/workshop-class={class} -o name"
        ))
        .await?;
    ensure!(left.is_empty(), "{left}");
    scope.finish().await
}

/// A person reaches the API server of their cluster by `nephele connect`.
async fn reaches_its_cluster(student: &Shell, namespace: &str) -> anyhow::Result<()> {
    let mut connect = student.start("nephele connect --all --folder clusters")?;
    let nodes = format!("kubectl --kubeconfig clusters/{namespace}-demo.kubeconfig get nodes -o name");
    until("the Nodes of the cluster", LIMIT, async || {
        connect.still_runs()?;
        let said = student
            .run(&nodes)
            .await
            .unwrap_or_else(|error| format!("{error:#}"));
        Ok(Look::when(said.starts_with("node/"), || said))
    })
    .await
}

/// A person signs in to the page of the manager, which shows their namespace and breaks something there, and no other.
async fn has_its_page(teacher: &Shell, student: &Shell, own: &str, other: &str) -> anyhow::Result<()> {
    let provider = Provider::Infrastructure;
    let mut forward = teacher.start(&format!(
        "kubectl port-forward --namespace {} deployment/{} :8444 > forward.log",
        provider.namespace(),
        provider.deployment()
    ))?;
    let port = "sed -n 's/^Forwarding from 127.0.0.1:\\([0-9]*\\) .*/\\1/p' forward.log";
    let mut found = String::new();
    until("the port of the page", LIMIT, async || {
        forward.still_runs()?;
        found = teacher.run(port).await?;
        Ok(Look::when(!found.is_empty(), || "no port".to_owned()))
    })
    .await?;
    let page = format!("https://localhost:{}", found.trim());
    student
        .run("kubectl config view --raw -o jsonpath='{.users[0].user.token}' > token")
        .await?;
    // The certificate is one that the manager made.
    let curl = format!("curl --silent --insecure --cookie jar --cookie-jar jar --header 'Origin: {page}'");
    let sign_in = async |namespace: &str| {
        let form = format!("--data-urlencode token@token --data namespace={namespace}");
        let told = "--output said --write-out '%{http_code} '";
        student
            .run(&format!("{curl} {told} {form} {page}/sign-in && cat said"))
            .await
    };
    let refused = sign_in(other).await?;
    let why = format!("This token may not get inmemoryclusters in namespace {other}.");
    ensure!(refused.starts_with("403 ") && refused.contains(&why), "{refused}");
    let admitted = sign_in(own).await?;
    ensure!(admitted.starts_with("303 "), "{admitted}");
    let cloud = student.run(&format!("{curl} {page}/")).await?;
    let machine = format!("/machine/{own}/demo-");
    ensure!(cloud.contains(&machine) && cloud.contains("Sign out"), "{cloud}");
    ensure!(!cloud.contains(other), "{cloud}");
    until("the journal on the page", LIMIT, async || {
        let records = student.run(&format!("{curl} {page}/timeline.jsonl")).await?;
        ensure!(!records.contains(other), "{records}");
        Ok(Look::when(records.contains("CreateInstance"), || records))
    })
    .await?;

    let palette = format!("{page}/palette/{own}/new?effect=notReady");
    let key = format!(
        "key=$({curl} '{palette}' | sed -n 's/.*name=\"token\" value=\"\\([^\"]*\\)\".*/\\1/p' | head -1)"
    );
    let form = "--data token=$key --data effect=notReady --data for=1m --data act=break";
    student
        .run(&format!(
            "{key}; {curl} --fail {form} {page}/act/palette/{own}/new"
        ))
        .await?;
    let made = student
        .run("kubectl get faults -o jsonpath='{.items[*].metadata.managedFields[?(@.manager==\"nephele-page\")].operation}'")
        .await?;
    ensure!(made.contains("Update"), "{made}");
    student
        .run(&format!("{curl} --request POST {page}/sign-out"))
        .await?;
    let gone = student.run(&format!("{curl} {page}/")).await?;
    ensure!(gone.contains("Sign in") && !gone.contains("demo"), "{gone}");
    Ok(())
}
