//! The parts of a Markdown page that can be checked: links, headings and code.

/// A page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    /// The targets of its links.
    pub(super) links: Vec<String>,
    /// The anchors of its headings.
    pub(super) anchors: Vec<String>,
    pub(super) blocks: Vec<Block>,
    /// The code spans of its text, each with the column of the table that it is in; 0 outside of tables.
    pub(super) spans: Vec<(usize, String)>,
}

/// A code block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) language: String,
    /// The line of the page on which it begins.
    pub(super) line: usize,
    pub(super) text: String,
}

impl Page {
    pub(super) fn read(text: &str) -> Self {
        let mut page = Self::default();
        let mut open: Option<Block> = None;
        for (number, line) in text.lines().enumerate() {
            if let Some(fence) = line.trim_start().strip_prefix("```") {
                match open.take() {
                    Some(block) => page.blocks.push(block),
                    None => {
                        let language = fence.split(',').next().unwrap_or_default().trim().to_owned();
                        open = Some(Block {
                            language,
                            line: number + 1,
                            text: String::new(),
                        });
                    }
                }
            } else if let Some(block) = &mut open {
                block.text.push_str(line);
                block.text.push('\n');
            } else if let Some(heading) = line.strip_prefix('#') {
                page.anchors.push(anchor(heading.trim_start_matches('#').trim()));
                page.links.extend(links(line));
            } else {
                page.links.extend(links(line));
                page.spans.extend(spans(line));
            }
        }
        page
    }
}

/// The targets of the links in a line, outside of code.
fn links(line: &str) -> Vec<String> {
    let text: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(link, _)| link.to_owned())
        .collect()
}

/// The code spans in a line.
fn spans(line: &str) -> impl Iterator<Item = (usize, String)> {
    let mut column = 0;
    line.split('`').enumerate().filter_map(move |(index, piece)| {
        if index % 2 == 1 {
            return Some((column, piece.to_owned()));
        }
        column += piece.matches('|').count();
        None
    })
}

/// The anchor of a heading, as mdBook and GitHub make it.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() })
        .collect()
}

/// The text of a crate's documentation.
pub(super) fn doc_comment(source: &str) -> String {
    let lines = source.lines().filter_map(|line| line.strip_prefix("//!"));
    lines
        .map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line)))
        .collect()
}

/// The paths of the values that a command sets with `--set`.
pub(super) fn set_values(command: &str) -> Vec<String> {
    let mut words = command.split_whitespace();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        if matches!(word, "--set" | "--set-string" | "--set-json")
            && let Some((path, _)) = words.next().and_then(|set| set.split_once('='))
        {
            found.push(path.trim_start_matches(['\'', '"']).to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_links_headings_and_code_blocks() {
        let text = "# The `first`, by hand\n\nSee [one](a.md#x) and [`two`](b.md), not `[three](c.md)`.\n\n\
                    ```yaml,ignore\na: [b](c.md)\n```\n\n  ```sh\n  x\n  ```\n\n| `a` | `b` |\n";
        let block = |language: &str, line, text: &str| Block {
            language: language.into(),
            line,
            text: text.into(),
        };
        assert_eq!(
            Page::read(text),
            Page {
                links: vec!["a.md#x".into(), "b.md".into()],
                anchors: vec!["the-first-by-hand".into()],
                blocks: vec![block("yaml", 5, "a: [b](c.md)\n"), block("sh", 9, "  x\n")],
                spans: vec![
                    (0, "two".into()),
                    (0, "[three](c.md)".into()),
                    (1, "a".into()),
                    (2, "b".into())
                ],
            }
        );
    }

    #[test]
    fn the_documentation_of_a_crate_is_its_first_comment() {
        assert_eq!(
            doc_comment("//! One.\n//!\n//!     two\nfn main() {}\n"),
            "One.\n\n    two\n"
        );
    }

    #[test]
    fn values_that_are_set_are_found() {
        let command = "helm install x y --set a.b=1 \\\n  --set 'c[0].d=2' --wait --set-json e='{}'";
        assert_eq!(set_values(command), ["a.b", "c[0].d", "e"]);
    }
}
