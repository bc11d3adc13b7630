use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn names(count: usize, first: &[&str]) -> Names {
    Names {
        count,
        first: first.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn report(free: i64, troubles: Troubles) -> Report {
    Report {
        counts: IPAddressCounts {
            total: 10,
            free,
            used: 10 - free,
            out_of_range: 0,
        },
        pending: Vec::new(),
        deleting: false,
        troubles,
        overlaps: None,
    }
}

/// Status, reason and message of `Ready`.
fn said(report: Report) -> (String, String, String) {
    let status = status(PoolStatus::default(), report, Some(3), at(1));
    let ready = conditions::find(&status.conditions, types::READY).expect("it is always said");
    (ready.status.clone(), ready.reason.clone(), ready.message.clone())
}

fn expect(status: &str, reason: &str, message: &str) -> (String, String, String) {
    (status.into(), reason.into(), message.into())
}

#[test]
fn a_pool_says_what_is_wrong_with_it() {
    assert_eq!(said(report(4, Troubles::default())), expect("True", "Ready", ""));
    let waiting = Troubles {
        waiting: 2,
        ..Troubles::default()
    };
    assert_eq!(said(report(0, Troubles::default())), expect("True", "Ready", ""));
    assert_eq!(
        said(report(0, waiting)),
        expect("False", "PoolExhausted", "No address is free, and 2 claims wait")
    );
    let fault = Troubles {
        fault: "spec.prefix: bad".into(),
        ..Troubles::default()
    };
    assert_eq!(
        said(report(0, fault)),
        expect("False", "InvalidConfiguration", "spec.prefix: bad")
    );
    let deleting = Report {
        deleting: true,
        ..report(9, Troubles::default())
    };
    assert_eq!(
        said(deleting),
        expect("False", "Deleting", "Waiting for 1 address to be released")
    );
    let troubles = Troubles {
        malformed: names(1, &["ns/bad"]),
        contested: names(5, &["ns/a", "ns/b", "ns/c"]),
        orphans: names(1, &["ns/left"]),
        ..Troubles::default()
    };
    assert_eq!(
        said(report(4, troubles)),
        expect(
            "True",
            "Ready",
            "1 IPAddresses cannot be read: ns/bad; 5 IPAddresses have an address that another one has too: ns/a, \
             ns/b, ns/c, …; 1 IPAddresses have no claim any more: ns/left"
        )
    );
}

#[test]
fn the_same_again_changes_nothing() {
    let first = status(
        PoolStatus::default(),
        report(4, Troubles::default()),
        Some(3),
        at(1),
    );
    let second = status(first.clone(), report(4, Troubles::default()), Some(3), at(9));
    assert_eq!(first, second);
}

#[test]
fn the_condition_lasts_as_long_as_the_overlap() {
    let overlapping = |others: &[&str]| Report {
        overlaps: Some(others.iter().map(|other| (*other).to_owned()).collect()),
        ..report(4, Troubles::default())
    };
    let told = status(
        PoolStatus::default(),
        overlapping(&["InClusterIPPool ns/b"]),
        None,
        at(1),
    );
    let condition = conditions::find(&told.conditions, OVERLAPPING).expect("told");
    assert_eq!(
        condition.message,
        "has addresses in common with InClusterIPPool ns/b"
    );
    let over = status(told, overlapping(&[]), None, at(2));
    assert_eq!(conditions::find(&over.conditions, OVERLAPPING), None);
}
