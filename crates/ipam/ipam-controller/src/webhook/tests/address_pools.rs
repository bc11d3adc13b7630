use super::*;

const REQUIRED: &str = "addresses is required";
const OTHER_SUBNET: &str = "provided address belongs to a different subnet than others";
const NOT_AN_ENTRY: &str = "provided address is not a valid IP, range, nor CIDR";
const MIXED_GATEWAY: &str = "provided gateway and addresses are of mixed IP families";
const MIXED: &str = "provided addresses are of mixed IP families";

fn spec(addresses: &[&str], prefix: i32, gateway: &str) -> Value {
    let mut spec = json!({ "addresses": addresses, "prefix": prefix });
    if !gateway.is_empty() {
        spec["gateway"] = gateway.into();
    }
    spec
}

fn with(mut spec: Value, field: &str, value: Value) -> Value {
    spec[field] = value;
    spec
}

fn plain(spec: &Value) -> Value {
    pool(spec, &json!({}))
}

fn used(address: &str) -> String {
    format!("pool addresses do not contain allocated addresses: [{address}-{address}]")
}

#[tokio::test]
async fn good_pools_are_created_changed_and_deleted() {
    let rows = [
        (
            "W4",
            spec(&["10.0.0.25", "10.0.0.26", "10.0.0.27"], 28, "10.0.0.24"),
        ),
        ("W5", spec(&["10.0.0.25", "10.0.0.26", "10.0.0.27"], 28, "")),
        (
            "W6",
            with(
                spec(&["10.0.0.25", "10.0.0.26", "10.0.0.27"], 28, ""),
                "excludedAddresses",
                json!(["10.0.0.23", "10.0.0.24"]),
            ),
        ),
        (
            "W7",
            spec(&["fe01::2", "fe01::3-fe01::5", "fe01::1:1/126"], 28, "fe01::1"),
        ),
        (
            "W8",
            spec(&["fe01::2", "fe01::3-fe01::5", "fe01::1:1/126"], 28, ""),
        ),
        (
            "W9",
            with(
                spec(&["fe01::2", "fe01::3-fe01::5", "fe01::1:1/126"], 28, ""),
                "excludedAddresses",
                json!(["fe01::4", "fe01::6-fe01::8", "fe01::1:10/126"]),
            ),
        ),
        (
            "W10",
            with(
                spec(&["10.0.0.25", "10.0.0.26"], 28, "10.0.0.24"),
                "addressReuseGracePeriodSeconds",
                json!(60),
            ),
        ),
        ("W33", spec(&["10.0.0.10-10.0.0.20"], 0, "10.0.0.1")),
        (
            "W33 without a prefix",
            json!({ "addresses": ["10.0.0.10-10.0.0.20"], "gateway": "10.0.0.1" }),
        ),
        ("E2", spec(&["10.0.0.10-10.0.0.20"], 24, "192.168.0.1")),
        (
            "E3",
            with(
                spec(&["10.0.0.10"], 24, ""),
                "excludedAddresses",
                json!(["10.0.0.0/24"]),
            ),
        ),
    ];
    let api = ManagementApi::start();
    for kind in kinds(false) {
        for (row, spec) in &rows {
            assert_eq!(
                ask(&api, kind, Ask::Create(plain(spec))).await,
                ALLOWED,
                "{row} {kind}"
            );
            let itself = Ask::Update(plain(spec), plain(spec));
            assert_eq!(ask(&api, kind, itself).await, ALLOWED, "{row} {kind}");
            let other = Ask::Update(
                plain(&json!({ "addresses": ["10.9.9.9"], "prefix": 8 })),
                plain(spec),
            );
            assert_eq!(ask(&api, kind, other).await, ALLOWED, "{row} {kind}");
            assert_eq!(
                ask(&api, kind, Ask::Delete(plain(spec))).await,
                ALLOWED,
                "{row} {kind}"
            );
        }
    }
}

