//! Many claims at once, and the number of writes for them.
//!
//! Time is paused: it jumps to the next timer, so that a busy machine only makes the test slower.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use nephele_api::ipam::{PoolKind, v1beta2::IPAddressClaim};
use nephele_testkit::objects::NAMESPACE;

use crate::world::{World, spec};

const CLAIMS: usize = 300;

/// The number of writes by verb, resource and response.
fn tally(world: &World) -> BTreeMap<String, usize> {
    let mut tally = BTreeMap::new();
    for write in world.api.take_writes() {
        *tally
            .entry(format!("{} {} {}", write.verb, write.resource, write.code))
            .or_default() += 1;
    }
    tally
}

#[tokio::test(start_paused = true)]
async fn a_claim_costs_three_writes_and_a_share_of_one_and_so_does_its_release() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.0/16"], 16, "10.0.0.1")).await;
    world.counts("pool", [65533, 0, 65533, 0]).await;
    let names: Vec<String> = (0..CLAIMS).map(|number| format!("claim-{number}")).collect();
    tally(&world);
    join_all(
        names
            .iter()
            .map(|name| world.claim(name, PoolKind::InClusterIPPool, "pool")),
    )
    .await;
    let bound = join_all(names.iter().map(|name| world.bound(name))).await;
    let addresses: BTreeSet<String> = bound.into_iter().map(|address| address.spec.address).collect();
    assert_eq!(addresses.len(), CLAIMS);
    world.counts("pool", [65533, 300, 65233, 0]).await;
    let mut writes = tally(&world);
    println!("{writes:?}");
    let of_pool = writes
        .remove("patch inclusterippools/status 200")
        .unwrap_or_default();
    let expected = [
        ("create ipaddressclaims 201", CLAIMS),
        ("create ipaddresses 201", CLAIMS),
        ("patch ipaddressclaims 200", CLAIMS),
        ("patch ipaddressclaims/status 200", CLAIMS),
    ];
    assert_eq!(
        writes,
        expected.map(|(write, times)| (write.to_owned(), times)).into()
    );
    assert!(of_pool <= CLAIMS / 5, "{of_pool} writes of the pool");

    join_all(
        names
            .iter()
            .map(|name| world.delete::<IPAddressClaim>(NAMESPACE, name)),
    )
    .await;
    join_all(
        names
            .iter()
            .map(|name| world.gone::<IPAddressClaim>(NAMESPACE, name)),
    )
    .await;
    world.counts("pool", [65533, 0, 65533, 0]).await;
    let mut writes = tally(&world);
    println!("{writes:?}");
    let of_pool = writes
        .remove("patch inclusterippools/status 200")
        .unwrap_or_default();
    let expected = [
        ("delete ipaddressclaims 200", CLAIMS),
        ("delete ipaddresses 200", CLAIMS),
        ("patch ipaddressclaims 200", CLAIMS),
        ("patch ipaddresses 200", CLAIMS),
    ];
    assert_eq!(
        writes,
        expected.map(|(write, times)| (write.to_owned(), times)).into()
    );
    assert!(of_pool <= CLAIMS / 5, "{of_pool} writes of the pool");
    world.stop().await;
}
