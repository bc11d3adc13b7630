//! Line charts as inline SVG. Pure.

use std::fmt::Write as _;

use super::escaped::escaped;

/// The most points of a line: more are not seen.
const POINTS_MAX: usize = 400;
/// The colours of lines, as classes of the page's style sheet.
pub(super) const COLOURS: usize = 6;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;
/// Lines of the grid in each direction, besides the axes.
const GRID: u32 = 4;

/// A line chart.
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    /// Whether the values are whole numbers, such as of clusters.
    pub(super) is_count: bool,
    pub(super) lines: Vec<Line<'a>>,
}

/// A line of a chart, from the left to the right.
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    pub(super) points: Vec<(f64, f64)>,
    /// Whether the value stays until the next point.
    pub(super) is_step: bool,
}

/// The chart with its title, and a legend if it has several lines.
pub(super) fn chart(chart: &Chart<'_>) -> String {
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let right = rounded_up(points().map(|point| point.0).fold(0.0, f64::max));
    let highest = points().map(|point| point.1).fold(0.0, f64::max);
    let top = if chart.is_count {
        end_of_count(highest)
    } else {
        rounded_up(highest)
    };
    let place = |(x, y): (f64, f64)| {
        (
            LEFT + x / right * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM),
        )
    };
    let mut svg = format!(
        "<figure><figcaption>{}</figcaption>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
        escaped(chart.title),
        escaped(chart.title),
    );
    for number in 0..=GRID {
        let share = f64::from(number) / f64::from(GRID);
        let (x, bottom) = place((right * share, 0.0));
        let (left, y) = place((0.0, top * share));
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{left:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            WIDTH - RIGHT,
            left - 6.0,
            y + 4.0,
            number_text(top * share),
            bottom + 16.0,
            number_text(right * share),
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text transform=\"translate(12 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 8.0,
        escaped(chart.x),
        (TOP + HEIGHT - BOTTOM) / 2.0,
        escaped(chart.y),
    );
    for (number, line) in chart.lines.iter().enumerate() {
        let corners = with_steps(&thinned(&line.points), line.is_step);
        let corners = corners
            .into_iter()
            .map(place)
            .map(|(x, y)| format!("{x:.1},{y:.1}"));
        let _ = writeln!(
            svg,
            "<polyline class=\"line c{}\" points=\"{}\"/>",
            number % COLOURS,
            corners.collect::<Vec<_>>().join(" "),
        );
    }
    svg.push_str("</svg>\n");
    if chart.lines.len() > 1 {
        svg.push_str("<ul class=\"legend\">");
        for (number, line) in chart.lines.iter().enumerate() {
            let _ = write!(
                svg,
                "<li><span class=\"key k{}\"></span>{}</li>",
                number % COLOURS,
                escaped(line.name)
            );
        }
        svg.push_str("</ul>\n");
    }
    svg.push_str("</figure>\n");
    svg
}

/// Not more points than [`POINTS_MAX`] and the last one.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let every = points.len().div_ceil(POINTS_MAX).max(1);
    let mut thinned: Vec<_> = points.iter().copied().step_by(every).collect();
    if let Some(last) = points.last()
        && thinned.last() != Some(last)
    {
        thinned.push(*last);
    }
    thinned
}

/// The corners of a line whose value stays until the next point.
fn with_steps(points: &[(f64, f64)], is_step: bool) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::with_capacity(points.len() * 2);
    for &(x, y) in points {
        if let Some(&(_, before)) = corners.last().filter(|_| is_step) {
            corners.push((x, before));
        }
        corners.push((x, y));
    }
    corners
}

/// The end of an axis: the next of 1, 2, 4, 5, 10, 20, … so that quarters have few digits. Never zero.
fn rounded_up(largest: f64) -> f64 {
    if !largest.is_finite() || largest <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(largest.log10().floor());
    let nice = [1.0, 2.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .into_iter()
        .find(|nice| nice * power >= largest);
    nice.unwrap_or(10.0) * power
}

/// The end of an axis of whole numbers, whose quarters are whole numbers, too.
fn end_of_count(largest: f64) -> f64 {
    let mut end = rounded_up(largest);
    while (end / f64::from(GRID)).fract() > 0.0 {
        end = rounded_up(end + 1.0);
    }
    end
}

fn number_text(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        let ends = [0.0, 0.3, 1.0, 7.2, 13.0, 100.0, 4_100.0].map(rounded_up);
        assert_eq!(ends.map(number_text), ["1", "0.4", "1", "8", "20", "100", "5000"]);
    }

    #[test]
    fn quarters_of_counts_are_whole_numbers() {
        let ends = [0.0, 1.0, 4.0, 6.0, 20.0, 50.0, 1_000.0].map(end_of_count);
        assert_eq!(ends.map(number_text), ["4", "4", "4", "8", "20", "60", "1000"]);
    }

    #[test]
    fn line_has_few_points_and_its_last_one() {
        let points: Vec<_> = (0..10_000).map(|x| (f64::from(x), 1.0)).collect();
        let thinned = thinned(&points);
        assert!(thinned.len() <= POINTS_MAX + 1);
        assert_eq!(
            (thinned[0], thinned[thinned.len() - 1]),
            ((0.0, 1.0), (9_999.0, 1.0))
        );
    }

    #[test]
    fn value_of_a_step_stays_until_the_next_point() {
        let points = [(0.0, 0.0), (2.0, 1.0)];
        assert_eq!(with_steps(&points, true), [(0.0, 0.0), (2.0, 0.0), (2.0, 1.0)]);
        assert_eq!(with_steps(&points, false), points);
    }

    #[test]
    fn names_are_escaped() {
        let lines = || {
            vec![Line {
                name: "<b>",
                points: vec![(0.0, 0.0), (1.0, 2.0)],
                is_step: false,
            }]
        };
        let two = lines().into_iter().chain(lines()).collect();
        let svg = chart(&Chart {
            title: "a & \"b\"",
            x: "<x>",
            y: "'y'",
            is_count: false,
            lines: two,
        });
        assert!(
            svg.contains("a &amp; &quot;b&quot;") && svg.contains("&lt;x&gt;"),
            "{svg}"
        );
        assert!(
            !svg.contains("<b>") && !svg.contains("<x>") && !svg.contains("'y'"),
            "{svg}"
        );
    }
}
