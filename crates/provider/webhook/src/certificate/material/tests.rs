use jiff::SignedDuration;

use super::{
    super::plan::{AUTHORITY_MARGIN, LEAF_MARGIN, SETTLED_AFTER},
    *,
};

fn start() -> Timestamp {
    "2026-11-21T08:00:00Z".parse().expect("a time")
}

fn names() -> Vec<String> {
    vec!["webhook.system.svc".to_owned(), "webhook.system".to_owned()]
}

fn at(stored: Option<Material>, now: Timestamp) -> Current {
    bring_up_to_date(stored, &names(), now).expect("made")
}

/// Whether a client that trusts the bundle accepts the leaf at this time.
fn is_trusted(bundle: &str, material: &Material, now: Timestamp) -> bool {
    use rustls::{
        RootCertStore,
        client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
        pki_types::{ServerName, UnixTime},
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(certificate.expect("PEM")).expect("an authority");
    }
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(std::sync::Arc::new(roots), provider)
        .build()
        .expect("a verifier");
    let second = u64::try_from(now.as_second()).expect("after 1970");
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(second));
    let name = ServerName::try_from("webhook.system.svc").expect("a name");
    let leaf = &material.leaf.as_ref().expect("a leaf").certificate;
    verifier.verify_server_cert(leaf, &[], &name, &[], now).is_ok()
}

#[test]
fn from_nothing_an_authority_and_a_leaf_are_made_at_once() {
    let made = at(None, start());
    assert!(made.changed);
    assert_eq!(made.until, start() + LEAF_VALIDITY - LEAF_MARGIN);
    assert!(is_trusted(
        &made.material.bundle(start()),
        &made.material,
        start()
    ));
    assert_eq!(made.material.leaf_not_after(), Some(start() + LEAF_VALIDITY));
}

#[test]
fn what_is_written_is_read_back_and_kept() {
    let made = at(None, start()).material;
    let read = Material::read(&made.write()).expect("readable");
    assert_eq!(read, made);
    let kept = at(Some(read), start() + SignedDuration::from_hours(1));
    assert!(!kept.changed);
    assert_eq!(kept.material, made);
}

#[test]
fn what_is_damaged_is_not_read() {
    let whole = at(None, start()).material.write();
    for (entry, value) in [(BUNDLE, ""), (BUNDLE, "x"), (AUTHORITY_KEY, "x")] {
        let mut damaged = whole.clone();
        damaged.insert(entry.to_owned(), ByteString(value.as_bytes().to_vec()));
        assert_eq!(Material::read(&damaged), None, "{entry}");
    }
    let stranger = at(None, start()).material.write();
    let mut mixed = whole.clone();
    mixed.insert(AUTHORITY_KEY.to_owned(), stranger[AUTHORITY_KEY].clone());
    assert_eq!(Material::read(&mixed), None);
    // A damaged leaf is renewed, and the authority is kept.
    for entry in [LEAF, LEAF_KEY] {
        let mut damaged = whole.clone();
        damaged.insert(entry.to_owned(), ByteString(b"x".to_vec()));
        let renewed = at(Material::read(&damaged), start());
        assert!(renewed.changed);
        assert_eq!(renewed.material.write()[BUNDLE], whole[BUNDLE]);
        assert!(is_trusted(
            &renewed.material.bundle(start()),
            &renewed.material,
            start()
        ));
    }
}

#[test]
fn a_leaf_for_other_names_is_issued_again() {
    let made = at(None, start()).material;
    let moved =
        bring_up_to_date(Some(made.clone()), &["webhook.elsewhere.svc".to_owned()], start()).expect("made");
    assert!(moved.changed);
    assert_eq!(moved.material.bundle(start()), made.bundle(start()));
    assert!(moved.material.leaf != made.leaf);
}

#[test]
fn over_ten_years_every_leaf_is_trusted_by_clients_with_the_bundle_of_one_turn_before() {
    let mut now = start();
    let mut current = at(None, now);
    let mut authorities = 1;
    let mut turns = 0;
    while now < start() + SignedDuration::from_hours(10 * 365 * 24) {
        // An API server may still have the bundle of the last turn when the new leaf is served.
        let bundle_before = current.material.bundle(now);
        let trusted_before = current.material.trusted.clone();
        now = current.until;
        current = at(Some(current.material), now);
        turns += 1;
        if current.material.trusted.first() != trusted_before.first() {
            authorities += 1;
            assert!(
                current.until <= now + SETTLED_AFTER,
                "a new authority does not issue at once"
            );
        }
        assert!(
            is_trusted(&bundle_before, &current.material, now),
            "turn {turns} at {now}"
        );
        assert!(
            is_trusted(&current.material.bundle(now), &current.material, now),
            "turn {turns} at {now}"
        );
        assert!(
            current.material.trusted.len() <= 2,
            "expired authorities are dropped with the next one"
        );
    }
    // Each authority is used for five years less the margin.
    assert_eq!(authorities, 3);
    assert!(turns < 10 * 12, "{turns}");
}

#[test]
fn an_expired_authority_is_no_longer_in_the_bundle() {
    let first = at(None, start());
    let due = start() + AUTHORITY_VALIDITY - AUTHORITY_MARGIN;
    let both = at(Some(first.material.clone()), due);
    let count = |material: &Material, now| material.bundle(now).matches("BEGIN CERTIFICATE").count();
    assert_eq!(count(&both.material, due), 2);
    assert_eq!(count(&both.material, start() + AUTHORITY_VALIDITY), 1);
}

#[test]
fn a_process_that_slept_over_everything_starts_afresh() {
    let late = start() + SignedDuration::from_hours(20 * 365 * 24);
    let made = at(Some(at(None, start()).material), late);
    assert!(is_trusted(&made.material.bundle(late), &made.material, late));
    assert_eq!(made.material.trusted.len(), 1);
}

#[test]
fn nothing_shows_a_key() {
    let material = at(None, start()).material;
    let key = material.authority.key_pem();
    let shown = format!("{material:?}");
    assert!(!shown.contains(&key) && !shown.contains("PRIVATE"), "{shown}");
}
