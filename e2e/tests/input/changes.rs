//! Fields that cannot change after creation.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use nephele_e2e::Scope;
use serde_json::{Value, json};

use crate::input::{
    ask::Asker,
    schema::{Kind, kinds, nodes},
};

/// An object, and merge patches of its spec with their refusals. A refusal is `None` if the patch is allowed.
struct Changes {
    kind: &'static str,
    before: Value,
    patches: Vec<(Value, Option<&'static str>)>,
}

fn table() -> Vec<Changes> {
    let host = "spec.controlPlaneEndpoint.host is immutable once set";
    let port = "spec.controlPlaneEndpoint.port is immutable once set";
    let endpoint = |host: Value, port: Value| json!({"controlPlaneEndpoint": {"host": host, "port": port}});
    let set = || json!("cluster.example");
    let provider_id = "spec.providerID is immutable once set";
    let once = "spec.instance.origin is set once for each machine";
    let origin = |cluster: &str, at: &str| json!({"origin": {"cluster": cluster, "created": at}});
    let instance = |machine: &str, origin: Value| json!({"instance": {"machine": machine, "origin": origin}});
    let length = "spec.allocationPrefixLength is immutable";
    let prefixes = json!({"prefixes": ["fd00::/60"], "allocationPrefixLength": 64});
    let of_prefixes = |kind| Changes {
        kind,
        before: prefixes.clone(),
        patches: vec![
            (json!({"allocationPrefixLength": 65}), Some(length)),
            (json!({"prefixes": ["fd00::/59"]}), None),
        ],
    };
    vec![
        Changes {
            kind: "InMemoryCluster",
            before: endpoint(set(), json!(6443)),
            patches: vec![
                (endpoint(json!("other.example"), json!(6443)), Some(host)),
                (endpoint(set(), json!(6444)), Some(port)),
                (endpoint(Value::Null, json!(6443)), None),
                (endpoint(set(), Value::Null), None),
                (json!({"controlPlaneEndpoint": null}), None),
                (endpoint(set(), json!(6443)), None),
            ],
        },
        Changes {
            kind: "InMemoryCluster",
            before: origin("cluster", "2026-01-01T00:00:00Z"),
            patches: vec![
                (
                    origin("cluster", "2026-01-01T00:00:01Z"),
                    Some("spec.origin is set once for each cluster"),
                ),
                (json!({"origin": null}), None),
                (origin("copy", "2026-01-01T00:00:01Z"), None),
            ],
        },
        Changes {
            kind: "InMemoryMachine",
            before: instance("machine", json!({"startTime": "2026-01-01T00:00:00Z"})),
            patches: vec![
                (
                    instance("machine", json!({"startTime": "2026-01-01T00:00:01Z"})),
                    Some(once),
                ),
                (instance("machine", Value::Null), Some(once)),
                (json!({"instance": null}), None),
                (
                    instance("copy", json!({"startTime": "2026-01-01T00:00:01Z"})),
                    None,
                ),
            ],
        },
        Changes {
            kind: "InMemoryMachine",
            before: json!({"providerID": "in-memory://machine"}),
            patches: vec![
                (json!({"providerID": "in-memory://other"}), Some(provider_id)),
                (json!({"providerID": null}), None),
                (json!({"instanceType": "large"}), None),
            ],
        },
        of_prefixes("InClusterPrefixPool"),
        of_prefixes("GlobalInClusterPrefixPool"),
    ]
}

/// Tries all changes in every version of each kind. Fails if a rule about changes is never broken. What the provider filled
/// in stays when an update leaves it out.
pub(crate) async fn check(scope: &Scope) -> anyhow::Result<()> {
    let asker = Asker::new(scope);
    let mut left = rules()?;
    for Changes {
        kind: name,
        before,
        patches,
    } in table()
    {
        for kind in kinds()?.iter().filter(|kind| kind.name == name) {
            asker.make(kind, &before).await?;
            for (patch, told) in &patches {
                let patch = &json!({"spec": patch});
                let answer = asker.change(kind, patch).await?;
                if told.is_none() && leaves_out(patch) {
                    let spec = async || Ok::<_, anyhow::Error>(asker.object(kind).await?["spec"].take());
                    let there = spec().await?;
                    asker.patch(kind, patch).await?;
                    let left = spec().await?;
                    ensure!(left == there, "{kind}: {patch} makes {left} of {there}");
                }
                match (told, &answer) {
                    (None, None) => {}
                    (Some(told), Some(message)) if message.contains(told) => {
                        for ((of, rule), unbroken) in &mut left {
                            if *of == kind.to_string() && message.contains(rule.as_str()) {
                                *unbroken = unbroken.saturating_sub(1);
                            }
                        }
                    }
                    _ => anyhow::bail!("{kind}: {patch} should be told {told:?}, and is {answer:?}"),
                }
            }
            asker.remove(kind).await?;
            gone(&asker, kind).await?;
        }
    }
    left.retain(|_, unbroken| *unbroken > 0);
    ensure!(left.is_empty(), "no change breaks these rules: {left:?}");
    Ok(())
}

/// Whether a merge patch takes a field away.
fn leaves_out(patch: &Value) -> bool {
    match patch {
        Value::Object(fields) => fields.values().any(leaves_out),
        other => other.is_null(),
    }
}

/// An externally managed cluster stays externally managed, in every version and for every kind of request.
pub(crate) async fn stays_elsewhere(scope: &Scope) -> anyhow::Result<()> {
    let asker = Asker::new(scope);
    let told = "metadata.annotations[cluster.x-k8s.io/managed-by]: cannot be removed";
    let annotations = |annotations: Value| json!({"metadata": {"annotations": annotations}});
    let by = "cluster.x-k8s.io/managed-by";
    for kind in kinds()?.iter().filter(|kind| kind.name == "InMemoryCluster") {
        asker.make(kind, &json!({})).await?;
        let free = asker
            .change(kind, &annotations(json!({by: null, "other": "x"})))
            .await?;
        ensure!(free.is_none(), "{kind}: {free:?}");
        asker
            .patch(kind, &annotations(json!({by: "terraform", "other": "x"})))
            .await?;
        for (patch, refused) in [
            (annotations(json!({by: null})), true),
            (annotations(Value::Null), true),
            (annotations(json!({by: ""})), false),
            (annotations(json!({"other": null})), false),
            (
                json!({"spec": {"controlPlaneEndpoint": {"host": "theirs.example", "port": 6443}}}),
                false,
            ),
        ] {
            let dry = asker.change(kind, &patch).await?;
            let is_told = dry.as_ref().is_some_and(|message| message.contains(told));
            ensure!(
                is_told == refused && (is_told || dry.is_none()),
                "{kind}: {patch}: {dry:?}"
            );
        }
        let earnest = asker.patch(kind, &annotations(json!({by: null}))).await;
        ensure!(
            earnest.is_err_and(|error| format!("{error:#}").contains(told)),
            "{kind} was taken away"
        );
        asker.remove(kind).await?;
        gone(&asker, kind).await?;
    }
    Ok(())
}

/// The messages of the rules about changes, by kind, with the number of rules for each message: for instance one for a
/// change and one for a removal, which both have to be broken.
fn rules() -> anyhow::Result<BTreeMap<(String, String), usize>> {
    let mut found = BTreeMap::new();
    for kind in kinds()? {
        for node in nodes(kind.spec()) {
            for rule in node.schema["x-kubernetes-validations"]
                .as_array()
                .into_iter()
                .flatten()
            {
                // A webhook puts back what an update leaves out, so that nothing breaks the rule about that.
                let is_change = |rule: &str| rule.contains("oldSelf") && !rule.starts_with("!has(oldSelf.");
                if rule["rule"].as_str().is_some_and(is_change) {
                    let message = rule["message"].as_str().context("a rule has a message")?;
                    *found.entry((kind.to_string(), message.to_owned())).or_default() += 1;
                }
            }
        }
    }
    ensure!(!found.is_empty(), "no rules");
    Ok(found)
}

/// Waits until the object is gone, because the object of the next version has the same name.
async fn gone(asker: &Asker, kind: &Kind) -> anyhow::Result<()> {
    nephele_e2e::until(
        &format!("{kind} to be gone"),
        nephele_e2e::wait::LIMIT,
        async || {
            let left = asker.change(kind, &json!({})).await?;
            let is_gone = left.as_ref().is_some_and(|message| message.contains("not found"));
            Ok(nephele_e2e::Look::when(is_gone, || format!("{left:?}")))
        },
    )
    .await
}
