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

/// The keys, if nothing is selected.
const KEYS: &str = "arrows: select a machine   q: leave";

/// Where someone looks.
#[derive(Debug, Default)]
pub(super) struct View {
    /// Whether it takes keys, and says so.
    has_keys: bool,
    selected: Option<Key>,
    /// The first line of the clusters that is shown.
    first: usize,
    /// The columns of the terminal when it was drawn last.
    columns: usize,
}

impl View {
    /// A view that takes keys.
    pub(super) fn with_keys() -> Self {
        Self {
            has_keys: true,
            ..Self::default()
        }
    }

    /// Draws what is there at a time.
    pub(super) fn render(&mut self, sight: &Sight, now: Timestamp, area: Rect, buffer: &mut Buffer) {
        self.columns = usize::from(area.width);
        let head = draw::head(sight, now);
        let rest = draw::rest(sight, now);
        let Clusters { lines, machines } = draw::clusters(&sight.model, self.selected.as_ref(), self.columns);
        let length = |lines: usize| u16::try_from(lines).unwrap_or(u16::MAX);
        let foot = u16::from(self.has_keys);
        // The legend is a line, too.
        let beside = length(head.len()).saturating_add(1).saturating_add(foot);
        // What does not fit is taken from the rest, down to a third, and then from the clusters, which scroll.
        let left = area.height.saturating_sub(beside);
        let under = left.saturating_sub(length(lines.len())).max(area.height / 3);
        let under = under.min(length(rest.len()));
        let between = left.saturating_sub(under).min(length(lines.len()));
        let heights = [length(head.len()), between, 1, under, foot];
        let [above, middle, legend, below, foot] =
            Layout::vertical(heights.map(Constraint::Length)).areas(area);
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

#[cfg(test)]
mod tests;
