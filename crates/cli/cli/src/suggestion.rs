//! What a person may have meant by a misspelt name.

/// How much a known name has to be like the given one, from 0 to 1.
const ALIKE: f64 = 0.75;
/// The most names that are suggested.
const SUGGESTED_MAX: usize = 3;

/// The known names that are like this one, the most alike first. The case does not count.
pub(crate) fn near<T: AsRef<str>>(name: &str, known: impl IntoIterator<Item = T>) -> Vec<T> {
    let name = name.to_lowercase();
    let mut near: Vec<_> = known
        .into_iter()
        .map(|known| (strsim::jaro_winkler(&name, &known.as_ref().to_lowercase()), known))
        .filter(|(alike, _)| *alike >= ALIKE)
        .collect();
    near.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    near.into_iter()
        .map(|(_, known)| known)
        .take(SUGGESTED_MAX)
        .collect()
}

/// A question for the names that may be meant; nothing without any.
pub(crate) fn question<T: AsRef<str>>(near: &[T]) -> String {
    let names: Vec<_> = near.iter().map(AsRef::as_ref).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("did you mean {}?", names.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_names_are_suggested_whatever_is_asked_for() {
        let known: Vec<_> = (0..100).map(|number| format!("zone-loss-{number}")).collect();
        assert_eq!(near("ZONE-LOSS", &known).len(), SUGGESTED_MAX);
        assert_eq!(near("qouta", ["quota", "spot"]), ["quota"]);
        assert!(near(&"zone-loss".repeat(1000), &known).len() <= SUGGESTED_MAX);
        assert_eq!(near("xyz", &known), [""; 0]);
        assert_eq!(question(&["a", "b"]), "did you mean a or b?");
        assert_eq!(question::<&str>(&[]), "");
    }
}
