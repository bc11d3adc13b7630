//! Nothing is left behind, however a test ends.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use nepheletest::Nephele;

use crate::objects::small_file;

/// Says how the test `victim` ends.
const VICTIM: &str = "NEPHELETEST_VICTIM";

/// How long Nephele may take to end by itself.
const END_MAX: Duration = Duration::from_secs(20);

/// Started by other tests, as a process of its own. It does nothing among the other tests.
#[tokio::test]
async fn victim() -> anyhow::Result<()> {
    let Some(end) = env::var_os(VICTIM) else {
        return Ok(());
    };
    let nephele = Nephele::builder().file(small_file()).start().await?;
    // Without a line end before it, it would follow what the test harness prints.
    println!("\nvictim {} {}", nephele.process_id(), nephele.folder().display());
    assert!(end != "panics", "the victim panics");
    // Until it is killed.
    std::future::pending().await
}

fn victim_that(end: &str, temporary: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command
        .args(["--exact", "killed::victim"])
        .envs([(VICTIM, end)])
        .env("TMPDIR", temporary);
    Ok(command)
}

/// `kill -9` gives the test no opportunity to clean up.
#[test]
fn killed_test_leaves_nothing_behind() -> anyhow::Result<()> {
    let temporary = tempfile::tempdir()?;
    let mut command = victim_that("is killed", temporary.path())?;
    let mut victim = command.arg("--nocapture").stdout(Stdio::piped()).spawn()?;
    let stdout = victim.stdout.take().context("it has no output")?;
    let facts = BufReader::new(stdout)
        .lines()
        .map_while(Result::ok)
        .find(|line| line.starts_with("victim "));
    victim.kill()?;
    victim.wait()?;
    let facts = facts.context("it did not start Nephele")?;
    let facts: Vec<_> = facts.splitn(3, ' ').collect();
    let &[_, id, folder] = facts.as_slice() else {
        bail!("it says {facts:?}")
    };
    ensure!(
        Path::new(folder).parent() == Some(temporary.path()),
        "the folder is {folder}"
    );
    nothing_is_left(id.parse()?, temporary.path())
}

#[test]
fn output_of_a_test_that_panics_has_the_end_of_the_log() -> anyhow::Result<()> {
    let temporary = tempfile::tempdir()?;
    let output = victim_that("panics", temporary.path())?.output()?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(
        said.contains("the victim panics") && said.contains("the last lines of the log /"),
        "it says {said}"
    );
    let facts = said
        .lines()
        .find_map(|line| line.strip_prefix("victim "))
        .context("it did not start Nephele")?;
    let id = facts.split(' ').next().unwrap_or_default();
    nothing_is_left(id.parse()?, temporary.path())
}

#[test]
fn dropped_nephele_ends() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let nephele = runtime.block_on(Nephele::builder().start())?;
    let id = nephele.process_id();
    let folder = nephele.folder().to_owned();
    drop(runtime);
    drop(nephele);
    nothing_is_left(id, &folder)
}

fn nothing_is_left(id: u32, folder: &Path) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let entries = fs::read_dir(folder).map_or(0, Iterator::count);
        if !is_running(id) && entries == 0 {
            return Ok(());
        }
        let is_running = is_running(id);
        ensure!(
            started.elapsed() < END_MAX,
            "after {END_MAX:?}: process {id} runs: {is_running}, {} has {entries} entries",
            folder.display()
        );
        thread::sleep(Duration::from_millis(20));
    }
}

/// False for a process that has ended, also while its exit status was not asked for: in a container, often no process
/// asks.
fn is_running(id: u32) -> bool {
    match fs::read_to_string(format!("/proc/{id}/stat")) {
        // The name in parentheses can contain anything. The state follows it.
        Ok(stat) => !stat
            .rsplit_once(") ")
            .is_some_and(|(_, state)| state.starts_with('Z')),
        Err(_) if Path::new("/proc/self").exists() => false,
        Err(_) => Command::new("kill")
            .args(["-0", &id.to_string()])
            .status()
            .is_ok_and(|status| status.success()),
    }
}
