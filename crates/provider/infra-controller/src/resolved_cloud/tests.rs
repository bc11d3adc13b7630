use std::time::Duration;

use nephele_api::{
    cloud::v1alpha1::{CloudApi, CloudLatency, Region, SimulatedCloudSpec, Zone},
    infrastructure::v1beta2::{CloudReference, InMemoryClusterStatus},
};
use nephele_cloud::{ApiLimits, ClockSetting, Latencies, Latency};
use nephele_model::{Amount, CallRate, Distribution, GoDuration, Image, InstanceType, Quotas, Stage, Stock};
use nephele_testkit::objects;

use super::*;

fn cluster() -> InMemoryCluster {
    objects::in_memory_cluster(&objects::cluster("demo"))
}

fn cloud(spec: SimulatedCloudSpec) -> Arc<SimulatedCloud> {
    Arc::new(SimulatedCloud::new("north", spec))
}

fn zoned() -> Arc<SimulatedCloud> {
    let zone = |name: &str, control_plane| Zone {
        name: name.into(),
        control_plane,
    };
    let region = |name: &str, zones| Region {
        name: name.into(),
        zones,
    };
    cloud(SimulatedCloudSpec {
        regions: vec![
            region("n-2", vec![zone("n-2a", None)]),
            region("n-1", vec![zone("n-1b", Some(false)), zone("n-1a", Some(true))]),
        ],
        ..SimulatedCloudSpec::default()
    })
}

fn domain(name: &str, control_plane: bool, region: &str) -> FailureDomain {
    let attributes = [("region".to_owned(), region.to_owned())].into();
    FailureDomain {
        name: name.into(),
        control_plane: Some(control_plane),
        attributes,
    }
}

#[test]
fn a_cluster_lies_in_the_cloud_it_names_or_in_the_default_one_or_in_none() {
    let mut object = cluster();
    assert_eq!(cloud_name(&object), "default");
    assert_eq!(Location::of(&object, None), Location::BuiltIn);
    assert_eq!(Location::of(&object, Some(zoned())), Location::Cloud(zoned()));
    object.spec.cloud_ref = Some(CloudReference { name: "north".into() });
    assert_eq!(cloud_name(&object), "north");
    assert_eq!(Location::of(&object, None), Location::Missing("north".into()));
    assert_eq!(Location::of(&object, Some(zoned())), Location::Cloud(zoned()));
}

#[test]
fn zones_are_the_failure_domains_of_clusters_that_list_none() {
    let mut object = cluster();
    let zones = [
        domain("n-1a", true, "n-1"),
        domain("n-1b", false, "n-1"),
        domain("n-2a", true, "n-2"),
    ];
    let resolved_cloud = ResolvedCloud::new(&object, Location::Cloud(zoned()));
    assert_eq!(resolved_cloud.failure_domains, zones);
    assert_eq!(
        ["n-1b", "x"].map(|zone| resolved_cloud.region(zone)),
        [Some("n-1".into()), None]
    );
    assert_eq!(ResolvedCloud::new(&object, Location::BuiltIn).failure_domains, []);
    // A SimulatedCloud that is gone removes no failure domains.
    object.status = Some(InMemoryClusterStatus {
        failure_domains: zones.to_vec(),
        ..InMemoryClusterStatus::default()
    });
    assert_eq!(
        ResolvedCloud::new(&object, Location::Missing("north".into())).failure_domains,
        zones
    );
    let own = |name: &str| FailureDomain {
        name: name.into(),
        ..FailureDomain::default()
    };
    object.spec.failure_domains = vec![own("b"), own("a")];
    for location in [
        Location::Cloud(zoned()),
        Location::BuiltIn,
        Location::Missing("north".into()),
    ] {
        assert_eq!(
            ResolvedCloud::new(&object, location).failure_domains,
            [own("a"), own("b")]
        );
    }
}

#[test]
fn a_load_balancer_is_in_the_region_of_all_zones_for_control_planes_or_in_none() {
    let region = |domains: &[FailureDomain]| {
        ResolvedCloud {
            failure_domains: domains.to_vec(),
            ..ResolvedCloud::default()
        }
        .load_balancer_region()
    };
    let north = |name: &str| domain(name, true, "north");
    let edge = domain("edge", false, "edge");
    assert_eq!(
        region(&[north("a"), north("b"), edge.clone()]),
        Some("north".into())
    );
    assert_eq!(region(&[north("a"), domain("c", true, "south")]), None);
    let without = FailureDomain {
        attributes: [].into(),
        ..north("b")
    };
    for nowhere in [
        vec![],
        vec![edge],
        vec![without.clone()],
        vec![north("a"), without],
    ] {
        assert_eq!(region(&nowhere), None, "{nowhere:?}");
    }
}

