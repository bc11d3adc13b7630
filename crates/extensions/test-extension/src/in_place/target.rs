//! The software that a machine has to run, according to its desired objects. Pure.

use std::{collections::BTreeMap, fmt::Write as _};

use nephele_api::infrastructure::v1beta2::update::{Files, Software};
use nephele_runtime_sdk::{hooks::UpdateMachineRequestObjects, wire::Object};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::groups::BOOTSTRAP_GROUP;

/// The path of the tag of etcd's image in the spec of a KubeadmConfig.
pub(super) const ETCD_IMAGE_TAG: [&str; 4] = ["clusterConfiguration", "etcd", "local", "imageTag"];

/// The most files that are shown, of the 200 that a KubeadmConfig may have. With paths of at most 512 characters they
/// are 40 KB. They are written twice into annotations, which may have 256 KB together.
const SHOWN_MAX: usize = 64;

/// The software that a machine with these desired objects has to run. Parts that the objects do not set stay as in
/// `known`.
#[must_use]
pub fn target(desired: &UpdateMachineRequestObjects, known: &Software) -> Software {
    let text = |object: &Object, pointer: &str| object.text(pointer).unwrap_or_default().to_owned();
    let version = text(&desired.machine, "/spec/version");
    let bootstrap = &desired.bootstrap_config;
    let is_kubeadm = bootstrap.group() == BOOTSTRAP_GROUP && bootstrap.kind() == "KubeadmConfig";
    let mut software = Software {
        version: if version.is_empty() {
            known.version.clone()
        } else {
            version
        },
        image: text(&desired.infrastructure_machine, "/spec/image"),
        ..known.clone()
    };
    if is_kubeadm {
        software.etcd_image_tag = text(bootstrap, &format!("/spec/{}", ETCD_IMAGE_TAG.join("/")));
        software.files = Some(files(bootstrap.pointer("/spec/files")));
    }
    software
}

/// The digest of a KubeadmConfig's files, and the files to show.
fn files(listed: Option<&Value>) -> Files {
    let listed = listed
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let contents: BTreeMap<String, String> = listed
        .iter()
        .filter_map(|file| Some((file["path"].as_str()?.to_owned(), content(file))))
        .collect();
    Files {
        // Maps are sorted by key, so the same files always have the same digest.
        digest: digest(&Value::from(listed).to_string()),
        contents: contents.into_iter().take(SHOWN_MAX).collect(),
    }
}

/// The digest of a file's content.
fn content(file: &Value) -> String {
    let secret = &file["contentFrom"]["secret"];
    match (secret["name"].as_str(), secret["key"].as_str()) {
        (Some(name), Some(key)) => format!("secret:{name}/{key}"),
        _ => format!("sha256:{}", digest(file["content"].as_str().unwrap_or_default())),
    }
}

fn digest(text: &str) -> String {
    let mut digits = String::with_capacity(64);
    for byte in Sha256::digest(text.as_bytes()) {
        write!(digits, "{byte:02x}").expect("a String takes all");
    }
    digits
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn desired(version: &str, image: &Value, bootstrap: Value) -> UpdateMachineRequestObjects {
        let object = |value: Value| Object::try_from(value).expect("an object");
        UpdateMachineRequestObjects {
            machine: object(json!({ "kind": "Machine", "spec": { "version": version } })),
            infrastructure_machine: object(json!({ "kind": "InMemoryMachine", "spec": { "image": image } })),
            bootstrap_config: match bootstrap {
                Value::Null => Object::default(),
                spec => object(json!({
                    "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig", "spec": spec,
                })),
            },
        }
    }

    fn known() -> Software {
        let files = Files {
            digest: "d".into(),
            contents: BTreeMap::from([("/a".into(), "sha256:x".into())]),
        };
        Software {
            version: "v1.36.3".into(),
            image: "old".into(),
            etcd_image_tag: "3.5.0-0".into(),
            files: Some(files),
        }
    }

    #[test]
    fn what_objects_say_is_what_is_to_run_and_files_are_shown_by_their_contents() {
        let bootstrap = json!({
            "clusterConfiguration": { "etcd": { "local": { "imageTag": "3.6.8-0" } } },
            "files": [
                { "path": "/etc/motd", "content": "hello" },
                { "path": "/etc/empty", "owner": "root:root" },
                { "path": "/etc/key", "contentFrom": { "secret": { "name": "keys", "key": "one" } } },
            ],
        });
        let found = target(&desired("v1.36.4", &json!("new"), bootstrap), &known());
        let Files { digest, contents } = found.files.clone().expect("the target has files");
        let shown = |path: &str, what: &str| (path.to_owned(), what.to_owned());
        let expected = BTreeMap::from([
            // sha256sum of `hello`, and of an empty file.
            shown(
                "/etc/motd",
                "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
            ),
            shown(
                "/etc/empty",
                "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
            shown("/etc/key", "secret:keys/one"),
        ]);
        assert_eq!((contents, digest.len()), (expected, 64));
        let rest = Software { files: None, ..found };
        let expected = Software {
            version: "v1.36.4".into(),
            image: "new".into(),
            etcd_image_tag: "3.6.8-0".into(),
            files: None,
        };
        assert_eq!(rest, expected);
    }

    #[test]
    fn what_objects_do_not_say_stays_but_for_what_they_took_back() {
        assert_eq!(
            target(&desired("", &Value::Null, Value::Null), &known()),
            Software {
                image: String::new(),
                ..known()
            }
        );
        let none = target(&desired("", &json!("old"), json!({})), &known());
        let nothing = digest("[]");
        let files = Some(Files {
            digest: nothing,
            contents: BTreeMap::new(),
        });
        assert_eq!(
            none,
            Software {
                etcd_image_tag: String::new(),
                files,
                ..known()
            }
        );
        // As in Go, a null list is an empty list.
        let null = json!({ "files": null, "clusterConfiguration": null });
        assert_eq!(target(&desired("", &json!("old"), null), &known()), none);
    }

    #[test]
    fn every_field_of_a_file_changes_the_digest_and_their_order_does_not() {
        let files = |file: Value| files(Some(&json!([file])));
        let one = files(json!({ "path": "/a", "content": "x", "permissions": "0600" }));
        assert_eq!(
            one,
            files(json!({ "permissions": "0600", "content": "x", "path": "/a" }))
        );
        let other = files(json!({ "path": "/a", "content": "x", "permissions": "0644" }));
        assert_eq!(one.contents, other.contents);
        assert_ne!(one.digest, other.digest);
    }

    #[test]
    fn no_more_are_shown_than_annotations_hold() {
        let file = |index: usize| json!({ "path": format!("/{index:0511}"), "content": "x" });
        let many: Vec<Value> = (0..200).map(file).collect();
        let Files { contents, .. } = files(Some(&many.into()));
        assert_eq!(contents.len(), 64);
        let bytes = serde_json::to_string(&contents).expect("texts").len();
        assert!(bytes < 45_000, "{bytes}");
    }
}
