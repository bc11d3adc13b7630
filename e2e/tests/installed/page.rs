//! `nephele page` as a browser has it: it enters with the printed address, and then has a cookie.

use std::{fs, path::PathBuf};

use anyhow::Context;
use nephele_e2e::{
    Look,
    shell::{Shell, Started},
    until,
    wait::LIMIT,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// What the command prints before its address.
const BEFORE: &str = "Page  http://";

/// A page that is served, and who has entered.
pub(super) struct Page {
    command: Started,
    /// The file with what the command prints.
    printed: PathBuf,
    host: String,
    cookie: String,
}

impl Page {
    /// Runs the command, and enters its page.
    pub(super) async fn open(shell: &Shell, command: &str) -> anyhow::Result<Self> {
        let printed = shell.folder().join("page.txt");
        let mut command = shell.start(&format!("{command} > {}", printed.display()))?;
        let address = until("the address of the page", LIMIT, async || {
            command.still_runs()?;
            let text = fs::read_to_string(&printed).context("failed to read what it prints")?;
            let address = text.lines().find_map(|line| line.strip_prefix(BEFORE));
            Ok(match address {
                Some(address) => Look::Done(address.to_owned()),
                None => Look::NotYet(text),
            })
        })
        .await?;
        let (host, entrance) = address.split_once('/').context("no key")?;
        let answer = ask(host, &format!("/{entrance}"), "").await?;
        let cookie = answer
            .lines()
            .find_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next());
        Ok(Self {
            host: host.to_owned(),
            printed,
            cookie: cookie
                .with_context(|| format!("no cookie in {answer}"))?
                .to_owned(),
            command,
        })
    }

    /// What the command has printed.
    pub(super) fn printed(&self) -> anyhow::Result<String> {
        fs::read_to_string(&self.printed).context("failed to read what it prints")
    }

    /// Waits until a path has a text, and returns all of it.
    pub(super) async fn has(&mut self, path: &str, wanted: &str) -> anyhow::Result<String> {
        until(&format!("{wanted} on the page {path}"), LIMIT, async || {
            self.command.still_runs()?;
            let answer = ask(&self.host, path, &self.cookie).await?;
            Ok(if answer.contains(wanted) {
                Look::Done(answer)
            } else {
                Look::NotYet(answer)
            })
        })
        .await
    }

    /// Ends it as Ctrl-C does.
    pub(super) async fn close(self) -> anyhow::Result<()> {
        let status = self.command.interrupt().await?;
        anyhow::ensure!(status.success(), "nephele page ended: {status}");
        Ok(())
    }
}

async fn ask(host: &str, path: &str, cookie: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(host)
        .await
        .context("failed to connect to the page")?;
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .await
        .context("failed to ask the page")?;
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .await
        .context("failed to read the page")?;
    Ok(answer)
}
