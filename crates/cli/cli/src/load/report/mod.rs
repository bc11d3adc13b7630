//! The report of a run. Pure.

mod content;
mod escaped;
mod html;
mod svg;
mod text;

pub(super) use content::{Report, Settings};
pub(super) use html::page;
pub(super) use text::text;

/// The most reasons that are listed for Clusters that are not available.
const REASONS_MAX: usize = 5;

/// Why not all Clusters are available, in one line. The list is short however many they are.
pub(super) fn reasons(missing: &[(String, String)]) -> String {
    let mut lines: Vec<_> = missing
        .iter()
        .take(REASONS_MAX)
        .map(|(name, reason)| {
            format!(
                "{name}: {}",
                reason.split_whitespace().collect::<Vec<_>>().join(" ")
            )
        })
        .collect();
    if missing.len() > REASONS_MAX {
        lines.push(format!("and {} more", missing.len() - REASONS_MAX));
    }
    lines.join("; ")
}

#[cfg(test)]
mod tests;
