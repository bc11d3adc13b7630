//! What packages install beside the program.

use std::collections::BTreeSet;

use super::{nephele, text};

#[test]
fn each_shell_completes_the_commands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = nephele(&["completion", shell]);
        assert!(output.status.success(), "{shell}: {output:?}");
        let completions = text(output.stdout);
        for name in ["uninstall", "doctor", "--manager-namespace"] {
            // Fish has the flag without its dashes.
            assert!(
                completions.contains(name.trim_start_matches('-')),
                "{shell} does not complete {name}"
            );
        }
    }
}

#[test]
fn there_is_a_man_page_for_each_command_that_people_see() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = nephele(&["manual", folder.path().to_str().expect("text")]);
    assert!(output.status.success(), "{output:?}");
    let pages = std::fs::read_dir(folder.path()).expect("a folder");
    let pages: BTreeSet<_> = pages
        .map(|page| page.expect("listed").file_name().into_string().expect("text"))
        .collect();
    let some = ["nephele.1", "nephele-connect.1", "nephele-journal-replay.1"];
    assert!(some.iter().all(|page| pages.contains(*page)), "{pages:?}");
    assert!(!pages.contains("nephele-manual.1"), "{pages:?}");
    let page = std::fs::read_to_string(folder.path().join("nephele-connect.1")).expect("readable");
    assert!(page.contains("manager\\-namespace"), "{page}");
}
