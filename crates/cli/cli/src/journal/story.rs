//! A line of the journal as one line of text. Pure.

use nephele_cloud::JournalLine;

/// The line for people: when, where, what.
pub(super) fn text(line: &JournalLine) -> String {
    let JournalLine {
        time,
        namespace,
        cluster,
        kind,
        name,
        operation,
        caller,
        outcome,
        event,
        message,
        ..
    } = line;
    let place = [namespace, cluster]
        .map(String::as_str)
        .into_iter()
        .filter(|part| !part.is_empty());
    let place = place.collect::<Vec<_>>().join("/");
    let object = [kind, name]
        .map(String::as_str)
        .into_iter()
        .filter(|part| !part.is_empty());
    let object = object.collect::<Vec<_>>().join(" ");
    let what = match (operation.is_empty(), outcome.as_str()) {
        (true, _) => event.clone(),
        (false, "Accepted") => format!("{operation} by {caller}"),
        (false, outcome) => format!("{operation} by {caller}: {outcome}"),
    };
    // The message of an error or an event names its fault. An answer that is late, or lost, does not.
    let hit = match (line.hit, line.faults.last()) {
        (true, Some(fault)) if !message.contains(&format!("(Fault {fault})")) => format!(" (Fault {fault})"),
        _ => String::new(),
    };
    let message = if message.is_empty() {
        String::new()
    } else {
        format!(": {message}")
    };
    let time = time.strftime("%H:%M:%S%.3f");
    format!("{time}  {place:<20}  {object:<32}  {what}{message}{hit}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> JournalLine {
        JournalLine {
            sequence: 1,
            time: "2026-01-02T03:04:05.678Z".parse().expect("a time"),
            namespace: "default".into(),
            cluster: "demo".into(),
            kind: "Machine".into(),
            name: "demo-md-0".into(),
            ..JournalLine::default()
        }
    }

    fn call(outcome: &str, message: &str) -> JournalLine {
        JournalLine {
            operation: "CreateInstance".into(),
            caller: "infra".into(),
            outcome: outcome.into(),
            message: message.into(),
            ..machine()
        }
    }

    #[test]
    fn each_line_says_when_where_and_what() {
        let lines = [
            call("Accepted", ""),
            call("QuotaExceeded", "quota of 3 instances is used up"),
            JournalLine {
                faults: vec!["slow".into()],
                hit: true,
                ..call("Delayed", "ask again in 2s")
            },
            JournalLine {
                faults: vec!["out".into()],
                hit: true,
                ..call("InternalError", "internal error (Fault out)")
            },
            JournalLine {
                event: "StageReached".into(),
                message: "vm".into(),
                ..machine()
            },
            JournalLine {
                cluster: String::new(),
                kind: "Fault".into(),
                name: "slow".into(),
                event: "FaultEnded".into(),
                message: "Its time is over".into(),
                ..machine()
            },
        ];
        let story: String = lines.iter().map(text).collect();
        assert_eq!(
            story,
            "\
03:04:05.678  default/demo          Machine demo-md-0                 CreateInstance by infra
03:04:05.678  default/demo          Machine demo-md-0                 CreateInstance by infra: QuotaExceeded: quota of 3 instances is used up
03:04:05.678  default/demo          Machine demo-md-0                 CreateInstance by infra: Delayed: ask again in 2s (Fault slow)
03:04:05.678  default/demo          Machine demo-md-0                 CreateInstance by infra: InternalError: internal error (Fault out)
03:04:05.678  default/demo          Machine demo-md-0                 StageReached: vm
03:04:05.678  default               Fault slow                        FaultEnded: Its time is over
"
        );
    }
}
