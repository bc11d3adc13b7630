use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// All fields of a cluster in client-go (`tools/clientcmd/api/v1/types.go`).
const CLUSTER: [&str; 9] = [
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority",
    AUTHORITY,
    "proxy-url",
    "disable-compression",
    "extensions",
    // Not one of the API, as any other name.
    "Server",
];

/// All fields of a user.
const USER: [&str; 17] = [
    "client-certificate",
    "client-certificate-data",
    "client-key",
    "client-key-data",
    "token",
    "tokenFile",
    "as",
    "as-uid",
    "as-groups",
    "as-user-extra",
    "username",
    "password",
    "auth-provider",
    "exec",
    "extensions",
    "Exec",
    "<<",
];

/// A value that a hostile writer may give to any field, whatever its type.
fn hostile() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        Just(json!("a: {exec: {command: sh}}\n---\n- &a *a")),
        Just(json!("/etc/shadow")),
        Just(json!("\u{1b}[2J\u{7}")),
        Just(
            json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
            "args": ["-c", "touch owned"], "interactiveMode": "Never"})
        ),
        Just(json!({"name": "gcp", "config": {"cmd-path": "sh"}})),
        Just(json!([{"name": "nephele.dev/connect", "extension": {"previous-context": "mine"}}])),
    ]
}

fn object(fields: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let some = prop::collection::vec((prop::sample::select(fields), hostile()), 0..fields.len());
    some.prop_map(|fields| {
        fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    })
}

fn kubeconfig(cluster: &Value, user: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Config", "preferences": {}, "current-context": "demo-admin@demo",
        "clusters": [{"name": "demo", "cluster": cluster}],
        "contexts": [{"name": "demo-admin@demo", "context": {"cluster": "demo", "user": "demo-admin"}}],
        "users": [{"name": "demo-admin", "user": user}]})
}

fn fields(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect()
}

proptest! {
    #[test]
    fn only_fields_of_the_list_come_out_and_dangers_are_refused_by_name(
        cluster in object(&CLUSTER), user in object(&USER), as_yaml: bool,
    ) {
        let document = kubeconfig(&cluster, &user);
        let text = match as_yaml {
            true => serde_yaml_ng::to_string(&document).expect("YAML"),
            false => document.to_string(),
        };
        let is_set = |object: &Value, field: &str| {
            object.get(field).is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)))
        };
        let dangers = DANGERS_OF_USER.iter().filter(|field| is_set(&user, field));
        let dangers: Vec<_> =
            dangers.chain(DANGERS_OF_CLUSTER.iter().filter(|field| is_set(&cluster, field))).collect();
        match Published::read(&text) {
            Ok(published) => {
                prop_assert_eq!(&dangers, &Vec::<&&str>::new());
                prop_assert_eq!(&json!(published.server), &cluster["server"]);
                prop_assert_eq!(&json!(published.authority), &cluster[AUTHORITY]);
                for (field, value) in &published.credentials {
                    prop_assert!(OF_USER.contains(field));
                    prop_assert_eq!(&json!(value), &user[*field]);
                }
            }
            Err(PublishedError::Dangerous { field, .. }) => {
                prop_assert!(dangers.iter().any(|danger| **danger == field));
            }
            // Not a kubeconfig in the first place.
            Err(error) => {
                prop_assert!(!error.to_string().chars().any(char::is_control));
            }
        }
        if Published::read_whole(&text).is_ok() {
            prop_assert!(fields(&user).iter().all(|field| OF_USER.contains(field)), "{}", user);
            prop_assert!(fields(&cluster).iter().all(|field| OF_CLUSTER.contains(field)), "{}", cluster);
        }
    }

    #[test]
    fn no_text_makes_a_kubeconfig_with_other_fields(text in ".{0,400}") {
        let _ = Published::read(&text);
        let _ = Published::read_whole(&text);
    }
}

#[test]
fn the_kubeconfig_of_cluster_api_is_taken_as_it_is() {
    let text = kubeconfig(
        &json!({"server": "https://h:1", AUTHORITY: "Q0E="}),
        &json!({"client-certificate-data": "Qw==", "client-key-data": "Sw=="}),
    );
    let expected = Published {
        server: "https://h:1".to_owned(),
        authority: Some("Q0E=".to_owned()),
        credentials: vec![
            ("client-certificate-data", "Qw==".to_owned()),
            ("client-key-data", "Sw==".to_owned()),
        ],
    };
    for text in [text.to_string(), serde_yaml_ng::to_string(&text).expect("YAML")] {
        assert_eq!(Published::read_whole(&text), Ok(expected.clone()));
        assert_eq!(Published::read(&text), Ok(expected.clone()));
    }
}

/// Two parsers could take different ones of two fields of the same name.
#[test]
fn what_parsers_may_read_in_different_ways_is_refused() {
    let yaml = |user: &str| {
        format!(
            "current-context: c\nclusters: [{{name: c, cluster: {{server: 'https://h:1'}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers:\n- name: u\n  user: {user}\n"
        )
    };
    assert!(Published::read_whole(&yaml("{token: t}")).is_ok());
    for hostile in [
        "{token: t}\n  user: {exec: {command: sh}}",
        "{token: t, !!binary ZXhlYw==: {command: sh}}",
        "{token: t, ? [exec] : {command: sh}}",
        "{token: t, <<: {exec: {command: sh}}}",
        "{token: t}\nusers: [{name: u, user: {exec: {command: sh}}}]",
        "{token: t}\n---\nusers: []",
    ] {
        assert!(Published::read_whole(&yaml(hostile)).is_err(), "{hostile}");
    }
    let deep = "[".repeat(BYTES_MAX);
    assert!(matches!(Published::read(&deep), Err(PublishedError::Yaml(_))));
    assert_eq!(Published::read(&format!("{deep}[")), Err(PublishedError::TooLong));
}
