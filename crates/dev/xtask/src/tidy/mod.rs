//! `cargo xtask tidy`: checks that no compiler does.

mod examples;
mod imports;
mod messages;
mod ratchets;
mod roles;
mod spelling;
mod texts;
mod tracked;
mod turns;
mod types;
mod watches;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use anyhow::bail;

use self::tracked::{files, read};
use crate::{book, codegen, command::capture, commands::Commands, contract, paths};

/// Crates, and crates that must not be among their direct or indirect dependencies.
const PURE: [(&str, &[&str]); 24] = [
    // Its time grows with the square of a text, and the manager reads texts of users.
    ("nephele-manager", &["serde_yaml_ng"]),
    (
        "nephele-budget",
        &["kube", "k8s-openapi", "serde", "hyper", "axum"],
    ),
    (
        "nephele-ipam",
        &[
            "kube",
            "k8s-openapi",
            "tokio",
            "axum",
            "hyper",
            "jiff",
            "getrandom",
        ],
    ),
    // The two providers communicate only through IPAddressClaims and IPAddresses.
    (
        "nephele-infra-controller",
        &[
            "nephele-ipam",
            "nephele-ipam-controller",
            "nephele-runtime-sdk",
            "nephele-machine-hooks",
        ],
    ),
    (
        "nephele-ipam-controller",
        &["nephele-cloud", "nephele-infra-controller"],
    ),
    (
        "nephele-fault",
        &[
            "nephele-cloud",
            "nephele-engine",
            "nephele-infra-controller",
            "nephele-ipam",
        ],
    ),
    (
        "nephele-webhook",
        &["nephele-api", "nephele-ipam", "nephele-infra-controller"],
    ),
    ("nephele-cloud", &["nephele-api", "kube"]),
    (
        "nephele-cluster-api",
        &[
            "nephele-cloud",
            "nephele-engine",
            "nephele-infra-controller",
            "nephele-manager",
        ],
    ),
    // It shows what objects and the journal say, to whatever command serves it.
    (
        "nephele-page",
        &[
            "clap",
            "nephele-manager",
            "nephele-infra-controller",
            "nephele-fake-capi",
        ],
    ),
    // They see the providers through objects only.
    (
        "nephele-fake-capi",
        &[
            "nephele-cloud",
            "nephele-engine",
            "nephele-infra-controller",
            "nephele-ipam",
        ],
    ),
    (
        "nephele-test-extension",
        &[
            "nephele-cloud",
            "nephele-engine",
            "nephele-infra-controller",
            "nephele-ipam",
        ],
    ),
    (
        "nephele-checkpoint",
        &[
            "nephele-cloud",
            "nephele-engine",
            "nephele-infra-controller",
            "nephele-ipam",
        ],
    ),
    (
        "nephele-engine",
        &[
            "kube",
            "k8s-openapi",
            "tokio",
            "axum",
            "hyper",
            "jiff",
            "getrandom",
        ],
    ),
    (
        "nephele-model",
        &[
            "kube",
            "k8s-openapi",
            "tokio",
            "axum",
            "hyper",
            "jiff",
            "getrandom",
        ],
    ),
    ("nephele-api", &["tokio", "kube-client", "hyper"]),
    (
        "nephele-apiserver",
        &["nephele-api", "kube", "kube-client", "redb"],
    ),
    ("nephele-state", &["kube", "k8s-openapi", "hyper", "axum"]),
    ("nephele-pki", &["tokio", "kube", "k8s-openapi", "hyper"]),
    ("nephele-listen", &["kube", "k8s-openapi", "serde", "axum"]),
    ("nephele-etcd", &["rustls", "tokio-rustls", "kube"]),
    ("nephele-portforward", &["kube", "k8s-openapi", "rustls"]),
    (
        "nephele-scenario",
        &["nephele-cloud", "nephele-engine", "nephele-infra-controller"],
    ),
    (
        "nephele-controller",
        &["nephele-cloud", "nephele-engine", "nephele-infra-controller"],
    ),
];

