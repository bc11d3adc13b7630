//! `nephele journal replay`: makes the calls of a journal again.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::Args;
use nephele_engine::{Line, Replay};

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The file written by `nephele manager --journal FILE`.
    file: PathBuf,
}

pub(super) fn run(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    println!("{}", replay(&args.file)?);
    Ok(ExitCode::SUCCESS)
}

/// Replays the journal, and returns a summary.
fn replay(path: &Path) -> anyhow::Result<String> {
    let file = File::open(path).with_context(|| format!("failed to open {}", path.display()))?;
    let mut lines = BufReader::new(file).lines().zip(1u64..).peekable();
    let mut replay = Replay::default();
    let mut digest = None;
    while let Some((text, number)) = lines.next() {
        let text = text.with_context(|| format!("failed to read line {number} of {}", path.display()))?;
        let line = match serde_json::from_str::<Line>(&text) {
            Ok(line) => line,
            // A killed manager may leave an incomplete last line.
            Err(error) if error.is_eof() && lines.peek().is_none() => break,
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("failed to understand line {number} of {}", path.display()));
            }
        };
        replay
            .play(&line)
            .with_context(|| format!("the replay differs at line {number} of {}", path.display()))?;
        digest = match line {
            Line::Digest { digest, .. } => Some(digest),
            Line::State(_) | Line::Record(_) => None,
        };
    }
    let there = replay
        .engine()
        .with_context(|| format!("{} is empty", path.display()))?
        .resources()
        .count();
    let mut text = format!(
        "{} records played, {there} resources in the end",
        replay.records()
    );
    if replay.gaps() > 0 {
        text += &format!(", {} times after records that were not kept", replay.gaps());
    }
    text += &match digest {
        Some(digest) => format!(": the same as in the journal, digest {digest}"),
        None => ": the same as in the journal, which has no digest at its end".to_owned(),
    };
    Ok(text)
}

#[cfg(test)]
mod tests {
    use nephele_engine::{Config, Engine, Operation, Request, ResourceSpec, Seed};
    use nephele_model::{ResourceId, ResourceKind, SimTime};

    use super::*;

    /// A journal of one machine that was created and deleted.
    fn journal() -> Vec<String> {
        let id = ResourceId {
            namespace: "default".into(),
            cluster: "demo".into(),
            kind: ResourceKind::Instance,
            name: "m".into(),
        };
        let mut engine = Engine::new(Config::default(), Seed::new("seed"));
        let mut lines = vec![Line::State(engine.state())];
        for (request, at) in [
            (Request::Create(ResourceSpec::new(id.clone())), 1000),
            (Request::Delete(id), 2000),
        ] {
            let at = SimTime::from_millis(at);
            engine.apply(Operation {
                caller: "infra".into(),
                request,
                at,
            });
        }
        engine.poll(SimTime::from_millis(3000));
        lines.extend(
            engine
                .journal()
                .since(1)
                .map(|entry| Line::Record((**entry).clone())),
        );
        lines.push(Line::digest(&engine));
        lines
            .iter()
            .map(|line| serde_json::to_string(line).expect("it can be written"))
            .collect()
    }

    fn replayed(name: &str, text: &str) -> String {
        let path = std::env::temp_dir().join(format!("nephele-journal-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("there is room");
        let result = replay(&path);
        std::fs::remove_file(&path).expect("it is there");
        match result {
            Ok(text) => text,
            Err(error) => {
                nephele_controller::chain(error.as_ref()).replace(&path.display().to_string(), "FILE")
            }
        }
    }

    #[test]
    fn a_journal_is_played_and_the_first_difference_is_named() {
        let lines = journal();
        let text = replayed("whole", &lines.join("\n"));
        let (said, digest) = text.rsplit_once(' ').expect("it ends with the digest");
        assert_eq!(
            said,
            "3 records played, 0 resources in the end: the same as in the journal, digest"
        );
        assert_eq!(digest.len(), 64);

        let cut = lines[..3].join("\n") + "\n{\"Record\":{\"seq";
        assert_eq!(
            replayed("cut", &cut),
            "2 records played, 1 resources in the end: the same as in the journal, which has no digest at its end"
        );
        let wrong = lines.join("\n").replace("\"Accepted\"", "\"AlreadyDone\"");
        assert_eq!(
            replayed("wrong", &wrong),
            "the replay differs at line 2 of FILE: instead of record 1, CreateInstance of default/demo/instance/m \
             was answered Accepted"
        );
        assert_eq!(
            replayed("early", &lines[1..].join("\n")),
            "the replay differs at line 1 of FILE: the journal does not begin with a state"
        );
        assert_eq!(replayed("empty", ""), "FILE is empty");
    }
}