#[test]
fn a_catalog_has_what_a_cloud_lists_and_what_is_built_in_where_it_lists_nothing() {
    let instance_types = vec![InstanceType {
        name: "m.large".into(),
        cpu: 4,
        memory: "8Gi".into(),
        architecture: "arm64".into(),
        price: Amount::parse("0.5").ok(),
        spot_price: Amount::parse("0.125").ok(),
        ..InstanceType::default()
    }];
    let images = vec![Image {
        name: "windows-2025".into(),
        kubernetes: vec!["1.36".into()],
        operating_system: "windows".into(),
    }];
    let quotas = Quotas {
        instances: Some(9),
        ..Quotas::default()
    };
    let stock = vec![Stock {
        zone: "a".into(),
        count: 7,
        ..Stock::default()
    }];
    let duration = |text| GoDuration::parse(text).expect("a duration");
    let fixed = Distribution::Fixed {
        duration: duration("5s"),
    };
    let spec = SimulatedCloudSpec {
        instance_types: instance_types.clone(),
        images: images.clone(),
        quotas,
        capacity: stock.clone(),
        seed: "otter".into(),
        latency: CloudLatency {
            node: Some(Box::new(fixed)),
            ..Default::default()
        },
        api: CloudApi {
            rate: Some(20),
            burst: Some(40),
            read_after_write_lag: Some(duration("2s")),
        },
        ..Default::default()
    };
    let expected = CloudSpec {
        instance_types,
        images,
        quotas,
        stock,
        seed: Some(Seed::new("otter")),
        latencies: Latencies {
            stages: [(Stage::Node.name(), Latency::Fixed(Duration::from_secs(5)))].into(),
            deletion: None,
        },
        clock: ClockSetting::default(),
        api: ApiLimits {
            calls: Some(CallRate {
                per_second: 20,
                burst: 40,
            }),
            read_after_write_lag: Duration::from_secs(2),
        },
    };
    assert_eq!(cloud_spec(&spec), expected);
    let built_in = built_in_cloud();
    assert_eq!(
        built_in.instance_types,
        SimulatedCloudSpec::default().instance_types().into_owned()
    );
    assert_eq!(
        (built_in.images, built_in.quotas, built_in.stock, built_in.seed),
        (vec![], Quotas::default(), vec![], None)
    );
}

#[test]
fn the_message_names_what_the_cloud_lacks_and_what_it_has() {
    let unknown = CloudError::UnknownImage {
        wanted: "debian".into(),
        known: vec!["ubuntu".into()],
    };
    assert_eq!(message(&unknown), "The cloud has no image debian; it has ubuntu");
    let missing = CloudError::UnknownCloud("north".into());
    assert_eq!(message(&missing), "SimulatedCloud north does not exist");
}

#[test]
fn a_cluster_without_a_cloud_has_the_default_catalog() {
    let of = |location| ResolvedCloud::new(&cluster(), location).cloud_spec().to_owned();
    let locations = [
        Location::BuiltIn,
        Location::Cloud(zoned()),
        Location::Missing("south".into()),
    ];
    assert_eq!(locations.map(of), ["default", "north", "south"]);
}

#[test]
fn an_offer_is_news_only_when_something_else_is_offered() {
    let id = ClusterId {
        namespace: "default".into(),
        name: "demo".into(),
    };
    let resolved_clouds = ResolvedClouds::default();
    assert_eq!(resolved_clouds.of(&id), None);
    let of = |location| Arc::new(ResolvedCloud::new(&cluster(), location));
    let mut reported = SimulatedCloud::clone(&zoned());
    reported.status = Some(nephele_api::cloud::v1alpha1::SimulatedCloudStatus::default());
    reported.spec.quotas.instances = Some(3);
    let news = [
        of(Location::BuiltIn),
        of(Location::BuiltIn),
        of(Location::Cloud(zoned())),
        of(Location::Cloud(Arc::new(reported))),
        of(Location::Cloud(cloud(SimulatedCloudSpec::default()))),
    ]
    .map(|resolved_cloud| resolved_clouds.note(&id, &resolved_cloud));
    assert_eq!(news, [true, false, true, false, true]);
    resolved_clouds.forget(&id);
    assert_eq!(resolved_clouds.of(&id), None);
}
