use super::*;

const LIKE_AN_ADDRESS: &str = "spec.allocationPrefixLength=128 behaves like host-address allocation; consider \
                               InClusterIPPool for single-address semantics";
const GATEWAY_WITHIN: &str = "spec.gateway is within spec.prefixes and is not reserved; with /128 \
                              allocationPrefixLength it may also be allocated to claims";

fn spec(prefixes: &[&str], more: &Value) -> Value {
    let mut spec = json!({ "prefixes": prefixes });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    spec
}

fn plain(spec: &Value) -> Value {
    pool(spec, &json!({}))
}

#[tokio::test]
async fn bad_pools_are_refused_with_their_field() {
    let rows = [
        (
            "X1",
            json!({}),
            "spec.prefixes: Invalid value: []: prefixes is required",
        ),
        (
            "X2",
            spec(&["fd00::1"], &json!({})),
            r#"spec.prefixes: Invalid value: "fd00::1": provided entry is not a valid IPv6 CIDR"#,
        ),
        (
            "X3",
            spec(&["fd00::1/64"], &json!({})),
            "CIDR must be network-aligned",
        ),
        (
            "X4",
            spec(&["fd00::/65"], &json!({})),
            "CIDR prefix length must be <= allocationPrefixLength (64)",
        ),
        (
            "X5",
            spec(&["10.0.0.0/24"], &json!({})),
            "only IPv6 prefixes are supported",
        ),
        (
            "X6",
            spec(&["fd00::/64"], &json!({ "gateway": "10.0.0.1" })),
            "provided gateway must be IPv6",
        ),
        (
            "X7",
            spec(&["fd00::/64"], &json!({ "excludedPrefixes": ["10.0.0.1"] })),
            "only IPv6 excluded prefixes are supported",
        ),
        (
            "P2",
            spec(&["fd00::/64"], &json!({ "allocationPrefixLength": 129 })),
            "allocationPrefixLength must be between 1 and 128",
        ),
        (
            "P8",
            spec(&["fd00::/64"], &json!({ "excludedPrefixes": ["x"] })),
            "provided entry is not a valid IP, range, nor CIDR",
        ),
    ];
    let api = ManagementApi::start();
    for kind in kinds(true) {
        for (row, spec, text) in &rows {
            let (code, message) = ask(&api, kind, Ask::Create(plain(spec))).await.expect_err(row);
            assert_eq!(code, 422, "{row} {kind}");
            assert!(message.contains(text), "{row} {kind}: {message}");
        }
    }
}

#[tokio::test]
async fn good_pools_are_taken() {
    let api = ManagementApi::start();
    for kind in kinds(true) {
        let two = spec(&["fd00::/64", "fd01::/64"], &json!({}));
        assert_eq!(
            ask(&api, kind, Ask::Create(plain(&two))).await,
            ALLOWED,
            "X8 {kind}"
        );
        for length in [56, 96, 128, 64] {
            let spec = spec(&["fd00::/48"], &json!({ "allocationPrefixLength": length }));
            let asked = ask(&api, kind, Ask::Create(plain(&spec))).await;
            let warnings = if length == 128 {
                vec![LIKE_AN_ADDRESS.to_owned()]
            } else {
                Vec::new()
            };
            assert_eq!(asked, Ok(warnings), "X9-12 {kind} {length}");
        }
    }
}

