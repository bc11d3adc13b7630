//! The Grafana dashboard of the chart, from a table of panels.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

/// The file in the chart.
pub(crate) const FILE: &str = "charts/nephele/files/dashboards/nephele.json";
/// The folder of the file, which contains only generated files.
pub(crate) const FOLDER: &str = "charts/nephele/files/dashboards";

/// Panels in a row of the page, each of the same width. Grafana's grid has 24 columns.
const COLUMNS: usize = 3;
/// The height of a panel, in Grafana's units.
const HEIGHT: usize = 8;

/// A heading with its panels.
struct Section {
    title: &'static str,
    panels: &'static [Panel],
}

/// A graph over time.
struct Panel {
    title: &'static str,
    /// Grafana's name of the unit.
    unit: &'static str,
    /// Queries, each with the legend of its series.
    queries: &'static [(&'static str, &'static str)],
}

const SECTIONS: &[Section] = &[
    Section {
        title: "Simulated cloud",
        panels: &[
            Panel {
                title: "Clusters and machines",
                unit: "short",
                queries: &[
                    ("sum(nephele_clusters)", "clusters"),
                    ("sum(nephele_machines)", "machines"),
                ],
            },
            Panel {
                title: "Machines that have reached a stage",
                unit: "short",
                queries: &[("sum by (stage) (nephele_machine_stages_reached)", "{{stage}}")],
            },
            Panel {
                title: "Operations",
                unit: "ops",
                queries: &[(
                    "sum by (operation) (rate(nephele_cloud_operations_total[$__rate_interval]))",
                    "{{operation}}",
                )],
            },
            Panel {
                title: "Operations refused or delayed",
                unit: "ops",
                queries: &[(
                    "sum by (operation, outcome) \
                     (rate(nephele_cloud_operations_total{outcome!~\"Accepted|AlreadyDone\"}[$__rate_interval]))",
                    "{{operation}} {{outcome}}",
                )],
            },
            Panel {
                title: "Time that operations took, in seconds of the cloud",
                unit: "s",
                queries: &[
                    (
                        "histogram_quantile(0.5, sum by (le, verb) \
                         (rate(nephele_operation_seconds_bucket{stage=\"all\"}[$__rate_interval])))",
                        "{{verb}} p50",
                    ),
                    (
                        "histogram_quantile(0.95, sum by (le, verb) \
                         (rate(nephele_operation_seconds_bucket{stage=\"all\"}[$__rate_interval])))",
                        "{{verb}} p95",
                    ),
                ],
            },
            Panel {
                title: "Time from the creation of a machine to each stage, median, in seconds of the cloud",
                unit: "s",
                queries: &[(
                    "histogram_quantile(0.5, sum by (le, stage) \
                     (rate(nephele_operation_seconds_bucket{verb=\"CreateInstance\"}[$__rate_interval])))",
                    "{{stage}}",
                )],
            },
            Panel {
                title: "Faults",
                unit: "short",
                queries: &[("sum by (effect, phase) (nephele_faults)", "{{effect}} {{phase}}")],
            },
            Panel {
                title: "Cost of an hour",
                unit: "short",
                queries: &[(
                    "sum by (namespace, cloud) (rate(nephele_cloud_cost_total[$__rate_interval])) * 3600",
                    "{{namespace}}/{{cloud}}",
                )],
            },
            Panel {
                title: "Leaked instances and load balancers",
                unit: "short",
                queries: &[
                    (
                        "sum by (namespace, cloud) (nephele_leaked_instances)",
                        "{{namespace}}/{{cloud}} instances",
                    ),
                    (
                        "sum by (namespace, cloud) (nephele_leaked_load_balancers)",
                        "{{namespace}}/{{cloud}} load balancers",
                    ),
                ],
            },
            Panel {
                title: "Quotas, share that is used",
                unit: "percentunit",
                queries: &[(
                    "sum by (namespace, cloud, quota) (nephele_quota{state=\"used\"}) \
                     / sum by (namespace, cloud, quota) (nephele_quota{state=\"limit\"})",
                    "{{namespace}}/{{cloud}} {{quota}}",
                )],
            },
            Panel {
                title: "Machines of a limited stock",
                unit: "short",
                queries: &[(
                    "sum without (pod, instance) (nephele_stock)",
                    "{{namespace}}/{{cloud}} {{zone}} {{instance_type}} {{state}}",
                )],
            },
            Panel {
                title: "Clocks, seconds of the cloud in a second",
                unit: "short",
                queries: &[(
                    "nephele_clock_rate * (1 - nephele_clock_paused)",
                    "{{namespace}}/{{cloud}}",
                )],
            },
            Panel {
                title: "Double creations and missed reads",
                unit: "short",
                queries: &[
                    (
                        "sum by (caller) (increase(nephele_double_creates_total[$__rate_interval]))",
                        "{{caller}} double creations",
                    ),
                    (
                        "sum by (caller) (increase(nephele_missed_reads_total[$__rate_interval]))",
                        "{{caller}} missed reads",
                    ),
                ],
            },
            Panel {
                title: "Time that the engine's lock is held, 99th percentile",
                unit: "s",
                queries: &[(
                    "histogram_quantile(0.99, sum by (le) (rate(nephele_engine_lock_seconds_bucket[$__rate_interval])))",
                    "p99",
                )],
            },
        ],
    },
    Section {
        title: "Workload clusters",
        panels: &[
            Panel {
                title: "Requests",
                unit: "reqps",
                queries: &[(
                    "sum by (verb) (rate(nephele_workload_requests_total[$__rate_interval]))",
                    "{{verb}}",
                )],
            },
            Panel {
                title: "Failed requests",
                unit: "reqps",
                queries: &[(
                    "sum by (code) (rate(nephele_workload_requests_total{code=~\"[45]..\"}[$__rate_interval]))",
                    "{{code}}",
                )],
            },
            Panel {
                title: "Time to answer a request, 99th percentile",
                unit: "s",
                queries: &[(
                    "histogram_quantile(0.99, sum by (le, verb) \
                     (rate(nephele_workload_request_seconds_bucket[$__rate_interval])))",
                    "{{verb}}",
                )],
            },
            Panel {
                title: "Calls of etcd",
                unit: "reqps",
                queries: &[(
                    "sum by (method, code) (rate(nephele_workload_etcd_calls_total[$__rate_interval]))",
                    "{{method}} {{code}}",
                )],
            },
            Panel {
                title: "Connections",
                unit: "short",
                queries: &[
                    ("sum(nephele_workload_connections)", "open"),
                    (
                        "sum(nephele_workload_connections_held)",
                        "waiting for a control plane",
                    ),
                    ("sum(nephele_workload_tunnels)", "port-forwards"),
                ],
            },
        ],
    },
    Section {
        title: "Controllers",
        panels: &[
            Panel {
                title: "Reconciles",
                unit: "ops",
                queries: &[(
                    "sum by (controller) (rate(controller_runtime_reconcile_total[$__rate_interval]))",
                    "{{controller}}",
                )],
            },
            Panel {
                title: "Failed reconciles",
                unit: "ops",
                queries: &[(
                    "sum by (controller, category) (rate(nephele_reconcile_errors_total[$__rate_interval]))",
                    "{{controller}} {{category}}",
                )],
            },
            Panel {
                title: "Objects in the work queue",
                unit: "short",
                queries: &[("sum by (name) (workqueue_depth)", "{{name}}")],
            },
            Panel {
                title: "Requests to the management API",
                unit: "reqps",
                queries: &[(
                    "sum by (method, code) (rate(rest_client_requests_total[$__rate_interval]))",
                    "{{method}} {{code}}",
                )],
            },
            Panel {
                title: "CPU",
                unit: "short",
                queries: &[(
                    "rate(process_cpu_seconds_total{job=~\".*nephele.*\"}[$__rate_interval])",
                    "{{pod}}",
                )],
            },
            Panel {
                title: "Memory",
                unit: "bytes",
                queries: &[
                    (
                        "process_resident_memory_bytes{job=~\".*nephele.*\"}",
                        "{{pod}} resident",
                    ),
                    ("sum by (pod) (nephele_allocated_bytes)", "{{pod}} allocated"),
                ],
            },
        ],
    },
    Section {
        title: "IP address management",
        panels: &[
            Panel {
                title: "Free addresses",
                unit: "short",
                queries: &[("nephele_ipam_pool_addresses_free", "{{namespace}}/{{name}}")],
            },
            Panel {
                title: "Claims that wait",
                unit: "short",
                queries: &[("nephele_ipam_pool_claims_waiting", "{{namespace}}/{{name}}")],
            },
            Panel {
                title: "Claims bound and released",
                unit: "ops",
                queries: &[
                    (
                        "sum(rate(nephele_ipam_claims_bound_total[$__rate_interval]))",
                        "bound",
                    ),
                    (
                        "sum(rate(nephele_ipam_claims_released_total[$__rate_interval]))",
                        "released",
                    ),
                ],
            },
        ],
    },
];

