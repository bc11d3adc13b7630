//! Names that Kubernetes allows.

/// Whether Kubernetes takes it as a label of a domain name (RFC 1123, in lower case, 63 characters at most). Names of
/// handlers are such.
#[must_use]
pub fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=63).contains(&text.len())
        && text.bytes().all(|byte| inner(byte) || byte == b'-')
        && text.bytes().next().is_some_and(inner)
        && text.bytes().next_back().is_some_and(inner)
}

/// Whether Kubernetes takes it as a domain name (RFC 1123, in lower case, 253 characters at most). Groups are such.
#[must_use]
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
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
            (&long, false),
        ] {
            assert_eq!(is_dns_label(text), expected, "{text}");
        }
        assert!(is_dns_subdomain("hooks.example.com"));
        assert!(!is_dns_subdomain("hooks..com"));
    }
}