#[tokio::test]
async fn allocated_prefixes_stay_allocatable() {
    let refused = |base: &str| -> Answer {
        Err((
            400,
            format!("existing allocations become non-allocatable: [{base}]"),
        ))
    };
    for kind in kinds(true) {
        let rows = [
            (
                "X15",
                "fd00::",
                "fd00::/62",
                spec(&["fd00:0:0:1::/64"], &json!({})),
                refused("fd00::"),
            ),
            (
                "X16",
                "fd10::",
                "fd10::/62",
                spec(&["fd10:0:0:1::/64"], &json!({})),
                refused("fd10::"),
            ),
            (
                "X17",
                "fd20::",
                "fd20::/62",
                spec(
                    &["fd20::/62"],
                    &json!({ "excludedPrefixes": ["fd20:0:0:2::/64"], "gateway": "fd20:0:0:1::1" }),
                ),
                ALLOWED,
            ),
            (
                "X19",
                "fd30::",
                "fd30::/62",
                spec(&["fd30::/62"], &json!({ "excludedPrefixes": ["fd30::/64"] })),
                refused("fd30::"),
            ),
        ];
        for (row, used, old, new, expected) in rows {
            let api = ManagementApi::start();
            use_address(&api, NAMESPACE, kind, used, 64).await;
            let old = plain(&spec(&[old], &json!({})));
            assert_eq!(
                ask(&api, kind, Ask::Update(old, plain(&new))).await,
                expected,
                "{row} {kind}"
            );
        }
    }
}

#[tokio::test]
async fn the_length_is_set_once() {
    let api = ManagementApi::start();
    let of_length = |length: i32| {
        plain(&spec(
            &["fd00::/48"],
            &json!({ "allocationPrefixLength": length }),
        ))
    };
    for kind in kinds(true) {
        let asked = ask(&api, kind, Ask::Update(of_length(56), of_length(64))).await;
        assert_eq!(
            asked,
            Err((400, "spec.allocationPrefixLength is immutable".to_owned())),
            "X18 {kind}"
        );
        // A missing length, zero and the default are the same.
        let unset = plain(&spec(&["fd00::/48"], &json!({})));
        for same in [of_length(0), of_length(64)] {
            assert_eq!(
                ask(&api, kind, Ask::Update(unset.clone(), same)).await,
                ALLOWED,
                "{kind}"
            );
        }
    }
}

#[tokio::test]
async fn prefixes_of_single_addresses_are_warned_of() {
    let api = ManagementApi::start();
    let single = json!({ "allocationPrefixLength": 128 });
    let with_gateway = json!({ "allocationPrefixLength": 128, "gateway": "fd40::1" });
    let both: Answer = Ok(vec![LIKE_AN_ADDRESS.to_owned(), GATEWAY_WITHIN.to_owned()]);
    for kind in kinds(true) {
        let create = |prefix: &str, more: &Value| Ask::Create(plain(&spec(&[prefix], more)));
        let update = |prefix: &str, old: &Value, new: &Value| {
            Ask::Update(plain(&spec(&[prefix], old)), plain(&spec(&[prefix], new)))
        };
        assert_eq!(
            ask(&api, kind, create("fd40::/64", &with_gateway)).await,
            both,
            "X20 {kind}"
        );
        assert_eq!(
            ask(&api, kind, update("fd40::/64", &single, &with_gateway)).await,
            both,
            "X21 {kind}"
        );
        assert_eq!(
            ask(&api, kind, create("fd50::/64", &json!({ "gateway": "fd51::1" }))).await,
            ALLOWED,
            "X22"
        );
        let added = update("fd50::/64", &json!({}), &json!({ "gateway": "fd51::1" }));
        assert_eq!(ask(&api, kind, added).await, ALLOWED, "X23 {kind}");
        let first: Answer = Ok(vec![LIKE_AN_ADDRESS.to_owned()]);
        assert_eq!(
            ask(&api, kind, create("fd60::/64", &single)).await,
            first,
            "X24 {kind}"
        );
    }
}

#[tokio::test]
async fn an_address_without_a_readable_prefix_blocks_nothing() {
    let api = ManagementApi::start();
    let kind = PoolKind::InClusterPrefixPool;
    use_address(&api, NAMESPACE, kind, "garbage", 64).await;
    use_address(&api, NAMESPACE, kind, "10.0.0.1", 24).await;
    use_address(&api, NAMESPACE, kind, "fd00::", 0).await;
    let old = plain(&spec(&["fd00::/62"], &json!({})));
    let new = plain(&spec(&["fd00:0:0:1::/64"], &json!({})));
    assert_eq!(ask(&api, kind, Ask::Update(old, new)).await, ALLOWED);
}
