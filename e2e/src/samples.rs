//! Metrics in the text format of Prometheus, as servers write them.

/// A sample with labels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample<'a> {
    /// The name of the metric.
    pub name: &'a str,
    labels: &'a str,
    pub value: f64,
}

impl<'a> Sample<'a> {
    /// Parses a line; `None` when it has no labels, or is not a sample.
    #[must_use]
    pub fn read(line: &'a str) -> Option<Self> {
        let (name, rest) = line.split_once('{')?;
        let (labels, value) = rest.rsplit_once("} ")?;
        // Values are written as Go writes floating point numbers.
        Some(Self {
            name,
            labels,
            value: value.parse().ok()?,
        })
    }

    /// The value of a label; `None` without the label.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&'a str> {
        let value = self.labels.match_indices(name).find_map(|(at, _)| {
            let begins = at == 0 || self.labels[..at].ends_with(',');
            let value = self.labels[at + name.len()..].strip_prefix("=\"")?;
            begins.then_some(value)
        })?;
        value.split_once('"').map(|(value, _)| value)
    }

    /// The value of a label; empty without the label, which is the same to Prometheus.
    #[must_use]
    pub fn label(&self, name: &str) -> &'a str {
        self.find(name).unwrap_or_default()
    }
}

/// Every sample with labels. Lines that cannot be parsed are skipped.
pub fn samples(metrics: &str) -> impl Iterator<Item = Sample<'_>> {
    metrics.lines().filter_map(Sample::read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_labels_by_their_whole_names() {
        let text =
            "# HELP a text\nplain 4\na{subresource=\"status\",resource=\"claims\"} 1.5e+02\na{} nonsense\n";
        let found: Vec<_> = samples(text)
            .map(|sample| {
                (
                    sample.name,
                    sample.label("resource"),
                    sample.find("source"),
                    sample.value,
                )
            })
            .collect();
        assert_eq!(found, [("a", "claims", None, 150.0)]);
    }
}
