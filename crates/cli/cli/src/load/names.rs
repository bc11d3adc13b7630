//! Names in a message. Pure.

/// How many names are listed.
const LISTED_MAX: usize = 5;

/// The first few names, and how many more there are.
pub(super) fn listed(names: &[String]) -> String {
    let mut text = names
        .iter()
        .take(LISTED_MAX)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > LISTED_MAX {
        text += &format!(" and {} more", names.len() - LISTED_MAX);
    }
    text
}
