//! Whether PodDisruptionBudgets allow an eviction (`kubernetes/pkg/registry/core/pod/storage/eviction.go`, with the
//! counts of `pkg/controller/disruption`).

use http::StatusCode;
use serde_json::{Value, json};

use super::{selector::LabelSelector, status::ApiError};
use crate::store::{GroupResource, Object, Store};

/// Refuses when the eviction of `pod` would break its budget.
pub(crate) fn admit(store: &Store, pod: &Object) -> Result<(), ApiError> {
    let value = pod.value();
    // Evicting a pod that has ended, never began or is being deleted disrupts nothing.
    if matches!(
        value["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed" | "Pending")
    ) || pod.is_deleting()
    {
        return Ok(());
    }
    let namespace = Some(&*pod.namespace);
    let budgets = store
        .list(&GroupResource::new("policy", "poddisruptionbudgets"), namespace)
        .objects;
    let budgets: Vec<_> = budgets
        .iter()
        .map(|object| Budget::of(&object.value()))
        .filter(|budget| budget.covers(pod))
        .collect();
    let [budget] = budgets.as_slice() else {
        return if budgets.is_empty() {
            Ok(())
        } else {
            Err(several())
        };
    };
    let pods = store.list(&GroupResource::new("", "pods"), namespace).objects;
    let covered: Vec<_> = pods.iter().filter(|pod| budget.covers(pod)).collect();
    let healthy = covered
        .iter()
        .filter(|pod| !pod.is_deleting() && is_ready(&pod.value()))
        .count();
    let desired = budget.desired(covered.len());
    if !is_ready(&value) && (budget.unhealthy_always || (healthy >= desired && desired > 0)) {
        return Ok(());
    }
    if healthy > desired {
        Ok(())
    } else {
        Err(refusal(&budget.name, desired, healthy))
    }
}

struct Budget {
    name: String,
    /// None selects no pods, an empty selector selects all.
    selector: Option<LabelSelector>,
    min_available: Value,
    max_unavailable: Value,
    unhealthy_always: bool,
}

impl Budget {
    fn of(value: &Value) -> Self {
        let spec = &value["spec"];
        Self {
            name: value["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            selector: spec["selector"]
                .is_object()
                .then(|| LabelSelector::from_object(&spec["selector"])),
            min_available: spec["minAvailable"].clone(),
            max_unavailable: spec["maxUnavailable"].clone(),
            unhealthy_always: spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow",
        }
    }

    fn covers(&self, pod: &Object) -> bool {
        self.selector
            .as_ref()
            .is_some_and(|selector| selector.matches(pod))
    }

    /// How many of `total` pods must be healthy.
    fn desired(&self, total: usize) -> usize {
        if !self.max_unavailable.is_null() {
            total.saturating_sub(share(&self.max_unavailable, total))
        } else {
            share(&self.min_available, total)
        }
    }
}

/// A number, or a percentage of `total`, rounded up.
fn share(value: &Value, total: usize) -> usize {
    let percent = value
        .as_str()
        .and_then(|text| text.strip_suffix('%'))
        .and_then(|text| text.parse::<usize>().ok());
    match percent {
        Some(percent) => total.saturating_mul(percent).div_ceil(100),
        None => value
            .as_u64()
            .and_then(|number| usize::try_from(number).ok())
            .unwrap_or(0),
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    conditions
        .iter()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn refusal(budget: &str, desired: usize, healthy: usize) -> ApiError {
    let mut error = ApiError::new(
        StatusCode::TOO_MANY_REQUESTS,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
    );
    let message =
        format!("The disruption budget {budget} needs {desired} healthy pods and has {healthy} currently");
    error.details = json!({"causes": [{"reason": "DisruptionBudget", "message": message}]});
    error
}

fn several() -> ApiError {
    ApiError::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "InternalError",
        "Internal error occurred: This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_want_numbers_or_shares_rounded_up() {
        let budget = |spec: Value| Budget::of(&json!({"spec": spec}));
        assert_eq!(budget(json!({"minAvailable": 2})).desired(5), 2);
        assert_eq!(budget(json!({"minAvailable": "50%"})).desired(5), 3);
        assert_eq!(budget(json!({"maxUnavailable": "30%"})).desired(5), 3);
        assert_eq!(budget(json!({"maxUnavailable": 7})).desired(5), 0);
        assert_eq!(budget(json!({})).desired(5), 0);
    }
}
