use std::sync::Arc;

use proptest::{collection::vec, option, prelude::*};
use serde_json::{Value, json};

use super::*;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).expect("an object"))
}

fn pool(spec: &Value) -> Value {
    json!({"metadata": {"namespace": "team", "name": "p"}, "spec": spec})
}

fn reference(kind: &str) -> Value {
    json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": kind, "name": "p"})
}

/// An address of the pool that a claim of the same name has.
fn address(kind: &str, name: &str, claim: &str, address: &str) -> Arc<IPAddress> {
    read(json!({
        "metadata": {"namespace": "team", "name": name},
        "spec": {"poolRef": reference(kind), "claimRef": {"name": claim}, "address": address, "prefix": 64},
    }))
}

fn claim(kind: &str, name: &str, more: &Value) -> Arc<IPAddressClaim> {
    let mut claim = json!({
        "metadata": {"namespace": "team", "name": name},
        "spec": {"poolRef": reference(kind), "clusterName": "demo"},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        match value {
            Value::Object(fields) if field == "metadata" => {
                for (name, value) in fields {
                    claim["metadata"][name] = value.clone();
                }
            }
            value => claim[field] = value.clone(),
        }
    }
    read(claim)
}

fn has(name: &str) -> Value {
    json!({"status": {"addressRef": {"name": name}}})
}

const KIND: &str = "InClusterIPPool";

/// A pool with an address of each kind.
fn objects() -> Objects {
    let going = json!({"metadata": {"deletionTimestamp": "2026-03-04T05:06:07Z"}, "status": {"addressRef": {"name": "b"}}});
    let refused = json!({"status": {"conditions": [
        {"type": "Ready", "status": "False", "reason": "PoolExhausted", "message": "no address is left",
         "lastTransitionTime": "2026-03-04T05:06:07Z"}]}});
    Objects {
        pools: vec![read(pool(&json!({
            "addresses": ["10.0.0.0/29"], "prefix": 29, "gateway": "10.0.0.1", "excludedAddresses": ["10.0.0.6"],
        })))],
        addresses: Some(vec![
            address(KIND, "a", "a", "10.0.0.2"),
            address(KIND, "b", "b", "10.0.0.3"),
            address(KIND, "c", "gone", "10.0.0.4"),
            address(KIND, "d", "d", "10.0.0.5"),
            address(KIND, "e", "e", "10.0.0.5"),
            address(KIND, "f", "f", "10.0.9.9"),
            address("GlobalInClusterIPPool", "g", "g", "10.0.0.6"),
        ]),
        claims: Some(vec![
            claim(KIND, "a", &has("a")),
            claim(KIND, "b", &going),
            claim(KIND, "d", &has("d")),
            claim(KIND, "e", &has("e")),
            claim(KIND, "f", &has("f")),
            claim(KIND, "w", &refused),
        ]),
        ..Objects::default()
    }
}

fn grid(objects: &Objects) -> Grid {
    let mut grids = Grids::new(objects, Some("team"));
    assert_eq!(grids.grids.len(), 1);
    grids.grids.remove(0)
}

#[test]
fn each_address_says_what_became_of_it() {
    let grid = grid(&objects());
    let says: Vec<_> = grid.cells.iter().map(|cell| cell.says.as_str()).collect();
    assert_eq!(
        says,
        [
            "10.0.0.0: reserved",
            "10.0.0.1: reserved",
            "10.0.0.2: used, claim a",
            "10.0.0.3: held back, claim b",
            "10.0.0.4: orphan, claim gone",
            "10.0.0.5: conflict, claim d",
            "10.0.0.6: excluded",
            "10.0.0.7: reserved",
        ]
    );
    assert_eq!(
        grid.counts,
        BTreeMap::from([
            (Slot::Used, 1),
            (Slot::HeldBack, 1),
            (Slot::Orphan, 1),
            (Slot::Conflict, 1),
            (Slot::Excluded, 1),
            (Slot::Reserved, 3),
        ])
    );
    assert_eq!((grid.per_cell, grid.out_of_range), (1, 1));
    let holders = grid
        .holders
        .iter()
        .map(|holder| (&*holder.address, &*holder.claim, &*holder.cluster));
    assert_eq!(
        holders.collect::<Vec<_>>(),
        [
            ("10.0.0.2", "a", "demo"),
            ("10.0.0.3", "b", "demo"),
            ("10.0.0.4", "gone", ""),
            ("10.0.0.5", "d", "demo"),
            ("10.0.0.5", "e", "demo"),
        ]
    );
    let waiting = Waiting {
        claim: "w".into(),
        reason: "PoolExhausted".into(),
        message: "no address is left".into(),
    };
    assert_eq!(grid.waiting, [waiting]);
}

#[test]
fn without_claims_an_address_is_no_orphan() {
    let mut objects = objects();
    objects.claims = None;
    let grids = Grids::new(&objects, None);
    assert!(!grids.is_complete);
    assert_eq!(grids.grids[0].counts.get(&Slot::Orphan), None);
    assert_eq!(grids.grids[0].counts.get(&Slot::Used), Some(&3));
}

#[test]
fn a_pool_of_prefixes_has_a_cell_for_each_prefix() {
    let objects = Objects {
        prefix_pools: vec![read(pool(&json!({
            "prefixes": ["fd00::/62"], "allocationPrefixLength": 64, "excludedPrefixes": ["fd00:0:0:3::1"],
        })))],
        addresses: Some(vec![address("InClusterPrefixPool", "a", "a", "fd00:0:0:1::")]),
        claims: Some(vec![claim("InClusterPrefixPool", "a", &has("a"))]),
        ..Objects::default()
    };
    let grid = grid(&objects);
    let says: Vec<_> = grid.cells.iter().map(|cell| cell.says.as_str()).collect();
    assert_eq!(
        says,
        [
            "fd00::/64: free",
            "fd00:0:0:1::/64: used, claim a",
            "fd00:0:0:2::/64: free",
            "fd00:0:0:3::/64: excluded",
        ]
    );
    assert_eq!(
        grid.counts,
        BTreeMap::from([(Slot::Free, 2), (Slot::Used, 1), (Slot::Excluded, 1)])
    );
    assert_eq!(grid.holders[0].address, "fd00:0:0:1::/64");
}

#[test]
fn a_large_pool_has_a_cell_for_each_part() {
    let objects = Objects {
        pools: vec![read(pool(&json!({"addresses": ["10.0.0.0/16"], "prefix": 16})))],
        addresses: Some(vec![
            address(KIND, "a", "a", "10.0.0.2"),
            address(KIND, "b", "b", "10.0.0.3"),
        ]),
        ..Objects::default()
    };
    let grid = grid(&objects);
    assert_eq!((grid.cells.len(), grid.per_cell, grid.is_cut), (1024, 64, false));
    let first = Cell {
        slot: Slot::Used,
        quarters: 1,
        says: "10.0.0.0-10.0.0.63: 2 of 64 held".into(),
    };
    assert_eq!(grid.cells[0], first);
    assert_eq!(grid.cells[1].slot, Slot::Free);
}

#[test]
fn the_largest_pools_and_many_ranges_have_a_bounded_number_of_cells() {
    let single = (0..9_000).map(|number| format!("10.{}.{}.1", number / 250, number % 250));
    for addresses in [vec!["::/0".to_owned()], single.collect()] {
        let objects = Objects {
            pools: vec![read(pool(&json!({"addresses": addresses, "prefix": 0})))],
            ..Objects::default()
        };
        let grid = grid(&objects);
        assert!(grid.cells.len() <= CELLS_MAX, "{}", grid.cells.len());
    }
}

#[test]
fn a_namespace_shows_its_pools_and_the_global_ones() {
    let global =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"addresses": ["10.1.0.1"], "prefix": 24}});
    let objects = Objects {
        global_pools: vec![read(global("all"))],
        ..objects()
    };
    let names = |namespace| {
        let grids = Grids::new(&objects, namespace).grids;
        grids
            .into_iter()
            .map(|grid| grid.key.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(None), ["/all", "team/p"]);
    assert_eq!(names(Some("team")), ["/all", "team/p"]);
    assert_eq!(names(Some("other")), ["/all"]);
}

