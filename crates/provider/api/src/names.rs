//! Names that are safe in the path of a request.

/// The most characters of a label.
const LABEL_MAX: usize = 63;
/// The most characters of a domain name.
const SUBDOMAIN_MAX: usize = 253;
/// The most characters of a refused text that a message repeats.
const SHOWN_MAX: usize = 64;

/// Whether the text is a DNS label as Kubernetes understands it: RFC 1123, lower case, at most 63 characters
/// (apimachinery, `IsDNS1123Label`). Namespaces are labels.
#[must_use]
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= LABEL_MAX && is_part(text)
}

/// Whether the text is a DNS subdomain as Kubernetes understands it: RFC 1123, lower case, at most 253 characters
/// (apimachinery, `IsDNS1123Subdomain`). API groups and the names of most objects are subdomains.
#[must_use]
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_MAX && text.split('.').all(is_part)
}

/// The part of a refused text that a message repeats.
#[must_use]
pub fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// Whether the text consists of lower-case letters, digits and hyphens, without a hyphen at either end.
fn is_part(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().all(|byte| inner(byte) || byte == b'-')
        && text.bytes().next().is_some_and(inner)
        && text.bytes().next_back().is_some_and(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_kubernetes_takes_is_a_name() {
        let long = "a".repeat(254);
        for (text, label, subdomain) in [
            ("a", true, true),
            ("a-1", true, true),
            ("a.b", false, true),
            (&long[..63], true, true),
            (&long[..64], false, true),
            (&long[..253], false, true),
            (&long, false, false),
            ("", false, false),
            (".", false, false),
            ("..", false, false),
            ("a..b", false, false),
            ("a/b", false, false),
            ("a?b=", false, false),
            ("a#b", false, false),
            ("a%2fb", false, false),
            ("a\0", false, false),
            ("-a", false, false),
            ("A", false, false),
            ("ä", false, false),
        ] {
            assert_eq!(
                (is_dns_label(text), is_dns_subdomain(text)),
                (label, subdomain),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_refused_text_is_not_repeated_at_length() {
        assert_eq!(shown("a/b"), "a/b");
        assert_eq!(shown(&"Ä".repeat(65_536)), format!("{}...", "Ä".repeat(64)));
    }
}