/// Crates that use no other crate of the workspace.
const LEAVES: [&str; 14] = [
    "nephele-budget",
    "nephele-components",
    "nephele-error-chain",
    "nephele-etcd",
    "nephele-go-duration",
    "nephele-growth",
    "nephele-ipam",
    "nephele-pki",
    "nephele-poll-time",
    "nephele-portforward",
    "nephele-state",
    "nephele-watched-files",
    "nephele-yaml",
    "nepheletest",
];

/// Crates that use only these crates of the workspace; among them the black-box tests.
const ALMOST_LEAVES: [(&str, &[&str]); 8] = [
    ("nephele-api", &["nephele-go-duration", "nephele-model"]),
    (
        "nephele-apiserver",
        &["nephele-budget", "nephele-poll-time", "nephele-yaml"],
    ),
    (
        "nephele-e2e",
        &["nephele-api", "nephele-go-duration", "nephele-model"],
    ),
    ("nephele-engine", &["nephele-go-duration", "nephele-model"]),
    ("nephele-listen", &["nephele-budget", "nephele-poll-time"]),
    ("nephele-model", &["nephele-go-duration"]),
    (
        "nephele-scenario-library",
        &["nephele-api", "nephele-go-duration", "nephele-model"],
    ),
    // It is for other projects, too.
    (
        "nephele-runtime-sdk",
        &[
            "nephele-budget",
            "nephele-error-chain",
            "nephele-go-duration",
            "nephele-listen",
            "nephele-poll-time",
            "nephele-watched-files",
        ],
    ),
];

/// Two packages outside of the workspace: the targets of cargo-fuzz, and an example that is written as users write. And the only
/// crate with unsafe code, which the lints of the workspace forbid.
const LINTS_OF_THEIR_OWN: [&str; 3] = [
    "crates/dev/fuzz/fuzz/Cargo.toml",
    "crates/dev/seeded-process/Cargo.toml",
    "nepheletest/examples/rust/Cargo.toml",
];

/// The most lines of a file. One file in ten may be longer.
const LINES_MAX: usize = 600;
const LONGER_SHARE_MAX: f64 = 0.1;

/// Files whose format contains the names of registries.
const LOCKS: [&str; 2] = ["Cargo.lock", "go.sum"];

/// What to draw.
#[derive(Debug, clap::Args)]
pub(crate) struct FloorsArgs {
    /// A folder in `crates`, or `e2e`; without it, the crates are drawn.
    #[arg(value_name = "CRATE")]
    krate: Option<String>,
}

/// Draws which crates or files use which other ones.
pub(crate) fn floors(args: &FloorsArgs) -> anyhow::Result<()> {
    print!("{}", ratchets::picture(args.krate.as_deref())?);
    Ok(())
}

