use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher;
use nephele_api::labels;

/// The label that assigns an object to one of several managers (Cluster API, `--watch-filter`).
pub const WATCH_FILTER_LABEL: &str = "cluster.x-k8s.io/watch-filter";

/// The label that assigns an object to a manager, if it has one, for an object that it owns: the manager that reconciles
/// the one also reconciles the other.
#[must_use]
pub fn watch_filter_label(owner: &ObjectMeta) -> Option<(String, String)> {
    let value = labels::value(owner, WATCH_FILTER_LABEL)?;
    Some((WATCH_FILTER_LABEL.to_owned(), value.to_owned()))
}

/// Selects the objects of this manager: those whose label has this value, or all objects without a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchFilter(Option<String>);

impl WatchFilter {
    /// A filter for the given value of `--watch-filter`; `None` and the empty text select every object, labelled or
    /// not.
    #[must_use]
    pub fn new(value: Option<&str>) -> Self {
        Self(value.filter(|value| !value.is_empty()).map(str::to_owned))
    }

    /// The filter as a label selector. None without a value.
    #[must_use]
    pub fn selector(&self) -> Option<String> {
        self.0
            .as_ref()
            .map(|value| format!("{WATCH_FILTER_LABEL}={value}"))
    }

    /// The filter as a label selector of a watch, so that the API server does not send other managers' objects.
    #[must_use]
    pub fn watch_config(&self) -> watcher::Config {
        let config = watcher::Config::default();
        match self.selector() {
            Some(selector) => config.labels(&selector),
            None => config,
        }
    }

    /// Whether the object belongs to this manager.
    #[must_use]
    pub fn matches(&self, meta: &ObjectMeta) -> bool {
        let Some(wanted) = &self.0 else { return true };
        meta.labels
            .as_ref()
            .and_then(|labels| labels.get(WATCH_FILTER_LABEL))
            == Some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn labelled(value: &str) -> ObjectMeta {
        ObjectMeta {
            labels: Some(BTreeMap::from([(
                WATCH_FILTER_LABEL.to_owned(),
                value.to_owned(),
            )])),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn no_value_takes_every_object() {
        for filter in [WatchFilter::new(None), WatchFilter::new(Some(""))] {
            assert!(filter.matches(&labelled("blue")));
            assert!(filter.matches(&ObjectMeta::default()));
            assert_eq!(filter.watch_config().label_selector, None);
        }
    }

    #[test]
    fn a_value_takes_only_objects_labelled_with_it() {
        let filter = WatchFilter::new(Some("blue"));
        assert!(filter.matches(&labelled("blue")));
        assert!(!filter.matches(&labelled("green")));
        assert!(!filter.matches(&ObjectMeta::default()));
        let selector = filter.watch_config().label_selector;
        assert_eq!(selector.as_deref(), Some("cluster.x-k8s.io/watch-filter=blue"));
    }
}
