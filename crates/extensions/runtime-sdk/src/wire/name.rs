//! Names that Kubernetes accepts.

/// The most characters of a label.
const LABEL_MAX: usize = 63;
/// The most characters of a domain name.
const SUBDOMAIN_MAX: usize = 253;

/// Whether the text is a DNS label as Kubernetes understands it: RFC 1123, lower case, at most 63 characters
/// (apimachinery, `IsDNS1123Label`). Names of handlers and of namespaces are labels.
#[must_use]
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= LABEL_MAX && is_part(text)
}

/// Whether the text is a DNS subdomain as Kubernetes understands it: RFC 1123, lower case, at most 253 characters
/// (apimachinery, `IsDNS1123Subdomain`). API groups and most names of objects are subdomains. As in Kubernetes, a part
/// between two dots may be longer than a label.
#[must_use]
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_MAX && text.split('.').all(is_part)
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
    fn labels_are_lower_case_and_neither_begin_nor_end_with_a_hyphen() {
        let long = "a".repeat(64);
        for (text, expected) in [
            ("before-create", true),
            ("0", true),
            (&long[..63], true),
            ("", false),
            ("Before", false),
            ("a.b", false),
            ("-a", false),
            ("a-", false),
            ("ä", false),
            ("..", false),
            ("a/b", false),
            (&long, false),
        ] {
            assert_eq!(is_dns_label(text), expected, "{text}");
        }
    }

    #[test]
    fn subdomains_are_such_parts_with_dots_between_of_any_length_up_to_253_characters_in_all() {
        let long = "a".repeat(254);
        for (text, expected) in [
            ("hooks.example.com", true),
            ("0.a-b", true),
            // Kubernetes limits the length of the whole name, not of each part.
            (&long[..253], true),
            ("", false),
            (".", false),
            ("..", false),
            ("hooks..com", false),
            (".a", false),
            ("a.", false),
            ("a.-b", false),
            ("a/../b", false),
            ("a?b", false),
            (&long, false),
        ] {
            assert_eq!(is_dns_subdomain(text), expected, "{text}");
        }
    }
}
