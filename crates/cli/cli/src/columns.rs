//! Tables for terminals.

/// How much space is between two columns, as in kubectl.
const GAP: usize = 3;

/// Lines whose columns are aligned. The last one is not padded.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<_> = (0..count)
        .map(|column| width(column).unwrap_or(0) + GAP)
        .collect();
    let mut text = String::new();
    for row in rows {
        let line: String = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_space_at_the_end() {
        let rows =
            [["NAME", "AGE"], ["long-name", "1s"], ["ü", ""]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(columns(&rows), "NAME        AGE\nlong-name   1s\nü\n");
    }
}