/// The file and its content.
pub(crate) fn generated() -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let text = serde_json::to_string_pretty(&dashboard()).context("failed to write the dashboard")?;
    Ok(BTreeMap::from([(FILE.into(), text + "\n")]))
}

/// Whether a rendered ConfigMap is that of the dashboard.
///
/// # Errors
///
/// When it is, and has another dashboard.
pub(crate) fn is_rendered(map: &Value) -> anyhow::Result<bool> {
    let Some(text) = map["data"]["nephele.json"].as_str() else {
        return Ok(false);
    };
    let rendered: Value = serde_json::from_str(text).context("the rendered dashboard is not JSON")?;
    ensure!(
        rendered == dashboard(),
        "the rendered dashboard differs from {FILE}"
    );
    Ok(true)
}

/// The dashboard, in version 39 of Grafana's schema (Grafana 10 and 11 read it).
fn dashboard() -> Value {
    let mut panels = Vec::new();
    let mut top = 0;
    for section in SECTIONS {
        panels.push(json!({
            "id": panels.len() + 1, "type": "row", "title": section.title, "collapsed": false, "panels": [],
            "gridPos": {"x": 0, "y": top, "w": 24, "h": 1},
        }));
        top += 1;
        for (index, panel) in section.panels.iter().enumerate() {
            let width = 24 / COLUMNS;
            let place = json!({
                "x": index % COLUMNS * width, "y": top + index / COLUMNS * HEIGHT, "w": width, "h": HEIGHT,
            });
            panels.push(graph(panel, panels.len() + 1, &place));
        }
        top += section.panels.len().div_ceil(COLUMNS) * HEIGHT;
    }
    json!({
        "uid": "nephele",
        "title": "Nephele",
        "tags": ["cluster-api", "nephele"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [{
            "name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source",
        }]},
        "panels": panels,
    })
}

