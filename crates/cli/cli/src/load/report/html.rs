//! The report as one HTML page without other files. Pure.

use super::{
    content::{METHOD, Report},
    escaped::escaped,
    svg::{Chart, Line, chart},
    text::{controller_table, table},
};
use crate::load::{
    controllers::{ControllerUse, UsePoint},
    record::ClusterStep,
};

/// System fonts and colours of the reader's preference. The colours of lines differ for people who see few colours, too
/// (Okabe and Ito's palette).
const STYLE: &str = "\
:root{color-scheme:light dark;--text:#1b1f24;--soft:#5b6470;--grid:#d9dee4;--page:#fff;\
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#b8569b;--c4:#a07800;--c5:#3d8fc4}
@media(prefers-color-scheme:dark){:root{--text:#e6e9ed;--soft:#9aa4b0;--grid:#363c44;--page:#15181c;\
--c0:#56b4e9;--c1:#ff8a3d;--c2:#2fcf9f;--c3:#e08ac6;--c4:#f0e442;--c5:#9ad0f5}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--text);background:var(--page);max-width:48rem;margin:2rem auto;\
padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}th,td{padding:.3rem .6rem;text-align:right;border-bottom:1px solid var(--grid)}
th:first-child,td:first-child{text-align:left}th{font-weight:600;color:var(--soft);font-size:.85rem}
.scroll{overflow-x:auto}.soft,figcaption,.legend{color:var(--soft)}.bad{color:var(--c1)}
figure{margin:1.5rem 0}figcaption{font-weight:600}svg{width:100%;height:auto;font-size:12px}
svg text{fill:var(--soft)}.grid{stroke:var(--grid)}.line{fill:none;stroke-width:2}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}.c4{stroke:var(--c4)}.c5{stroke:var(--c5)}
.legend{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.25rem 1rem;margin:.25rem 0}
.key{display:inline-block;width:.8em;height:.8em;margin-right:.4em;border-radius:2px}
.k0{background:var(--c0)}.k1{background:var(--c1)}.k2{background:var(--c2)}.k3{background:var(--c3)}\
.k4{background:var(--c4)}.k5{background:var(--c5)}
";

/// The page.
pub(in crate::load) fn page(report: &Report) -> String {
    let Report {
        settings,
        outcome,
        controllers,
        notes,
        ..
    } = report;
    let title = format!("{} clusters with {} workers", settings.clusters, settings.workers);
    let mut body = format!("<h1>{}</h1>\n", escaped(&title));
    body += &format!(
        "<p>{} of {} clusters available after {:.1} s.</p>\n",
        outcome.available, settings.clusters, outcome.seconds
    );
    if let Some(failure) = &outcome.failure {
        body += &format!("<p class=\"bad\">{}</p>\n", escaped(failure));
    }
    body += &html_table(&table(report));
    body += &format!("<p class=\"soft\">{}</p>\n", escaped(METHOD));
    body += "<h2>Clusters</h2>\n";
    body += &charts_of_clusters(report);
    if !controllers.is_empty() {
        body += "<h2>Controllers</h2>\n";
        body += &html_table(&controller_table(report));
        body += &charts_of_controllers(report);
    }
    for note in notes {
        body += &format!("<p class=\"soft\">{}</p>\n", escaped(note));
    }
    body += "<h2>Run</h2>\n";
    body += &html_table(&facts(report));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n{body}</body>\n</html>\n",
        escaped(&title),
    )
}

/// A table whose first row is its header.
fn html_table(rows: &[Vec<String>]) -> String {
    let mut html = "<div class=\"scroll\"><table>\n".to_owned();
    for (number, row) in rows.iter().enumerate() {
        let element = if number == 0 { "th" } else { "td" };
        let cells = row
            .iter()
            .map(|cell| format!("<{element}>{}</{element}>", escaped(cell)));
        html += &format!("<tr>{}</tr>\n", cells.collect::<String>());
    }
    html + "</table></div>\n"
}

fn charts_of_clusters(report: &Report) -> String {
    let available: Vec<_> = report
        .clusters
        .iter()
        .filter_map(|row| Some((row, row.reached.get(&ClusterStep::Available)?)))
        .collect();
    let since_creation = available.iter().map(|(row, at)| *at - row.created).collect();
    let since_start = available.iter().map(|(_, at)| **at).collect();
    let all = report.settings.clusters as f64;
    let mut charts = chart(&Chart {
        title: "How many clusters were available within a time",
        x: "seconds from the creation of the cluster",
        y: "% of clusters",
        is_count: false,
        lines: vec![Line {
            name: "available",
            points: rising(since_creation, 100.0 / all),
            is_step: true,
        }],
    });
    charts += &chart(&Chart {
        title: "Clusters available over time",
        x: "seconds from the start of the run",
        y: "clusters",
        is_count: true,
        lines: vec![Line {
            name: "available",
            points: rising(since_start, 1.0),
            is_step: true,
        }],
    });
    charts
}

/// A line from zero that rises by `step` at each of the times.
fn rising(mut times: Vec<f64>, step: f64) -> Vec<(f64, f64)> {
    times.sort_by(f64::total_cmp);
    let points = times
        .into_iter()
        .zip(1_u32..)
        .map(|(at, number)| (at, f64::from(number) * step));
    std::iter::once((0.0, 0.0)).chain(points).collect()
}

fn charts_of_controllers(report: &Report) -> String {
    let lines = |value: fn(&UsePoint) -> f64| {
        let line = |controller: &'_ ControllerUse| {
            controller
                .points
                .iter()
                .map(|point| (point.at, value(point)))
                .collect::<Vec<_>>()
        };
        let controllers = report.controllers.iter();
        controllers
            .map(|controller| Line {
                name: &controller.name,
                points: line(controller),
                is_step: false,
            })
            .collect()
    };
    let of = |title, y, lines| {
        chart(&Chart {
            title,
            x: "seconds from the start of the run",
            y,
            is_count: false,
            lines,
        })
    };
    of("CPU", "cores", lines(|point| point.cores))
        + &of("Memory", "MiB resident", lines(|point| point.resident_mib))
}

/// What was asked for, and of whom.
fn facts(report: &Report) -> Vec<Vec<String>> {
    let settings = &report.settings;
    let mut facts = vec![
        ("Started", settings.started.to_string()),
        ("nephele", settings.nephele.clone()),
        ("Management cluster", settings.management.clone()),
        ("Namespace", settings.namespace.clone()),
        ("Flavor", settings.flavor.clone()),
        ("Clusters", settings.clusters.to_string()),
        (
            "Control plane machines of each",
            settings.control_plane.to_string(),
        ),
        ("Workers of each", settings.workers.to_string()),
        ("Kubernetes version", settings.kubernetes_version.clone()),
        ("Clusters created at a time", settings.parallel.to_string()),
    ];
    if let Some(deletion) = report.outcome.deletion_seconds {
        facts.push(("Seconds until all was deleted", format!("{deletion:.1}")));
    }
    let header = vec!["Setting".to_owned(), "Value".to_owned()];
    let rows = facts
        .into_iter()
        .map(|(name, value)| vec![name.to_owned(), value]);
    std::iter::once(header).chain(rows).collect()
}
