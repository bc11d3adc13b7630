use super::*;

#[test]
fn a_path_is_names_and_never_leads_anywhere_else() {
    let read = |path| parts(path).map(|parts| parts.join("|"));
    assert_eq!(read("/machine/team/a"), Some("machine|team|a".to_owned()));
    assert_eq!(
        read("/machine/..%2F..%2Fetc/%3Cb%3E"),
        Some("machine|../../etc|<b>".to_owned())
    );
    assert_eq!(read("/%ff"), None);
    assert_eq!(read("/"), Some(String::new()));
}
