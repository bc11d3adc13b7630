//! Each target gets some inputs from a seed. cargo-fuzz gives them more, and measures what they reach.

mod mutations;

use std::{collections::BTreeSet, fs, panic::catch_unwind};

use mutations::Mutations;
use nephele_fuzz::{TARGETS, Target, target};

/// Runs a target over its samples, and over some inputs that are made from them.
fn check(name: &str, inputs: usize) {
    let Target { run, samples, .. } = target(name);
    if let Some(input) = find(run, samples(), inputs) {
        panic!("{name} panics over {}", input.escape_ascii());
    }
}

/// The first input over which a target panics.
fn find(run: fn(&[u8]), samples: Vec<Vec<u8>>, inputs: usize) -> Option<Vec<u8>> {
    let mut mutations = Mutations::new(1, samples.clone());
    let mutated = std::iter::from_fn(|| Some(mutations.next_input())).take(inputs);
    samples
        .into_iter()
        .chain(mutated)
        .find(|input| catch_unwind(|| run(input)).is_err())
}

#[test]
fn applied_configurations_break_no_server() {
    check("apply", 250);
}

#[test]
fn headers_break_no_server() {
    check("headers", 1000);
}

#[test]
fn patches_break_no_server() {
    check("patch", 500);
}

#[test]
fn protobuf_breaks_no_server() {
    check("protobuf", 500);
}

#[test]
fn paths_and_queries_break_no_server() {
    check("request", 300);
}

#[test]
fn selectors_break_no_server() {
    check("selectors", 300);
}

#[test]
fn objects_of_any_shape_are_shown_as_tables() {
    check("table", 1000);
}

#[test]
fn certificates_break_no_server() {
    check("certificate", 3000);
}

#[test]
fn calls_and_connections_break_no_etcd() {
    check("etcd", 1000);
}

#[test]
fn frames_break_no_port_forward() {
    check("port_forward", 2000);
}

#[test]
fn bodies_break_no_hook() {
    check("hooks", 1000);
}

#[test]
fn user_data_is_read_or_not() {
    check("user_data", 3000);
}

#[test]
fn kubeconfigs_are_read_or_refused() {
    check("kubeconfig", 3000);
}

#[test]
fn specs_are_read_or_refused() {
    check("specs", 3000);
}

#[test]
fn a_planted_panic_is_found() {
    let planted: fn(&[u8]) = |data| {
        let text = std::str::from_utf8(data).unwrap_or_default();
        let index = text
            .strip_prefix("/spec/parts/")
            .and_then(|rest| rest.parse::<u64>().ok());
        assert!(index.is_none_or(|index| index < 10), "planted");
    };
    assert_ne!(find(planted, vec![b"/spec/parts/0".to_vec()], 3000), None);
}

#[test]
fn cargo_fuzz_has_each_target() {
    let folder = "fuzz/";
    let manifest = fs::read_to_string(format!("{folder}Cargo.toml")).expect("the manifest is there");
    let declared = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    let declared: BTreeSet<_> = declared
        .filter(|name| *name != "nephele-fuzz-targets")
        .map(str::to_owned)
        .collect();
    let files = fs::read_dir(format!("{folder}fuzz_targets")).expect("the folder is there");
    let files: BTreeSet<_> = files
        .map(|file| file.expect("the folder can be read").path())
        .map(|path| {
            path.file_stem()
                .expect("a file has a name")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    let known: BTreeSet<_> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!((&declared, &files), (&known, &known));
}
