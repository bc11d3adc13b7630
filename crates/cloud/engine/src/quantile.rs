//! Quantiles of distributions. They use only the basic operations and square roots, which IEEE 754 defines to the last
//! bit: the logarithms of operating systems differ there, and a seed has to give the same draws on every machine.

use std::f64::consts::{LN_2, SQRT_2};

/// The quantile of the standard normal distribution, by Acklam's rational approximation
/// (<https://web.archive.org/web/20151030215612/http://home.online.no/~pjacklam/notes/invnorm/>). Its relative error is
/// below 1.2e-9: less than a millisecond in a day.
pub(crate) fn normal(probability: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e1,
        2.209460984245205e2,
        -2.759285104469687e2,
        1.383_577_518_672_69e2,
        -3.066479806614716e1,
        2.506628277459239,
    ];
    const B: [f64; 6] = [
        -5.447609879822406e1,
        1.615858368580409e2,
        -1.556989798598866e2,
        6.680131188771972e1,
        -1.328068155288572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-3,
        -3.223964580411365e-1,
        -2.400758277161838,
        -2.549732539343734,
        4.374664141464968,
        2.938163982698783,
    ];
    const D: [f64; 5] = [
        7.784695709041462e-3,
        3.224671290700398e-1,
        2.445134137142996,
        3.754408661907416,
        1.0,
    ];
    /// The end of the lower tail.
    const LOW: f64 = 0.02425;
    /// Draws have 53 bits. Half of the last one keeps the ends away from infinity.
    const LEAST: f64 = 1.0 / (1u64 << 54) as f64;
    let probability = probability.clamp(LEAST, 1.0 - 2.0 * LEAST);
    let tail = |part: f64| {
        let q = (-2.0 * ln(part)).sqrt();
        polynomial(&C, q) / polynomial(&D, q)
    };
    if probability < LOW {
        return tail(probability);
    }
    if probability > 1.0 - LOW {
        return -tail(1.0 - probability);
    }
    let q = probability - 0.5;
    q * polynomial(&A, q * q) / polynomial(&B, q * q)
}

/// The quantile of the lognormal distribution with median 1 and this 99th percentile, at least 1.
pub(crate) fn lognormal(probability: f64, p99: f64) -> f64 {
    /// The 99th percentile of the standard normal distribution.
    const NORMAL_P99: f64 = 2.326_347_874_040_841;
    if p99.is_finite() {
        exp(ln(p99) / NORMAL_P99 * normal(probability))
    } else {
        1.0
    }
}

/// The quantile of the exponential distribution with mean 1.
pub(crate) fn exponential(probability: f64) -> f64 {
    -ln(1.0 - probability)
}

/// The quantile of the triangular distribution with these corners, in order.
pub(crate) fn triangular(probability: f64, [min, mode, max]: [f64; 3]) -> f64 {
    let width = max - min;
    let left = mode - min;
    let right = max - mode;
    if probability * width < left {
        min + (probability * width * left).sqrt()
    } else {
        max - ((1.0 - probability) * width * right).sqrt()
    }
}

/// The polynomial with these coefficients, the highest power first.
fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients
        .iter()
        .fold(0.0, |sum, coefficient| sum * x + coefficient)
}

/// The natural logarithm of a positive, normal number.
fn ln(x: f64) -> f64 {
    /// The bits of a float that hold its fraction.
    const FRACTION: u64 = (1 << 52) - 1;
    /// The bits of the exponent of 1.
    const ONE: u64 = 1023 << 52;
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023;
    let mut mantissa = f64::from_bits((bits & FRACTION) | ONE);
    if mantissa > SQRT_2 {
        (exponent, mantissa) = (exponent + 1, mantissa / 2.0);
    }
    // ln m = 2 artanh s, a series in which each term is less than 3 % of the one before.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let terms = (0..12).rev().map(|term| 1.0 / f64::from(2 * term + 1));
    let series = terms.fold(0.0, |sum, term| sum * s * s + term);
    f64::from(exponent) * LN_2 + 2.0 * s * series
}

/// The exponential function of a number whose result is neither too small nor too large for a float.
fn exp(x: f64) -> f64 {
    let power = (x / LN_2).round().clamp(-1000.0, 1000.0);
    let rest = x - power * LN_2;
    let series = (1..16)
        .rev()
        .fold(1.0, |sum, term| 1.0 + sum * rest / f64::from(term));
    series * f64::from_bits(((power as i64 + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_near(one: f64, other: f64, relative: f64) -> bool {
        (one - other).abs() <= relative * other.abs().max(1.0)
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        let table = [
            (0.5, 0.0),
            (0.841_344_746_068_543, 1.0),
            (0.975, 1.959_963_984_540_054),
            (0.99, 2.326_347_874_040_841),
            (0.999_9, 3.719_016_485_455_709),
            (0.001, -3.090_232_306_167_813_5),
        ];
        for (probability, deviations) in table {
            assert!(
                is_near(normal(probability), deviations, 2e-9),
                "{probability}: {}",
                normal(probability)
            );
        }
        assert!(normal(0.0) < -8.0 && normal(1.0) > 8.0);
        assert!(is_near(lognormal(0.5, 7.0), 1.0, 1e-8) && is_near(lognormal(0.99, 7.0), 7.0, 1e-8));
        assert!(is_near(exponential(0.5), LN_2, 1e-14));
        let corners = [1.0, 2.0, 5.0];
        let points = [(0.0, 1.0), (0.25, 2.0), (1.0, 5.0)];
        assert!(
            points
                .iter()
                .all(|(at, value)| is_near(triangular(*at, corners), *value, 1e-14))
        );
        assert!(is_near(triangular(0.3, [4.0; 3]), 4.0, 1e-14));
    }

    proptest! {
        #[test]
        fn functions_are_those_of_the_standard_library(exponent in -300.0..300.0f64, power in -600.0..600.0f64) {
            let x = 10f64.powf(exponent);
            prop_assert!(is_near(ln(x), x.ln(), 1e-14));
            prop_assert!((exp(power) / power.exp() - 1.0).abs() < 1e-12);
        }

        #[test]
        fn quantiles_grow_with_the_probability(one in 0.0..1.0f64, other in 0.0..1.0f64, p99 in 1.0..1e6f64) {
            let low = one.min(other);
            let high = one.max(other);
            prop_assert!(normal(low) <= normal(high));
            prop_assert!(lognormal(low, p99) <= lognormal(high, p99));
            prop_assert!(exponential(low) <= exponential(high));
        }
    }
}
