//! The name that was probably meant.

/// The candidate nearest to `given`, if it is near enough to be what was meant: at most a third of
/// its letters differ.
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Longer words are not names anyone mistyped, and comparing them takes time.
    const GIVEN_BYTES_MAX: usize = 64;
    if given.is_empty() || given.len() > GIVEN_BYTES_MAX {
        return None;
    }
    // Which separator and which case was used says nothing about what was meant.
    let fold = |text: &str| text.to_ascii_lowercase().replace(['-', ' '], "_");
    let given = fold(given);
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&given, &fold(candidate)), candidate))
        .filter(|(distance, candidate)| distance * 3 <= candidate.chars().count().max(given.chars().count()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `a, b or c`, each as `code` if `quote` is a backtick.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>, last: &str) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_only_when_it_is_near() {
        let names = ["rate", "rolling", "concurrency", "when_full"];
        assert_eq!(nearest("rat", names), Some("rate"));
        assert_eq!(nearest("conurrency", names), Some("concurrency"));
        assert_eq!(nearest("When-Full", names), Some("when_full"));
        assert_eq!(nearest("zebra", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest(&"x".repeat(100_000), names), None);
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(listed(["a"], "or"), "a");
        assert_eq!(listed(["a", "b", "c"], "or"), "a, b or c");
    }
}
