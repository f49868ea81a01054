//! The name that was probably meant.

/// The candidate nearest to `word`, if it is near enough to be a slip of the hand.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let bound = (word.chars().count() / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let distance = strsim::damerau_levenshtein(&word, &candidate.to_lowercase());
        if distance <= bound && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_found_and_a_stranger_is_not() {
        let known = ["step", "settle", "window", "hold_after"];
        assert_eq!(nearest("widnow", known), Some("window"));
        assert_eq!(nearest("Step", known), Some("step"));
        assert_eq!(nearest("holdafter", known), Some("hold_after"));
        assert_eq!(nearest("parallelism", known), None);
    }
}