fn graph(panel: &Panel, id: usize, place: &Value) -> Value {
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    let targets: Vec<_> = panel
        .queries
        .iter()
        .zip('A'..)
        .map(|((query, legend), name)| {
            json!({
                "refId": name.to_string(), "expr": query, "legendFormat": legend, "datasource": source,
            })
        })
        .collect();
    json!({
        "id": id,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::queries::Metrics;

    #[test]
    fn every_metric_and_label_of_a_panel_exists() {
        let metrics = Metrics::of_the_page().expect("the page of the metrics");
        let panels: Vec<_> = SECTIONS.iter().flat_map(|section| section.panels).collect();
        assert!(panels.len() > 20, "{} panels are too few", panels.len());
        for panel in panels {
            for (query, _) in panel.queries {
                assert_eq!(metrics.mistakes(query), [""; 0], "{}", panel.title);
            }
        }
    }

    #[test]
    fn no_two_panels_are_in_one_place() {
        let dashboard = dashboard();
        let panels = dashboard["panels"].as_array().expect("a list");
        let places: BTreeSet<_> = panels.iter().map(|panel| panel["gridPos"].to_string()).collect();
        let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].to_string()).collect();
        assert_eq!((places.len(), ids.len()), (panels.len(), panels.len()));
    }
}
