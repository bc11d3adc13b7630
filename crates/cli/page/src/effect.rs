//! The name of what a Fault does.

use nephele_model::FaultEffect;
use serde_json::Value;

/// The name of an effect, such as `fail` or `apiServer.errors`.
#[must_use]
pub fn effect_name(effect: &FaultEffect) -> String {
    let effect = serde_json::to_value(effect).unwrap_or_default();
    let names: Vec<_> = effect
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys())
        .cloned()
        .collect();
    let inner = names
        .first()
        .map(|name| &effect[name])
        .filter(|_| names.len() == 1);
    // What an API server, load balancer or etcd does is one level deeper.
    let is_one = |inner: &&Value| inner.as_object().is_some_and(|fields| fields.len() == 1);
    match inner
        .filter(is_one)
        .and_then(Value::as_object)
        .and_then(|fields| fields.iter().next())
    {
        Some((field, Value::Object(_))) => format!("{}.{field}", names[0]),
        _ => names.join(","),
    }
}
