//! Watches of a manager that see more than its `--watch-filter` selects. A controller cannot have one: `Runner::new` takes the
//! filter. A cache can, and then the list has to say why. And watches that an object which cannot be read would end: all have to
//! come from `nephele-controller`.

use std::collections::BTreeSet;

use anyhow::bail;

use super::tracked::{files, read};

/// The crates whose watches a manager opens.
const WATCHING: [&str; 7] = [
    "controller",
    "fault",
    "infra-controller",
    "ipam-controller",
    "machine-hooks",
    "manager",
    "scenario",
];

/// Where a manager watches what other managers may own, which kind, and why.
const UNFILTERED: [(&str, &str, &str); 13] = [
    (
        "crates/provider/infra-controller/src/run.rs",
        "Cluster",
        "Cluster API owns it, and we do not write its status",
    ),
    (
        "crates/provider/infra-controller/src/run.rs",
        "Machine",
        "Cluster API owns it, and we do not write its status",
    ),
    (
        "crates/provider/infra-controller/src/run.rs",
        "MachinePool",
        "Cluster API owns it, and we do not write its status",
    ),
    (
        "crates/provider/infra-controller/src/run.rs",
        "AuthoritySecret",
        "Cluster API owns it",
    ),
    (
        "crates/provider/infra-controller/src/run.rs",
        "InMemoryMachine",
        "a pool does not lose a machine that lost its label",
    ),
    (
        "crates/provider/infra-controller/src/run.rs",
        "Fault",
        "a ClusterFault has to see who has the name of its Fault",
    ),
    (
        "crates/provider/infra-controller/src/claims/cache.rs",
        "IPAddressClaim",
        "the IPAM provider of a claim may be another one",
    ),
    (
        "crates/provider/fault/src/cluster/run.rs",
        "Namespace",
        "we do not write it",
    ),
    (
        "crates/ipam/ipam-controller/src/run.rs",
        "Cluster",
        "Cluster API owns it, and we do not write its status",
    ),
    (
        "crates/ipam/ipam-controller/src/fault/run.rs",
        "Fault",
        "a ClusterFault has to see who has the name of its Fault",
    ),
    (
        "crates/ipam/ipam-controller/src/pool/follow.rs",
        "watched",
        "claims of every manager use a pool; the allocator's name orders writes",
    ),
    (
        "crates/ipam/ipam-controller/src/address/follow.rs",
        "watched",
        "an address that any claim has is not free",
    ),
    (
        "crates/provider/scenario/src/run.rs",
        "Fault",
        "a Fault that lost its label ends with its Scenario, too",
    ),
];

/// Where watches are opened.
const SOURCE: &str = "crates/provider/controller/src/watch.rs";