#[tokio::test]
async fn bad_pools_are_neither_created_nor_made_of_good_ones_but_deleted() {
    let v4 = ["10.0.0.25", "10.0.0.26"];
    let rows = [
        ("W11", spec(&[], 24, "10.0.0.1"), REQUIRED),
        (
            "W12",
            spec(&["10.0.0.25", "10.0.0.26", "10.0.0.27"], 24, "invalid"),
            r#"spec.gateway: Invalid value: "invalid": ParseAddr("invalid"): unable to parse IP"#,
        ),
        (
            "W13",
            spec(&["10.0.0.25", "10.0.0.26", "10.0.1.27"], 24, "10.0.0.1"),
            OTHER_SUBNET,
        ),
        (
            "W14",
            spec(&["10.0.0.25", "10.0.0.26", "garbage"], 24, "10.0.0.1"),
            NOT_AN_ENTRY,
        ),
        ("W15", spec(&v4, -1, "10.0.0.1"), "a valid prefix is required"),
        ("W16", spec(&v4, 9999, "10.0.0.1"), "provided prefix is not valid"),
        ("W17", spec(&["10.0.0.10-10.0.0.5"], 24, "10.0.0.1"), NOT_AN_ENTRY),
        ("W18", spec(&["10.0.0.10/33"], 24, "10.0.0.1"), NOT_AN_ENTRY),
        (
            "W19",
            spec(&["10.0.1.0", "10.0.0.10-10.0.0.20"], 24, "10.0.0.1"),
            OTHER_SUBNET,
        ),
        (
            "W20",
            spec(&["10.0.1.0", "10.0.2.10-10.0.2.20"], 24, "10.0.0.1"),
            OTHER_SUBNET,
        ),
        (
            "W21",
            spec(&["10.0.1.0", "10.0.0.20-10.0.1.20"], 24, "10.0.0.1"),
            OTHER_SUBNET,
        ),
        (
            "W22",
            spec(&["10.0.1.0", "10.0.1.20-10.0.2.20"], 24, "10.0.0.1"),
            OTHER_SUBNET,
        ),
        (
            "W23",
            spec(&["10.0.1.0", "10.0.0.1/24"], 24, "10.0.0.1"),
            OTHER_SUBNET,
        ),
        (
            "W24",
            spec(&["10.0.1.0", "10.0.2.1/24"], 24, "10.0.0.1"),
            OTHER_SUBNET,
        ),
        (
            "W25",
            spec(&["10.0.1.0", "10.0.0.0/23"], 24, "10.0.0.1"),
            OTHER_SUBNET,
        ),
        (
            "W26",
            spec(&["10.0.1.0", "10.0.1.0/23"], 24, "10.0.0.1"),
            OTHER_SUBNET,
        ),
        (
            "W27",
            spec(&["10.0.1.0", "10.0.0.2-10.0.0.250"], 24, "fd00::1"),
            MIXED_GATEWAY,
        ),
        (
            "W28",
            spec(&["fd00::1", "fd00::100-fd00::200"], 24, "10.0.0.1"),
            MIXED_GATEWAY,
        ),
        (
            "W29",
            spec(
                &["fd00::1", "fd00::100-fd00::200", "10.0.0.2-10.0.0.250"],
                24,
                "10.0.0.1",
            ),
            MIXED,
        ),
        (
            "W30",
            with(
                spec(&v4, 24, ""),
                "excludedAddresses",
                json!(["fd00::1", "10.0.0.4"]),
            ),
            MIXED,
        ),
        (
            "W31",
            with(spec(&v4, 24, ""), "excludedAddresses", json!(["fd00::1"])),
            "addresses and excluded addresses are of mixed IP families",
        ),
        (
            "W32",
            with(
                spec(&["10.0.0.10-10.0.0.20"], 24, ""),
                "addressReuseGracePeriodSeconds",
                json!(-1),
            ),
            "addressReuseGracePeriodSeconds must not be negative",
        ),
        ("E5 leading zero", spec(&["10.0.0.010"], 24, ""), NOT_AN_ENTRY),
        ("E5 blank", spec(&[" 10.0.0.10"], 24, ""), NOT_AN_ENTRY),
        ("E5 empty", spec(&[""], 24, ""), NOT_AN_ENTRY),
    ];
    let good = plain(&spec(&["10.9.9.9"], 8, ""));
    let api = ManagementApi::start();
    for kind in kinds(false) {
        for (row, spec, text) in &rows {
            for ask_for in [Ask::Create(plain(spec)), Ask::Update(good.clone(), plain(spec))] {
                let (code, message) = ask(&api, kind, ask_for).await.expect_err(row);
                assert_eq!(code, 422, "{row} {kind}");
                assert!(message.contains(text), "{row} {kind}: {message}");
                let begin = format!("{kind}.ipam.cluster.x-k8s.io \"pool\" is invalid: ");
                assert!(message.starts_with(&begin), "{row} {kind}: {message}");
            }
            assert_eq!(
                ask(&api, kind, Ask::Delete(plain(spec))).await,
                ALLOWED,
                "{row} {kind}"
            );
        }
    }
}

