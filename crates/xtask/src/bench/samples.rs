//! What an API server says of itself in its metrics.

use anyhow::Context;
use http::Request;
use nephele_e2e::Management;

/// One line of the text format: a name, its labels and a value.
pub(super) struct Sample<'a> {
    pub(super) name: &'a str,
    labels: &'a str,
    pub(super) value: f64,
}

impl<'a> Sample<'a> {
    /// The value of a label; empty without it.
    pub(super) fn label(&self, name: &str) -> &'a str {
        let start = self.labels.match_indices(name).find_map(|(at, _)| {
            let begins = at == 0 || self.labels[..at].ends_with(',');
            let value = self.labels[at + name.len()..].strip_prefix("=\"")?;
            begins.then_some(value)
        });
        start.and_then(|value| value.split('"').next()).unwrap_or_default()
    }
}

/// Every sample that has labels. What cannot be read is left out.
pub(super) fn samples(metrics: &str) -> impl Iterator<Item = Sample<'_>> {
    metrics.lines().filter_map(|line| {
        let (name, rest) = line.split_once('{')?;
        let (labels, value) = rest.rsplit_once("} ")?;
        // Values are written as Go writes floating point numbers.
        Some(Sample { name, labels, value: value.parse().ok()? })
    })
}

/// The metrics as they are now.
pub(super) async fn metrics(management: &Management) -> anyhow::Result<String> {
    let request = Request::get("/metrics").body(Vec::new()).context("failed to write a request")?;
    let text = management.client().request_text(request).await;
    text.context("failed to read the metrics of the API server")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_labels_by_their_whole_names() {
        let text =
            "# HELP a text\nplain 4\na{subresource=\"status\",resource=\"claims\"} 1.5e+02\na{} nonsense\n";
        let found: Vec<_> = samples(text)
            .map(|sample| (sample.name, sample.label("resource"), sample.label("source"), sample.value))
            .collect();
        assert_eq!(found, [("a", "claims", "", 150.0)]);
    }
}
