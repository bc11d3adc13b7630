//! Where someone looks: the selected machine, and the part of the clusters that is shown. Pure.

use jiff::Timestamp;
use nephele_page::{Key, Sight};
use ratatui::{
    buffer::Buffer,
    crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    layout::{Constraint, Layout, Rect},
    text::{Line, Text},
    widgets::Widget as _,
};

use crate::top::draw::{self, Clusters};

/// The least lines of the clusters, however much stands around them.
const CLUSTERS_MIN: u16 = 4;
/// The keys, if nothing is selected.
const KEYS: &str = "arrows: select a machine   q: leave";

/// Where someone looks.
#[derive(Debug, Default)]
pub(super) struct View {
    selected: Option<Key>,
    /// The first line of the clusters that is shown.
    first: usize,
    /// The columns of the terminal when it was drawn last.
    columns: usize,
}

impl View {
    /// Draws what is there at a time.
    pub(super) fn render(&mut self, sight: &Sight, now: Timestamp, area: Rect, buffer: &mut Buffer) {
        self.columns = usize::from(area.width);
        let head = draw::head(sight, now);
        let rest = draw::rest(sight, now);
        let Clusters { lines, machines } = draw::clusters(&sight.model, self.selected.as_ref(), self.columns);
        let wanted = |lines: usize| Constraint::Length(u16::try_from(lines).unwrap_or(u16::MAX));
        let of_clusters = u16::try_from(lines.len()).unwrap_or(u16::MAX);
        let parts = [
            wanted(head.len()),
            Constraint::Max(of_clusters),
            Constraint::Length(1),
            wanted(rest.len()),
            Constraint::Length(1),
        ];
        // What does not fit is taken from the rest, and then from the clusters, which scroll.
        let [above, middle, legend, below, foot] = match fits(&parts, area.height) {
            true => Layout::vertical(parts).areas(area),
            false => Layout::vertical([
                parts[0],
                Constraint::Min(CLUSTERS_MIN.min(of_clusters)),
                parts[2],
                Constraint::Max(u16::try_from(rest.len()).unwrap_or(u16::MAX).min(area.height / 3)),
                parts[4],
            ])
            .areas(area),
        };
        self.scroll(&machines, lines.len(), usize::from(middle.height));
        let shown: Vec<_> = lines
            .into_iter()
            .skip(self.first)
            .take(usize::from(middle.height))
            .collect();
        Text::from(head).render(above, buffer);
        Text::from(shown).render(middle, buffer);
        draw::legend().render(legend, buffer);
        Text::from(rest).render(below, buffer);
        self.foot(sight).render(foot, buffer);
    }

    /// Moves what is shown so that the selected machine is in it.
    fn scroll(&mut self, machines: &[(Key, usize)], lines: usize, height: usize) {
        let selected = machines
            .iter()
            .find(|(key, _)| self.selected.as_ref() == Some(key));
        if let Some((_, line)) = selected {
            self.first = self
                .first
                .clamp(line.saturating_sub(height.saturating_sub(1)), *line);
        }
        self.first = self.first.min(lines.saturating_sub(height));
    }

    /// The selected machine in words.
    fn foot(&self, sight: &Sight) -> Line<'static> {
        let machine = self
            .selected
            .as_ref()
            .and_then(|key| sight.model.machines.get(key));
        Line::from(machine.map_or_else(|| KEYS.to_owned(), |machine| machine.label()))
    }

    /// Takes a key. Whether someone leaves.
    pub(super) fn press(&mut self, key: KeyEvent, sight: &Sight) -> bool {
        if key.kind == KeyEventKind::Release {
            return false;
        }
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Char('q') => return true,
            KeyCode::Esc if self.selected.take().is_none() => return true,
            KeyCode::Left => self.step(sight, -1),
            KeyCode::Right => self.step(sight, 1),
            KeyCode::Up => self.line(sight, false),
            KeyCode::Down => self.line(sight, true),
            _ => {}
        }
        false
    }

    /// Selects the machine before or after the selected one.
    fn step(&mut self, sight: &Sight, by: isize) {
        let machines = draw::clusters(&sight.model, None, self.columns).machines;
        let last = machines.len().saturating_sub(1);
        let at = self.at(&machines);
        let next = at.map_or(0, |at| at.saturating_add_signed(by).min(last));
        self.selected = machines.into_iter().nth(next).map(|(key, _)| key);
    }

    /// Selects the machine above or below the selected one, or the nearest one of the line.
    fn line(&mut self, sight: &Sight, is_down: bool) {
        let machines = draw::clusters(&sight.model, None, self.columns).machines;
        let Some(at) = self.at(&machines) else {
            return self.step(sight, 0);
        };
        let here = machines[at].1;
        let column = machines[..at].iter().filter(|(_, line)| *line == here).count();
        let others = machines.iter().map(|(_, line)| *line);
        let there = match is_down {
            true => others.filter(|line| *line > here).min(),
            false => others.filter(|line| *line < here).max(),
        };
        let in_line: Vec<_> = machines.iter().filter(|(_, line)| Some(*line) == there).collect();
        if let Some((key, _)) = in_line.get(column).or(in_line.last()) {
            self.selected = Some(key.clone());
        }
    }

    fn at(&self, machines: &[(Key, usize)]) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        machines.iter().position(|(key, _)| key == selected)
    }
}

/// Whether parts of these lengths fit into a height.
fn fits(parts: &[Constraint], height: u16) -> bool {
    let length = |part: &Constraint| match part {
        Constraint::Length(lines) | Constraint::Max(lines) | Constraint::Min(lines) => usize::from(*lines),
        _ => 0,
    };
    parts.iter().map(length).sum::<usize>() <= usize::from(height)
}

#[cfg(test)]
mod tests;
