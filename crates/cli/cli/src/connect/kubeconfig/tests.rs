use super::*;

/// As the manager writes it into the Secret.
const SECRET: &str = r#"{"apiVersion": "v1", "kind": "Config", "preferences": {}, "current-context": "demo-admin@demo",
    "clusters": [{"name": "demo", "cluster": {
        "server": "https://nephele-workload.nephele-system.svc:20000", "certificate-authority-data": "Q0E="}}],
    "contexts": [{"name": "demo-admin@demo", "context": {"cluster": "demo", "user": "demo-admin"}}],
    "users": [{"name": "demo-admin", "user": {"client-certificate-data": "Qw==", "client-key-data": "Sw=="}}]}"#;

/// With things that we do not know.
const OF_USER: &str = "\
apiVersion: v1
kind: Config
clusters:
- name: kind
  cluster:
    server: https://127.0.0.1:6443
users:
- name: kind
  user:
    exec:
      command: login
contexts:
- name: kind
  context:
    cluster: kind
    user: kind
current-context: kind
some-program:
  it: keeps
";

fn entry(name: &str, port: u16) -> Entry {
    Entry::new(SECRET, name, ([127, 0, 0, 1], port).into()).expect("a kubeconfig")
}

#[test]
fn kubeconfig_of_a_cluster_leads_to_the_local_port() {
    let text = entry("default-demo", 20_001).alone().expect("YAML");
    let config = kube::config::Kubeconfig::from_yaml(&text).expect("a kubeconfig");
    assert_eq!(config.current_context.as_deref(), Some("default-demo"));
    let context = config.contexts[0].context.as_ref().expect("a context");
    assert_eq!(
        (context.cluster.as_str(), context.user.as_deref()),
        ("default-demo", Some("default-demo"))
    );
    let cluster = config.clusters[0].cluster.as_ref().expect("a cluster");
    assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:20001"));
    assert_eq!(cluster.certificate_authority_data.as_deref(), Some("Q0E="));
    assert!(
        config.auth_infos[0]
            .auth_info
            .as_ref()
            .is_some_and(|user| user.client_key_data.is_some())
    );
}

#[test]
fn what_could_harm_the_user_is_refused_by_name_and_the_rest_is_left_out() {
    let with = |place: &str, field: &str| SECRET.replace(place, &format!("{place} {field},"));
    let hostile = with(
        "\"user\": {",
        r#""exec": {"command": "sh", "args": ["-c", "touch owned"]}"#,
    );
    let error = Entry::new(&hostile, "default-demo", ([127, 0, 0, 1], 20_001).into()).expect_err("refused");
    assert_eq!(
        nephele_controller::chain(&error),
        "failed to use the kubeconfig of its Secret: its user has exec, which a kubeconfig of a workload cluster must \
         not have"
    );
    let harmless = with("\"user\": {", r#""as": "admin""#);
    let harmless = harmless.replace("\"cluster\": {", r#""cluster": {"proxy-url": "http://p","#);
    assert_eq!(
        Entry::new(&harmless, "default-demo", ([127, 0, 0, 1], 20_001).into()).expect("a kubeconfig"),
        entry("default-demo", 20_001)
    );
}

#[test]
fn merged_and_removed_the_file_is_as_before() {
    let entries = [entry("default-demo", 20_001), entry("default-other", 20_002)];
    let merged = entries
        .iter()
        .try_fold(OF_USER.to_owned(), |text, entry| entry.merged_into(&text));
    let merged = merged.expect("a kubeconfig");
    let config = kube::config::Kubeconfig::from_yaml(&merged).expect("a kubeconfig");
    assert_eq!(config.current_context.as_deref(), Some("kind"));
    let names: Vec<_> = config
        .contexts
        .iter()
        .map(|context| context.name.as_str())
        .collect();
    assert_eq!(names, ["kind", "default-demo", "default-other"]);
    assert_eq!(
        without(&merged, &entries).expect("a kubeconfig").as_deref(),
        Some(OF_USER)
    );
}

#[test]
fn what_others_wrote_meanwhile_stays() {
    let entry = entry("default-demo", 20_001);
    let merged = entry.merged_into(OF_USER).expect("a kubeconfig");
    let changed = merged.replace("it: keeps", "it: changed");
    let left = without(&changed, std::slice::from_ref(&entry))
        .expect("a kubeconfig")
        .expect("a change");
    assert_eq!(left, OF_USER.replace("it: keeps", "it: changed"));
    assert_eq!(without(OF_USER, &[entry]).expect("a kubeconfig"), None);
}

#[test]
fn context_of_the_user_is_current_again() {
    let entry = entry("default-demo", 20_001);
    let merged = entry.merged_into(OF_USER).expect("a kubeconfig");
    let switched = merged.replace("current-context: kind", "current-context: default-demo");
    assert_eq!(
        without(&switched, &[entry]).expect("a kubeconfig").as_deref(),
        Some(OF_USER)
    );
}

#[test]
fn entry_of_an_earlier_run_is_replaced_and_its_end_leaves_ours_alone() {
    let old = entry("default-demo", 20_001);
    let new = entry("default-demo", 20_009);
    let merged = old
        .merged_into(OF_USER)
        .and_then(|text| new.merged_into(&text))
        .expect("a kubeconfig");
    assert!(merged.contains("https://127.0.0.1:20009") && !merged.contains("https://127.0.0.1:20001"));
    assert_eq!(without(&merged, &[old]).expect("a kubeconfig"), None);
    assert_eq!(
        without(&merged, &[new]).expect("a kubeconfig").as_deref(),
        Some(OF_USER)
    );
}

#[test]
fn entry_of_another_owner_is_not_replaced() {
    let error = entry("kind", 20_001).merged_into(OF_USER).expect_err("taken");
    assert!(matches!(error, KubeconfigError::Taken(name) if name == "kind"));
}

#[test]
fn empty_files_become_kubeconfigs_and_others_are_refused() {
    for text in ["", "apiVersion: v1\nkind: Config\nclusters: null\nusers: []\n"] {
        let merged = entry("a-b", 1).merged_into(text).expect("a kubeconfig");
        assert_eq!(
            kube::config::Kubeconfig::from_yaml(&merged)
                .expect("a kubeconfig")
                .contexts
                .len(),
            1
        );
    }
    for text in ["[]", "clusters: 3", "{"] {
        assert!(entry("a-b", 1).merged_into(text).is_err(), "{text}");
    }
    assert!(Entry::new("{}", "a-b", ([127, 0, 0, 1], 1).into()).is_err());
}
