//! Quantiles of what was measured.

/// The median of sorted values. For an even number of values, the lower one in the middle.
pub(super) fn middle<T: Copy + Default>(sorted: &[T]) -> T {
    quantile(sorted, 50)
}

/// The percentile of the sorted values: the smallest value that this percentage of the values does not exceed.
pub(super) fn quantile<T: Copy + Default>(sorted: &[T], percent: usize) -> T {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_nothing_is_nothing() {
        assert_eq!(middle::<i64>(&[]), 0);
        assert_eq!((middle(&[7]), middle(&[1, 2]), middle(&[1, 2, 3])), (7, 1, 2));
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values: Vec<_> = (1..=200).collect();
        assert_eq!(
            (
                quantile(&values, 50),
                quantile(&values, 99),
                quantile(&values, 100)
            ),
            (100, 198, 200)
        );
        assert_eq!(quantile(&[5], 99), 5);
    }
}
