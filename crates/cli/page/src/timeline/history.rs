//! What is known of one lane: what it became when, and what happened. Pure.

use nephele_cloud::JournalLine;

use crate::{
    time_of_day::clock_time,
    timeline::{
        lane::{Mark, MarkKind, Span, is_done},
        window::Window,
    },
};

/// What a lane was, over time.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// The path of what it is for, if that still exists.
    pub(super) href: Option<String>,
    /// From when on it was what. None after it ended.
    became: Vec<(i64, Option<&'static str>)>,
    /// The Faults that affect it, from when on and until when.
    affected: Vec<Affected>,
    marks: Vec<Mark>,
    /// Whether the windows of a schedule decide when a Fault is in force.
    has_windows: bool,
    /// Whether something of it exists in the cloud that has no owner.
    has_leaked: bool,
}

#[derive(Clone, Debug)]
struct Affected {
    from: i64,
    until: Option<i64>,
    fault: String,
}

impl History {
    /// Takes the next record.
    pub(super) fn take(&mut self, line: &JournalLine) {
        let at = line.time.as_millisecond();
        self.marks.push(Mark {
            at,
            kind: MarkKind::of(line),
            says: says(line),
        });
        match (line.event.as_str(), line.faults.last()) {
            ("Afflicted", Some(fault)) => self.affected.push(Affected {
                from: at,
                until: None,
                fault: fault.clone(),
            }),
            ("Healed", Some(fault)) => self.heal(at, |affected| affected.fault == *fault),
            ("Leaked", _) => self.has_leaked = true,
            ("LeakedDeleted", _) => self.has_leaked = false,
            ("FaultWindowBegan" | "FaultWindowEnded", _) if !self.has_windows => {
                self.has_windows = true;
                // Before the first window the cloud only knew the Fault.
                self.became.clear();
            }
            _ => {}
        }
        let is = self.is();
        let state = match change(line, is) {
            Change::None => is,
            Change::Begins(_) if line.operation == "PutFault" && self.has_windows => is,
            Change::Begins(state) => is.or(Some(state)),
            Change::Becomes(state) => Some(state),
            Change::Ends => None,
        };
        self.set(at, state);
    }

    /// What it is for exists, since a time at the latest, and is in a state if no record says anything else.
    pub(super) fn exists(&mut self, href: String, since: Option<i64>, state: Option<&'static str>) {
        self.href = Some(href);
        let Some(since) = since else { return };
        let before = match self.became.first() {
            None => state,
            Some((at, _)) if *at <= since => return,
            Some((_, Some("starting"))) => Some("waiting"),
            Some((_, Some("failed"))) => Some("starting"),
            // The windows of a Fault, and what the cloud knew of it, are in the journal.
            Some((_, Some("in force"))) => return,
            Some(_) => Some("running"),
        };
        self.became.insert(0, (since, before));
    }

    /// What it is for does not exist any more.
    pub(super) fn is_gone(&mut self) {
        let Some(last) = self.marks.last() else { return };
        let state = self.is().filter(|_| self.has_leaked).map(|_| "leaked");
        self.set(last.at, state);
    }

    fn set(&mut self, at: i64, state: Option<&'static str>) {
        if self.is() != state {
            self.became.push((at, state));
        }
        if state.is_none() {
            self.heal(at, |_| true);
        }
    }

    fn heal(&mut self, at: i64, is_over: impl Fn(&Affected) -> bool) {
        for affected in &mut self.affected {
            if affected.until.is_none() && is_over(affected) {
                affected.until = Some(at);
            }
        }
    }

    /// What it is now. None if it does not exist.
    pub(super) fn is(&self) -> Option<&'static str> {
        self.became.last().and_then(|(_, state)| *state)
    }

    /// What it was in a window, and when Faults affected it.
    pub(super) fn spans(&self, window: Window, now: i64) -> Vec<Span> {
        let ends = self.became.iter().skip(1).map(|(at, _)| *at).chain([now]);
        let was = self.became.iter().zip(ends);
        let was = was.filter_map(|((from, state), until)| Some((*from, until, (*state)?)));
        let affected = self.affected.iter().map(|affected| {
            let until = affected.until.unwrap_or(now);
            (affected.from, until, "affected")
        });
        let within = |(from, until, state): (i64, i64, &'static str)| Span {
            from: from.max(window.from),
            until: until.min(window.until),
            state,
        };
        was.chain(affected)
            .map(within)
            .filter(|span| span.from <= span.until)
            .collect()
    }

    /// What happened in a window.
    pub(super) fn marks(&self, window: Window) -> impl Iterator<Item = Mark> {
        self.marks.iter().filter(move |mark| window.has(mark.at)).cloned()
    }
}

/// What a record does to the state.
enum Change {
    None,
    /// It is in this state, unless it already was in another one.
    Begins(&'static str),
    Becomes(&'static str),
    Ends,
}

/// What a record does to what is in a state.
fn change(line: &JournalLine, is: Option<&str>) -> Change {
    let is_done = is_done(line);
    match (line.operation.as_str(), line.event.as_str()) {
        ("CreateInstance" | "CreateLoadBalancer", _) if is_done => Change::Begins("starting"),
        ("PutCatalog", _) if is_done => Change::Begins("running"),
        ("PutFault", _) if is_done => Change::Begins("in force"),
        ("DeleteInstance" | "DeleteLoadBalancer", _) if is_done && is.is_some() => {
            Change::Becomes("deleting")
        }
        ("DeleteFault" | "DeleteCatalog", _) if is_done => Change::Ends,
        (_, "Adopted") => Change::Begins("running"),
        // With its first stage a machine only has a virtual machine.
        (_, "StageReached") if line.kind == "Machine" && line.message == "vm" => Change::None,
        (_, "StageReached" | "BackendInService") if is == Some("deleting") => Change::None,
        // A load balancer works with its first backend.
        (_, "StageReached" | "BackendInService") => Change::Becomes("running"),
        (_, "StageFailed") => Change::Becomes("failed"),
        (_, "FaultWindowBegan") => Change::Becomes("in force"),
        (_, "FaultWindowEnded" | "FaultEnded" | "Deleted") => Change::Ends,
        _ => Change::None,
    }
}

/// A record in words.
fn says(line: &JournalLine) -> String {
    let mut says = format!("{} {}{}", clock_time(line.time), line.operation, line.event);
    for more in [&line.outcome, &line.message] {
        if !more.is_empty() {
            says += " ";
            says += more;
        }
    }
    says
}