/// An address of 10.0.0.0/26, or one near it.
fn near() -> impl Strategy<Value = String> {
    (0..70_u8).prop_map(|number| format!("10.0.0.{number}"))
}

proptest! {
    /// Each address of the pool is counted once, as the cell that it has says.
    #[test]
    fn counts_are_those_of_the_cells(
        ranges in vec((0..64_u8, 0..12_u8), 1..4), excluded in vec(near(), 0..6), gateway in option::of(near()),
        reserved: bool, used in vec(near(), 0..30),
    ) {
        let addresses: Vec<_> = ranges
            .iter()
            .map(|(first, more)| format!("10.0.0.{first}-10.0.0.{}", first + more))
            .collect();
        let spec = json!({
            "addresses": addresses, "prefix": 26, "excludedAddresses": excluded, "gateway": gateway.unwrap_or_default(),
            "allocateReservedIPAddresses": reserved,
        });
        let named = used.iter().enumerate().map(|(number, used)| {
            let name = format!("a-{number}");
            (claim(KIND, &name, &has(&name)), address(KIND, &name, &name, used))
        });
        let (claims, addresses): (Vec<_>, Vec<_>) = named.unzip();
        let objects = Objects {
            pools: vec![read(pool(&spec))],
            addresses: Some(addresses),
            claims: Some(claims),
            ..Objects::default()
        };
        let grid = grid(&objects);
        let mut counted: BTreeMap<Slot, u128> = BTreeMap::new();
        for cell in &grid.cells {
            *counted.entry(cell.slot).or_default() += 1;
        }
        prop_assert_eq!(&grid.counts, &counted);
        let shown = grid.holders.len() + grid.out_of_range;
        prop_assert_eq!(shown, used.len());
    }

    /// Specs got past the schema, or were written before there was one.
    #[test]
    fn no_spec_makes_it_panic(
        entries in vec("[0-9a-f.:/-]{0,12}|::/0|0.0.0.0/0|10.0.0.0/8|fd00::/8", 0..5), length: i32, prefix: i32, gateway in ".{0,8}",
    ) {
        let of_addresses = json!({"addresses": entries, "prefix": prefix, "gateway": gateway, "excludedAddresses": entries});
        let of_prefixes = json!({
            "prefixes": entries, "allocationPrefixLength": length, "gateway": gateway, "excludedPrefixes": entries,
        });
        let objects = Objects {
            pools: vec![read(pool(&of_addresses))],
            prefix_pools: vec![read(pool(&of_prefixes))],
            addresses: Some(vec![
                address(KIND, "a", "a", "10.0.0.1"),
                address("InClusterPrefixPool", "b", "b", "fd00::"),
                address(KIND, "c", "c", "nothing"),
            ]),
            ..Objects::default()
        };
        let grids = Grids::new(&objects, None).grids;
        prop_assert!(grids.iter().all(|grid| grid.cells.len() <= CELLS_MAX));
    }
}