/// Fails if a watch sees what other managers own, and no reason is given, or if it does not come from `nephele-controller`.
pub(super) fn check() -> anyhow::Result<()> {
    let mut found = BTreeSet::new();
    for path in files()? {
        let is_watching =
            |name: &&str| path.starts_with("crates/") && path.contains(&format!("/{name}/src/"));
        if WATCHING.iter().any(is_watching) && path.ends_with(".rs") && !path.ends_with("tests.rs") {
            let source = read(&path)?;
            if path != SOURCE && opens_a_watch(&source) {
                bail!(
                    "{path} opens a watch that an object which cannot be read would end: use `watched` of nephele-controller"
                );
            }
            found.extend(unfiltered(&source).into_iter().map(|kind| (path.clone(), kind)));
        }
    }
    let known: BTreeSet<_> = UNFILTERED
        .iter()
        .map(|(path, kind, _)| (path.to_string(), kind.to_string()))
        .collect();
    let said = |set: Vec<&(String, String)>| {
        set.into_iter()
            .map(|(path, kind)| format!("{kind} in {path}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let new = found.difference(&known).collect::<Vec<_>>();
    let gone = known.difference(&found).collect::<Vec<_>>();
    if !new.is_empty() {
        bail!("these watches do not honour --watch-filter: {}", said(new));
    }
    if !gone.is_empty() {
        bail!(
            "these watches need no reason in tidy/watches.rs any more: {}",
            said(gone)
        );
    }
    Ok(())
}

/// A source without its tests, which come last.
fn product(source: &str) -> &str {
    source
        .split("\n#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default()
}

/// Where a source calls a function of this name.
fn calls<'a>(source: &'a str, call: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_whole =
        |at: usize| !source[..at].ends_with(|before: char| before.is_alphanumeric() || "_.".contains(before));
    source
        .match_indices(call)
        .map(|(at, _)| at)
        .filter(move |at| is_whole(*at))
}

/// Whether a source opens a watch by itself.
fn opens_a_watch(source: &str) -> bool {
    let source = product(source);
    [
        "watcher(",
        "metadata_watcher(",
        "watch_object(",
        "Controller::new(",
    ]
    .iter()
    .any(|call| calls(source, call).next().is_some())
}

/// What a source watches without a filter: the kind of each cache, and `watched` for another watch. A controller without the
/// filter of its manager is `Runner`.
fn unfiltered(source: &str) -> BTreeSet<String> {
    let source = product(source);
    let mut found = BTreeSet::new();
    for (at, _) in source.match_indices("Cache::") {
        let rest = &source[at + "Cache::".len()..];
        let (kind, rest) = match rest.strip_prefix('<').and_then(|rest| rest.split_once(">::")) {
            Some((kind, rest)) => (kind, rest),
            None => ("a kind that is not named", rest),
        };
        let started = rest
            .strip_prefix("start(")
            .or_else(|| rest.strip_prefix("start_through("));
        let arguments = started.map(arguments);
        if arguments.is_some_and(|arguments| !arguments.contains("filter")) {
            found.insert(kind.to_owned());
        }
    }
    let raw = calls(source, "watched(").map(|at| arguments(&source[at + "watched(".len()..]));
    if raw.into_iter().any(|arguments| arguments.contains("Config::")) {
        found.insert("watched".to_owned());
    }
    if source.contains("&WatchFilter::default()") {
        found.insert("Runner".to_owned());
    }
    found
}

/// The text until the bracket that ends a call.
fn arguments(text: &str) -> &str {
    let mut depth = 1;
    let end = text.find(|character| {
        depth += i32::from(character == '(') - i32::from(character == ')');
        depth == 0
    });
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_does_not_come_from_kit_is_found() {
        for (source, expected) in [
            ("let events = watcher(api, watcher::Config::default());", true),
            ("kube::runtime::watcher(api, config)", true),
            ("Controller::new(api, config)", true),
            ("Controller::for_shared_stream(applied, store)", false),
            ("watched(&services, api, watcher::Config::default())", false),
            (
                "struct A;\n#[cfg(test)]\nmod tests { fn a() { watcher(api, config) } }",
                false,
            ),
        ] {
            assert_eq!(opens_a_watch(source), expected, "{source}");
        }
    }

    #[test]
    fn a_watch_without_the_filter_is_found() {
        for (source, expected) in [
            (
                "Cache::<Fault>::start(\n  &services,\n  api(),\n  everything(),\n)",
                vec!["Fault"],
            ),
            (
                "Cache::<Fault>::start(&services, api, filter.watch_config(), shutdown)",
                vec![],
            ),
            (
                "Cache::<Fault>::start_through(&services, api, everything(), shutdown, tell)",
                vec!["Fault"],
            ),
            (
                "Cache::start(&services, api, watcher::Config::default(), shutdown)",
                vec!["a kind that is not named"],
            ),
            (
                "watched(services, api, watcher::Config::default())",
                vec!["watched"],
            ),
            ("reflector(writer, watched(services, api, config))", vec![]),
            (
                "Runner::new(\"x\", &services, api, &WatchFilter::default(), one)",
                vec!["Runner"],
            ),
            (
                "struct A;\n#[cfg(test)]\nmod tests { fn a() { watched(a, api, Config::default()) } }",
                vec![],
            ),
        ] {
            let expected: BTreeSet<_> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(unfiltered(source), expected, "{source}");
        }
    }
}
