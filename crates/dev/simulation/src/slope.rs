//! The growth of a figure between measurements, despite noise.

/// The median of the slopes between all pairs of measurements (Theil-Sen), which a few outliers do not change. Zero for
/// less than two measurements.
#[must_use]
pub(crate) fn of(measured: &[f64]) -> f64 {
    let mut slopes: Vec<_> = (0..measured.len())
        .flat_map(|later| (0..later).map(move |earlier| (earlier, later)))
        .map(|(earlier, later)| (measured[later] - measured[earlier]) / (later - earlier) as f64)
        .collect();
    slopes.sort_by(f64::total_cmp);
    slopes.get(slopes.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: f64 = 1024.0;
    /// The noise of a quiet manager, around 30 MiB.
    const NOISE: [f64; 6] = [31.0, -62.0, 85.0, -40.0, 12.0, 97.0];
    const CLUSTERS: f64 = 4.0;

    fn with_leak(of_cluster: f64) -> Vec<f64> {
        let round = |(number, noise): (usize, &f64)| {
            30_720.0 * KIB + noise * KIB + number as f64 * of_cluster * CLUSTERS
        };
        NOISE.iter().enumerate().map(round).collect()
    }

    #[test]
    fn a_leak_of_20_kib_a_cluster_is_told_from_noise() {
        assert!(of(&with_leak(0.0)) / CLUSTERS < 10.0 * KIB);
        assert!(of(&with_leak(20.0 * KIB)) / CLUSTERS > 10.0 * KIB);
    }

    #[test]
    fn one_measurement_that_is_off_does_not_count() {
        let mut measured: Vec<_> = (0..7).map(|number| 2.0 * f64::from(number)).collect();
        measured[3] = 1e9;
        assert!((of(&measured) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_grows_where_nothing_was_measured_twice() {
        assert!(of(&[]).abs() < f64::EPSILON && of(&[7.0]).abs() < f64::EPSILON);
    }
}
