//! Jain's index of fairness, and numbers as reports show them.

/// Jain's index: the square of the sum over the sum of the squares times their number. 1 if all
/// values are the same, 1 divided by their number if all but one are zero. `None` for less than two
/// values, and if all are zero.
pub fn fairness_of(values: &[f64]) -> Option<f64> {
    let squares: f64 = values.iter().map(|value| value * value).sum();
    let sum: f64 = values.iter().sum();
    let count = values.len() as f64;
    (values.len() > 1 && squares > 0.0).then(|| rounded(sum * sum / (count * squares)))
}

/// The value with six digits after the point, as people read it.
pub fn rounded(value: f64) -> f64 {
    libm::round(value * 1e6) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_values_are_fair_and_one_that_has_all_is_not() {
        assert_eq!(fairness_of(&[0.5; 7]), Some(1.0));
        assert_eq!(fairness_of(&[0.0, 0.0, 3.0, 0.0]), Some(0.25));
        assert_eq!((fairness_of(&[1.0]), fairness_of(&[0.0, 0.0])), (None, None));
    }
}
