//! Queries of Prometheus, in the dashboard and in the alerts: what they name has to exist.
//!
//! ```text
//!  query ──read──▶ metrics with the labels they are selected by, labels that results are grouped by
//!                     │
//!  page of the metrics ──▶ mistakes: a name or a label that the manager does not have
//! ```
//!
//! This is no parser of the language: it knows nothing of types and of what functions take.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;

use crate::{files, paths};

/// Metrics that are not the manager's own: Prometheus', and those of any process.
const OTHERS: [&str; 3] = ["up", "process_cpu_seconds_total", "process_resident_memory_bytes"];
/// Labels that a series has from where Prometheus read it.
const OF_TARGET: [&str; 4] = ["instance", "job", "namespace", "pod"];
/// Words before a list of labels.
const GROUPING: [&str; 4] = ["by", "without", "on", "ignoring"];
/// Words between two operands.
const OPERATORS: [&str; 4] = ["and", "or", "unless", "bool"];

/// The metrics of the manager, each with its labels.
pub(crate) struct Metrics(BTreeMap<String, BTreeSet<String>>);

impl Metrics {
    /// Those of the page in the book, which is made from the sources.
    pub(crate) fn of_the_page() -> anyhow::Result<Self> {
        let page = paths::repository().join("docs/src/reference/metrics.md");
        let page = files::read(&page).context("failed to read the page of the metrics")?;
        let ticked = |cell: &str| -> BTreeSet<String> {
            let pieces = cell.split('`').skip(1).step_by(2);
            pieces.map(str::to_owned).collect()
        };
        let rows = page.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split('|');
            let name = cells.next()?.trim().trim_end_matches('`').to_owned();
            Some((name, ticked(cells.next()?)))
        });
        Ok(Self(rows.collect()))
    }

    /// The labels of a metric, or of the histogram that it is a part of. `None` when there is no such metric.
    fn labels(&self, name: &str) -> Option<BTreeSet<&str>> {
        let of_target = || BTreeSet::from(OF_TARGET);
        if OTHERS.contains(&name) {
            return Some(of_target());
        }
        let buckets = name.strip_suffix("_bucket");
        let own = self.0.get(buckets.unwrap_or(name))?;
        let own = own.iter().map(String::as_str).chain(buckets.map(|_| "le"));
        Some(own.chain(of_target()).collect())
    }

    /// What a query names and the manager does not have.
    pub(crate) fn mistakes(&self, query: &str) -> Vec<String> {
        let Query { selected, grouped } = read(query);
        let mut mistakes = Vec::new();
        let mut known = BTreeSet::from(OF_TARGET);
        for (metric, labels) in selected {
            let Some(has) = self.labels(metric) else {
                mistakes.push(format!("no metric {metric}"));
                continue;
            };
            let missing = labels.iter().filter(|label| !has.contains(*label));
            mistakes.extend(missing.map(|label| format!("{metric} has no label {label}")));
            known.extend(has);
        }
        let missing = grouped.iter().filter(|label| !known.contains(*label));
        mistakes.extend(missing.map(|label| format!("no metric has the label {label}")));
        mistakes
    }

    /// The labels of what a query returns: those that it groups by, or else those of its metrics.
    pub(crate) fn result_labels(&self, query: &str) -> BTreeSet<String> {
        let Query { selected, grouped } = read(query);
        let of_metrics = || {
            selected
                .iter()
                .filter_map(|(metric, _)| self.labels(metric))
                .flatten()
        };
        let labels: BTreeSet<&str> = if grouped.is_empty() {
            of_metrics().collect()
        } else {
            grouped
        };
        labels.into_iter().map(str::to_owned).collect()
    }
}

/// What a query names.
#[derive(Debug, PartialEq, Eq)]
struct Query<'a> {
    /// Metrics, each with the labels in its braces.
    selected: Vec<(&'a str, Vec<&'a str>)>,
    grouped: BTreeSet<&'a str>,
}

fn read(query: &str) -> Query<'_> {
    let tokens = tokens(query);
    let mut read = Query {
        selected: Vec::new(),
        grouped: BTreeSet::new(),
    };
    let mut place = Place::Expression;
    for (index, token) in tokens.iter().copied().enumerate() {
        let next = tokens.get(index + 1).copied().unwrap_or_default();
        place = match (place, token) {
            (Place::Expression, "{") => Place::Matchers,
            (Place::Expression, word) if GROUPING.contains(&word) => Place::Grouping,
            (Place::Matchers, "}") | (Place::Grouping, ")") => Place::Expression,
            (Place::Matchers, word) if is_name(word) => {
                if let Some((_, labels)) = read.selected.last_mut() {
                    labels.push(word);
                }
                place
            }
            (Place::Grouping, word) if is_name(word) => {
                read.grouped.insert(word);
                place
            }
            (Place::Expression, word) if is_name(word) => {
                let is_function = next == "(" || GROUPING.contains(&next);
                if !is_function && !OPERATORS.contains(&word) {
                    read.selected.push((word, Vec::new()));
                }
                place
            }
            _ => place,
        };
    }
    read
}

/// Where in a query a word is.
#[derive(Clone, Copy)]
enum Place {
    Expression,
    Matchers,
    Grouping,
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// Words and signs, without texts in quotes and ranges in brackets.
fn tokens(query: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = query;
    while let Some(first) = rest.chars().next() {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':' || c == '.';
        let end = match first {
            '"' => {
                1 + rest
                    .get(1..)
                    .and_then(|text| text.find('"'))
                    .map_or(0, |at| at + 1)
            }
            '[' => rest.find(']').map_or(1, |at| at + 1),
            c if is_part(c) => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        if !token.starts_with(['"', '[', ' ']) {
            tokens.push(token);
        }
        rest = after;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_without_what_stands_in_quotes_and_brackets() {
        let query = "histogram_quantile(0.9, sum by (le, verb) (rate(a_bucket{code=~\"[45]..|x_y\", b!=\"\"}[5m]))) \
                     / 2 > 0.1 unless on (namespace) up == 1 or c_total";
        let expected = Query {
            selected: vec![
                ("a_bucket", vec!["code", "b"]),
                ("up", vec![]),
                ("c_total", vec![]),
            ],
            grouped: ["le", "namespace", "verb"].into(),
        };
        assert_eq!(read(query), expected);
    }

    #[test]
    fn a_name_and_a_label_that_the_manager_does_not_have_are_told() {
        let metrics = Metrics::of_the_page().expect("the page");
        for (query, mistakes) in [
            (
                "sum by (verb) (rate(nephele_workload_requests_total{code=\"500\", pod=\"a\"}[1m]))",
                &[][..],
            ),
            (
                "histogram_quantile(0.9, sum by (le) (rate(nephele_engine_lock_seconds_bucket[1m])))",
                &[],
            ),
            ("nephele_machine_total > 1", &["no metric nephele_machine_total"]),
            (
                "absent(nephele_machines{zone=\"a\"})",
                &["nephele_machines has no label zone"],
            ),
            (
                "sum by (zone) (nephele_machines)",
                &["no metric has the label zone"],
            ),
        ] {
            assert_eq!(metrics.mistakes(query), mistakes, "{query}");
        }
    }
}