#[tokio::test]
async fn the_whole_text_names_every_field_and_its_value() {
    let api = ManagementApi::start();
    let bad = with(
        with(
            spec(&["10.0.0.1", "x"], -1, "y"),
            "excludedAddresses",
            json!(["z"]),
        ),
        "addressReuseGracePeriodSeconds",
        json!(-5),
    );
    let (_, message) = ask(&api, PoolKind::InClusterIPPool, Ask::Create(plain(&bad)))
        .await
        .expect_err("bad");
    for part in [
        r#"spec.prefix: Invalid value: -1: a valid prefix is required"#,
        r#"spec.addresses: Invalid value: "x": provided address is not a valid IP, range, nor CIDR"#,
        r#"spec.gateway: Invalid value: "y": ParseAddr("y"): unable to parse IP"#,
        r#"spec.excludedAddresses: Invalid value: "z": provided address is not a valid IP, range, nor CIDR"#,
        "spec.addressReuseGracePeriodSeconds: Invalid value: -5: addressReuseGracePeriodSeconds must not be negative",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
}

#[tokio::test]
async fn what_is_in_use_stays_allocatable() {
    let whole = with(
        spec(&["10.0.0.10-10.0.0.20"], 24, "10.0.0.1"),
        "excludedAddresses",
        json!(["10.0.0.19"]),
    );
    for kind in kinds(false) {
        let api = ManagementApi::start();
        use_address(&api, NAMESPACE, kind, "10.0.0.10", 24).await;
        let refused: Answer = Err((400, used("10.0.0.10")));
        let rows = [
            (
                "W2",
                spec(&["10.0.0.15-10.0.0.20"], 24, "10.0.0.1"),
                refused.clone(),
            ),
            (
                "excluded",
                with(whole.clone(), "excludedAddresses", json!(["10.0.0.8-10.0.0.11"])),
                refused.clone(),
            ),
            (
                "made the gateway",
                with(whole.clone(), "gateway", json!("10.0.0.10")),
                refused.clone(),
            ),
            (
                "shrunk elsewhere",
                spec(&["10.0.0.10-10.0.0.12"], 24, "10.0.0.1"),
                ALLOWED,
            ),
            (
                "another gateway",
                with(whole.clone(), "gateway", json!("10.0.0.20")),
                ALLOWED,
            ),
            ("grown", spec(&["10.0.0.10-10.0.0.99"], 24, "10.0.0.1"), ALLOWED),
        ];
        for (row, new, expected) in rows {
            let asked = ask(&api, kind, Ask::Update(plain(&whole), plain(&new))).await;
            assert_eq!(asked, expected, "{row} {kind}");
        }
    }
}

#[tokio::test]
async fn a_reserved_address_in_use_keeps_reserved_addresses_allocatable() {
    let api = ManagementApi::start();
    let kind = PoolKind::InClusterIPPool;
    use_address(&api, NAMESPACE, kind, "10.0.0.0", 24).await;
    let old = with(
        spec(&["10.0.0.0/24"], 24, ""),
        "allocateReservedIPAddresses",
        json!(true),
    );
    let new = spec(&["10.0.0.0/24"], 24, "");
    let asked = ask(&api, kind, Ask::Update(plain(&old), plain(&new))).await;
    assert_eq!(asked, Err((400, used("10.0.0.0"))));
}

#[tokio::test]
async fn an_address_out_of_range_already_forbids_nothing_else() {
    for kind in kinds(false) {
        let api = ManagementApi::start();
        use_address(&api, NAMESPACE, kind, "10.0.0.99", 24).await;
        use_address(&api, NAMESPACE, kind, "10.0.0.10", 24).await;
        let spec_now = spec(&["10.0.0.10-10.0.0.20"], 24, "10.0.0.1");
        let annotated = pool(&spec_now, &json!({ "cluster.x-k8s.io/paused": "" }));
        let asked = ask(&api, kind, Ask::Update(plain(&spec_now), annotated)).await;
        assert_eq!(asked, ALLOWED, "E9 {kind}");
        let shrunk = plain(&spec(&["10.0.0.10-10.0.0.15"], 24, "10.0.0.1"));
        assert_eq!(
            ask(&api, kind, Ask::Update(plain(&spec_now), shrunk)).await,
            ALLOWED,
            "E9 {kind}"
        );
        let too_far = plain(&spec(&["10.0.0.15-10.0.0.20"], 24, "10.0.0.1"));
        let asked = ask(&api, kind, Ask::Update(plain(&spec_now), too_far)).await;
        assert_eq!(asked, Err((400, used("10.0.0.10"))), "E9 {kind}");
    }
}

#[tokio::test]
async fn a_pool_that_is_bad_already_can_lose_its_finalizer() {
    let api = ManagementApi::start();
    for kind in kinds(false) {
        let bad = spec(&["garbage"], 24, "");
        let mut held = plain(&bad);
        held["metadata"]["finalizers"] = json!(["ipam.cluster.x-k8s.io/ProtectPool"]);
        assert_eq!(
            ask(&api, kind, Ask::Update(held, plain(&bad))).await,
            ALLOWED,
            "{kind}"
        );
        let worse = plain(&spec(&["garbage", "rubbish"], 24, ""));
        ask(&api, kind, Ask::Update(plain(&bad), worse))
            .await
            .expect_err("still bad");
    }
}
