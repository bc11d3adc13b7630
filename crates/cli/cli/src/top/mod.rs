//! `nephele top`: what the live page shows, in a terminal.
//!
//! ```text
//!  keys ───▶ View ─┐
//!                  ├─▶ lines ─▶ terminal
//!  watches ─▶ Sight┘
//! ```

mod draw;
mod view;

use std::{io::IsTerminal as _, process::ExitCode, thread, time::Duration};

use anyhow::{Context as _, bail};
use clap::Args;
use futures::{StreamExt as _, stream::BoxStream};
use jiff::Timestamp;
use nephele_page::{Sight, sights};
use ratatui::{
    DefaultTerminal,
    buffer::Buffer,
    crossterm::event::{self, Event},
    layout::Rect,
};
use tokio::{
    sync::mpsc,
    time::{interval, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    access::TargetArgs,
    diagnostics::TokenArgs,
    output::print,
    page::{Followed, leave},
    provider::ProviderArgs,
    top::view::View,
};

/// The columns of `--once`, if the output is no terminal.
const COLUMNS: u16 = 120;
/// The most lines of `--once`: those of a cluster with as many machines as the page has cells for.
const LINES_MAX: u16 = 4096;
/// How long `--once` waits for the records after the objects: the manager answers by a connection of its own.
const RECORDS_WITHIN: Duration = Duration::from_secs(2);
/// How often a key is waited for before the thread looks whether it is still needed.
const KEY: Duration = Duration::from_millis(200);
/// Keys that were pressed and not yet taken.
const KEYS_MAX: usize = 16;

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Only this namespace [default: all]
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Print what is there once, and exit.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    provider: ProviderArgs,
    #[command(flatten)]
    token: TokenArgs,
}

/// Shows what is there until someone leaves.
pub(crate) async fn run(args: TopArgs, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    let TopArgs {
        target,
        namespace,
        once,
        provider,
        token,
    } = args;
    if !once && !std::io::stdout().is_terminal() {
        bail!("the output is no terminal; --once prints what is there");
    }
    let Followed { source, manager } =
        Followed::open("The screen", target, namespace, &provider, &token).await?;
    let stop = shutdown.child_token();
    let seen = sights(source, stop.clone());
    let shown = match once {
        true => print_once(seen, manager.is_some(), &shutdown).await,
        false => show(seen, &shutdown).await,
    };
    stop.cancel();
    shown.and(leave(manager).await)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the first sight that has records of the journal, or the last one before [`RECORDS_WITHIN`].
async fn print_once(
    mut seen: BoxStream<'static, Sight>,
    has_journal: bool,
    shutdown: &CancellationToken,
) -> anyhow::Result<()> {
    let Some(Some(mut sight)) = shutdown.run_until_cancelled(seen.next()).await else {
        bail!("interrupted");
    };
    let with_records = async {
        while has_journal && sight.journal.is_empty() {
            match seen.next().await {
                Some(next) => sight = next,
                None => return,
            }
        }
    };
    // A cloud in which nothing has happened has none.
    let _ = timeout(RECORDS_WITHIN, with_records).await;
    let size = ratatui::crossterm::terminal::size().ok();
    let size = size.filter(|_| std::io::stdout().is_terminal());
    let columns = size.map_or(COLUMNS, |(columns, _)| columns);
    print(&picture(&sight, columns, LINES_MAX))
}

/// What is there now, as text for so many columns and lines.
pub(crate) fn picture(sight: &Sight, columns: u16, lines: u16) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, lines));
    let area = buffer.area;
    View::default().render(sight, Timestamp::now(), area, &mut buffer);
    text(&buffer)
}

/// The text of a buffer, without the space at the ends of lines and at its end.
fn text(buffer: &Buffer) -> String {
    let columns = usize::from(buffer.area.width).max(1);
    let lines = buffer.content().chunks(columns);
    let lines = lines.map(|line| line.iter().map(ratatui::buffer::Cell::symbol).collect::<String>());
    let lines: Vec<_> = lines.map(|line| line.trim_end().to_owned()).collect();
    format!("{}\n", lines.join("\n").trim_end())
}

/// Shows each sight on the whole terminal, until someone leaves.
async fn show(mut seen: BoxStream<'static, Sight>, shutdown: &CancellationToken) -> anyhow::Result<()> {
    let mut terminal = ratatui::try_init().context("failed to take over the terminal")?;
    let shown = follow(&mut terminal, &mut seen, shutdown).await;
    ratatui::try_restore().context("failed to give the terminal back")?;
    shown
}

async fn follow(
    terminal: &mut DefaultTerminal,
    seen: &mut BoxStream<'static, Sight>,
    shutdown: &CancellationToken,
) -> anyhow::Result<()> {
    let mut keys = keys();
    // Clocks run, and Faults end.
    let mut ticks = interval(Duration::from_secs(1));
    let mut view = View::with_keys();
    let mut sight = Sight::default();
    loop {
        terminal
            .draw(|frame| view.render(&sight, Timestamp::now(), frame.area(), frame.buffer_mut()))
            .context("failed to write to the terminal")?;
        tokio::select! {
            next = seen.next() => match next {
                Some(next) => sight = next,
                None => return Ok(()),
            },
            event = keys.recv() => match event {
                Some(Event::Key(key)) if view.press(key, &sight) => return Ok(()),
                Some(_) => {}
                None => bail!("the terminal is gone"),
            },
            _ = ticks.tick() => {}
            () = shutdown.cancelled() => return Ok(()),
        }
    }
}

/// What happens at the terminal. Its thread ends with the receiver.
fn keys() -> mpsc::Receiver<Event> {
    let (pressed, keys) = mpsc::channel(KEYS_MAX);
    thread::spawn(move || {
        while !pressed.is_closed() {
            let event = match event::poll(KEY) {
                Ok(false) => continue,
                Ok(true) => event::read(),
                Err(error) => Err(error),
            };
            let Ok(event) = event else { return };
            if pressed.blocking_send(event).is_err() {
                return;
            }
        }
    });
    keys
}