/// Runs every check and reports all failures.
pub(crate) fn run(commands: &Commands) -> anyhow::Result<()> {
    type Check<'a> = &'a dyn Fn() -> anyhow::Result<()>;
    let checks: [(&str, Check<'_>); 19] = [
        ("purity", &purity),
        ("rooms", &rooms),
        ("freshness", &codegen::check),
        ("contract", &contract::check),
        ("book", &|| book::check(commands)),
        ("workflows", &|| workflows(commands)),
        ("lints", &lints),
        ("examples", &examples),
        ("imports", &imports::check),
        ("roles", &roles),
        ("finalizers", &finalizers),
        ("sizes", &sizes),
        ("ratchets", &ratchets::check),
        ("watches", &watches::check),
        ("messages", &messages::check),
        ("words", &words),
        ("spelling", &spelling),
        ("turns", &turns),
        ("types", &types::check),
    ];
    let mut failed = 0;
    for (name, check) in checks {
        if let Err(error) = check() {
            eprintln!("{name}: {error:#}");
            failed += 1;
        }
    }
    if failed > 0 {
        bail!("{failed} of {} checks failed", checks.len())
    } else {
        Ok(())
    }
}

/// The most packages in a room: a folder in `crates`, as `crates/kube`.
const PACKAGES_MAX: usize = 8;

/// Fails if a room has so many packages that a reader no longer sees what belongs together.
fn rooms() -> anyhow::Result<()> {
    let mut sizes = BTreeMap::new();
    for (_, folder) in paths::crates()? {
        *sizes
            .entry(folder.parent().map(Path::to_owned))
            .or_insert(0_usize) += 1;
    }
    let full = sizes.into_iter().filter(|(_, packages)| *packages > PACKAGES_MAX);
    let full: Vec<_> = full
        .map(|(room, packages)| format!("{room:?} has {packages} packages"))
        .collect();
    if full.is_empty() {
        Ok(())
    } else {
        bail!("more than {PACKAGES_MAX}: {}", full.join(", "))
    }
}

fn purity() -> anyhow::Result<()> {
    let mut found = Vec::new();
    for (krate, forbidden) in PURE {
        let dependencies = dependencies(krate)?;
        found.extend(
            forbidden
                .iter()
                .filter(|name| dependencies.contains(**name))
                .map(|name| format!("{krate} → {name}")),
        );
    }
    for (krate, allowed) in LEAVES
        .map(|leaf| (leaf, &[] as &[&str]))
        .into_iter()
        .chain(ALMOST_LEAVES)
    {
        let ours = dependencies(krate)?
            .into_iter()
            .filter(|name| name.starts_with("nephele-"));
        found.extend(
            ours.filter(|name| name != krate && !allowed.contains(&name.as_str()))
                .map(|name| format!("{krate} → {name}")),
        );
    }
    if !found.is_empty() {
        bail!(
            "{}; `cargo tree -p CRATE -e normal -i DEPENDENCY` shows the way",
            found.join(", ")
        );
    }
    Ok(())
}

/// The names of all dependencies of a crate, including the crate itself.
fn dependencies(krate: &str) -> anyhow::Result<BTreeSet<String>> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([
        "tree",
        "--locked",
        "--package",
        krate,
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]);
    let tree = capture(cargo.current_dir(paths::repository()))?;
    Ok(tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect())
}

fn lints() -> anyhow::Result<()> {
    let without: Vec<_> = files()?
        .into_iter()
        .filter(|path| path.ends_with("/Cargo.toml") && !LINTS_OF_THEIR_OWN.contains(&path.as_str()))
        .map(|path| Ok((read(&path)?.contains("\n[lints]\nworkspace = true\n"), path)))
        .collect::<anyhow::Result<Vec<_>>>()?
        .into_iter()
        .filter_map(|(inherits, path)| (!inherits).then_some(path))
        .collect();
    if without.is_empty() {
        Ok(())
    } else {
        bail!("not inherited from the workspace: {}", without.join(", "))
    }
}

/// Fails if documentation has examples that would be tests, in a crate whose examples are not tested. Most crates have no
/// examples, and to look for them takes rustdoc seconds.
fn examples() -> anyhow::Result<()> {
    let files = files()?;
    let mut found = Vec::new();
    for manifest in files.iter().filter(|path| path.ends_with("/Cargo.toml")) {
        if !read(manifest)?.contains("\n[lib]\ndoctest = false\n") {
            continue;
        }
        let sources = manifest.replace("Cargo.toml", "src/");
        for path in files
            .iter()
            .filter(|path| path.starts_with(&sources) && path.ends_with(".rs"))
        {
            found.extend(
                examples::find(&read(path)?)
                    .into_iter()
                    .map(|line| format!("{path}:{line}")),
            );
        }
    }
    if found.is_empty() {
        Ok(())
    } else {
        bail!(
            "not tested, because the crate has `doctest = false`: {}",
            found.join(", ")
        )
    }
}

/// Fails if a workflow runs a command of this program that does not exist. It would fail only where it runs.
fn workflows(commands: &Commands) -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for path in files()?
        .into_iter()
        .filter(|path| path.starts_with(".github/workflows/"))
    {
        let text = read(&path)?;
        let code: Vec<_> = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
            .collect();
        let mistakes = commands.wrong(&code.join("\n"))?;
        wrong.extend(mistakes.into_iter().map(|mistake| format!("{path}: {mistake}")));
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        bail!("{}", wrong.join(", "))
    }
}

