//! The results of the requests.

use std::collections::BTreeMap;

use crate::{client::Outcome, generator::Request};

/// Counts of outcomes.
#[derive(Default)]
pub(crate) struct Tally {
    /// Counts of answers, by verb and status.
    answered: BTreeMap<(&'static str, u16), u64>,
    /// Connections that ended because the head or body of a request was too long.
    pub(crate) limited: u64,
    /// Connections that ended without a reason, with the requests. The first hundred are kept.
    pub(crate) broken: Vec<String>,
    pub(crate) internal_errors: u64,
}

const BROKEN_MAX: usize = 100;

impl Tally {
    pub(crate) fn count(&mut self, request: &Request, outcome: &Outcome, brief: impl FnOnce() -> String) {
        match outcome {
            Outcome::Answered { status, .. } => {
                *self.answered.entry((request.verb(), *status)).or_default() += 1;
                if *status == 500 {
                    self.internal_errors += 1;
                    eprintln!("status 500: {}", brief());
                }
            }
            Outcome::Broken(_) if request.beyond_limit() => self.limited += 1,
            Outcome::Broken(error) => {
                if self.broken.len() < BROKEN_MAX {
                    self.broken.push(format!("{}: {error}", brief()));
                }
            }
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        for (key, count) in other.answered {
            *self.answered.entry(key).or_default() += count;
        }
        self.limited += other.limited;
        self.broken.extend(other.broken);
        self.internal_errors += other.internal_errors;
    }

    /// How many requests were sent.
    pub(crate) fn requests(&self) -> u64 {
        self.answered.values().sum::<u64>() + self.limited + self.broken.len() as u64
    }

    /// Prints a line for each verb.
    pub(crate) fn print(&self) {
        let mut verbs: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for ((verb, status), count) in &self.answered {
            verbs.entry(verb).or_default().push(format!("{status}: {count}"));
        }
        for (verb, counts) in verbs {
            println!("{verb:<22} {}", counts.join("  "));
        }
    }
}