/// Fails if a role for Scenarios is more than that of their creators, or the manager lacks what its finalizers need.
fn roles() -> anyhow::Result<()> {
    let is_role = |path: &&String| path.starts_with("config/") && path.ends_with("role.yaml");
    roles::check(
        &files()?
            .iter()
            .filter(is_role)
            .map(|path| read(path))
            .collect::<anyhow::Result<Vec<_>>>()?,
    )
}

/// Fails if code adds or removes a finalizer that has no constant. A test in `api` compares the constants with the list of
/// kinds that have a finalizer, which uninstallations read.
fn finalizers() -> anyhow::Result<()> {
    let mut found = Vec::new();
    for path in files()?
        .into_iter()
        .filter(|path| path.starts_with("crates/") && path.ends_with(".rs"))
    {
        let text = read(&path)?;
        // The two functions themselves, this check, and the program that plays Cluster API.
        if ["controller", "xtask", "fake-capi"]
            .iter()
            .any(|name| path.contains(&format!("/{name}/")))
        {
            continue;
        }
        for call in ["patch::add_finalizer(", "patch::remove_finalizer("] {
            for (index, rest) in text.split(call).enumerate().skip(1) {
                let arguments = rest.split(';').next().unwrap_or_default();
                if !arguments.contains("finalizers::") {
                    found.push(format!("{path}: call {index} of {call})"));
                }
            }
        }
    }
    if found.is_empty() {
        Ok(())
    } else {
        bail!("without a constant of `finalizers`: {}", found.join(", "))
    }
}

fn sizes() -> anyhow::Result<()> {
    let mut sizes = Vec::new();
    for path in files()?.into_iter().filter(|path| path.ends_with(".rs")) {
        sizes.push((read(&path)?.lines().count(), path));
    }
    sizes.sort();
    let at = |share: f64| {
        sizes
            .get((sizes.len() as f64 * share) as usize)
            .map_or(0, |(lines, _)| *lines)
    };
    println!(
        "{} source files: half under {} lines, nine in ten under {}",
        sizes.len(),
        at(0.5),
        at(0.9)
    );
    let longer: Vec<_> = sizes.iter().filter(|(lines, _)| *lines > LINES_MAX).collect();
    if longer.len() as f64 > sizes.len() as f64 * LONGER_SHARE_MAX {
        let names = longer
            .iter()
            .map(|(lines, path)| format!("{path} ({lines})"))
            .collect::<Vec<_>>();
        bail!(
            "more than one in ten is over {LINES_MAX} lines: {}",
            names.join(", ")
        );
    }
    Ok(())
}

/// Fails if a file names development machines or their package sources.
fn words() -> anyhow::Result<()> {
    // The words are written in two halves, so that this file does not contain them.
    let forbidden = [
        ("/ro", "ot/"),
        ("/wo", "rk/"),
        ("index.crat", "es.io"),
        ("static.crat", "es.io"),
        ("proxy.golang", ".org"),
    ]
    .map(|(first, second)| format!("{first}{second}"));
    let mut found = Vec::new();
    for path in files()?
        .into_iter()
        .filter(|path| LOCKS.iter().all(|lock| !path.ends_with(lock)))
    {
        let text = read(&path)?;
        found.extend(
            forbidden
                .iter()
                .filter(|word| text.contains(*word))
                .map(|word| format!("{word} in {path}")),
        );
    }
    if found.is_empty() {
        Ok(())
    } else {
        bail!("{}", found.join(", "))
    }
}

/// Fails if a text has a common misspelling.
fn spelling() -> anyhow::Result<()> {
    check_texts(spelling::find)
}

/// Fails if a text has a turn of phrase for which there is a better one.
fn turns() -> anyhow::Result<()> {
    check_texts(turns::find)
}

/// Fails with what `find` finds in the texts, by file and line.
fn check_texts(find: impl Fn(&str) -> Vec<(usize, String)>) -> anyhow::Result<()> {
    let mut found = Vec::new();
    for text in texts::all()? {
        let problems = find(&text.content);
        found.extend(
            problems
                .into_iter()
                .map(|(line, problem)| format!("{}:{line}: {problem}", text.path)),
        );
    }
    if found.is_empty() {
        Ok(())
    } else {
        bail!("\n{}", found.join("\n"))
    }
}
