use nephele_api::cloud::v1alpha1::{Image, InstanceType, Region, SimulatedCloudSpec, Zone};
use nephele_api::infrastructure::v1beta2::{CloudReference, InMemoryClusterStatus};
use nephele_testkit::objects;

use super::*;

fn cluster() -> InMemoryCluster {
    objects::in_memory_cluster(&objects::cluster("demo"))
}

fn cloud(spec: SimulatedCloudSpec) -> Arc<SimulatedCloud> {
    Arc::new(SimulatedCloud::new("north", spec))
}

fn zoned() -> Arc<SimulatedCloud> {
    let zone = |name: &str, control_plane| Zone { name: name.into(), control_plane };
    let region = |name: &str, zones| Region { name: name.into(), zones };
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
    FailureDomain { name: name.into(), control_plane: Some(control_plane), attributes }
}

fn model<'a>(instance_type: &'a str, image: &'a str) -> Model<'a> {
    Model { instance_type, image, version: Some("v1.36.3") }
}

#[test]
fn a_cluster_lies_in_the_cloud_it_names_or_in_the_default_one_or_in_none() {
    let mut object = cluster();
    assert_eq!(cloud_name(&object), "default");
    assert_eq!(Place::of(&object, None), Place::BuiltIn);
    assert_eq!(Place::of(&object, Some(zoned())), Place::Cloud(zoned()));
    object.spec.cloud_ref = Some(CloudReference { name: "north".into() });
    assert_eq!(cloud_name(&object), "north");
    assert_eq!(Place::of(&object, None), Place::Missing("north".into()));
    assert_eq!(Place::of(&object, Some(zoned())), Place::Cloud(zoned()));
}

#[test]
fn zones_are_the_failure_domains_of_clusters_that_list_none() {
    let mut object = cluster();
    let zones = [domain("n-1a", true, "n-1"), domain("n-1b", false, "n-1"), domain("n-2a", true, "n-2")];
    let offer = Offer::new(&object, Place::Cloud(zoned()));
    assert_eq!(offer.failure_domains, zones);
    assert_eq!(["n-1b", "x"].map(|zone| offer.region(zone)), [Some("n-1".into()), None]);
    assert_eq!(Offer::new(&object, Place::BuiltIn).failure_domains, []);
    // A cloud that is not there any more takes nothing away.
    object.status =
        Some(InMemoryClusterStatus { failure_domains: zones.to_vec(), ..InMemoryClusterStatus::default() });
    assert_eq!(Offer::new(&object, Place::Missing("north".into())).failure_domains, zones);
    let own = |name: &str| FailureDomain { name: name.into(), ..FailureDomain::default() };
    object.spec.failure_domains = vec![own("b"), own("a")];
    for place in [Place::Cloud(zoned()), Place::BuiltIn, Place::Missing("north".into())] {
        assert_eq!(Offer::new(&object, place).failure_domains, [own("a"), own("b")]);
    }
}

#[test]
fn a_machine_consists_of_what_its_type_and_its_image_say() {
    let plain = |name: &str, cpu, memory: &str| InstanceType {
        name: name.into(),
        cpu,
        memory: memory.into(),
        ..InstanceType::default()
    };
    let types = vec![InstanceType { architecture: "arm64".into(), ..plain("m.large", 4, "8Gi") }];
    let windows = Image {
        name: "windows-2025".into(),
        kubernetes: vec!["1.36".into()],
        operating_system: "windows".into(),
    };
    let spec = SimulatedCloudSpec { instance_types: types, images: vec![windows], ..Default::default() };
    let offer = Offer::new(&cluster(), Place::Cloud(cloud(spec)));
    let numbers = |cpu: &str, memory: &str| {
        let pairs = [("cpu", cpu), ("memory", memory), ("ephemeral-storage", "40Gi"), ("pods", "110")];
        pairs.map(|(name, quantity)| (name.to_owned(), quantity.to_owned())).into()
    };
    let expected = Hardware {
        architecture: "arm64".into(),
        operating_system: "windows".into(),
        capacity: numbers("4", "8Gi"),
    };
    assert_eq!(offer.hardware(model("m.large", "windows-2025")), Ok(expected));
    assert_eq!(offer.hardware(model("", "")), Ok(Hardware::default()));
    // What a cloud does not list is built in; any image will do then.
    let large = Hardware { capacity: numbers("8", "16Gi"), ..Hardware::default() };
    assert_eq!(Offer::default().hardware(model("large", "anything")), Ok(large));
}

#[test]
fn what_a_cloud_does_not_have_is_named_with_what_it_has() {
    let image =
        Image { name: "ubuntu".into(), kubernetes: vec!["1.34".into(), "1.35".into()], ..Image::default() };
    let own = |number: u32| InstanceType { name: format!("m{number}"), ..InstanceType::default() };
    let spec = SimulatedCloudSpec {
        instance_types: (0..14).map(own).collect(),
        images: vec![image],
        ..SimulatedCloudSpec::default()
    };
    let offer = Offer::new(&cluster(), Place::Cloud(cloud(spec)));
    let missing = Offer { place: Place::Missing("north".into()), ..Offer::default() };
    for (offer, model, reason, message) in [
        (
            &offer,
            model("large", ""),
            "UnknownInstanceType",
            "The cloud has no instance type large; it has m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11 and 2 more",
        ),
        (&offer, model("m1", "debian"), "UnknownImage", "The cloud has no image debian; it has ubuntu"),
        (
            &offer,
            model("m1", "ubuntu"),
            "UnsupportedKubernetesVersion",
            "The image ubuntu has no Kubernetes v1.36.3; it has 1.34, 1.35",
        ),
        (&missing, model("", ""), "CloudNotFound", "The SimulatedCloud north is not there"),
    ] {
        let unknown = offer.hardware(model).expect_err(reason);
        assert_eq!((unknown.reason(), unknown.message().as_str()), (reason, message));
    }
    // Whoever asks for no version in particular, as a template does, gets the image.
    let any = Model { version: None, ..model("m1", "ubuntu") };
    assert!(offer.hardware(any).is_ok());
}

#[test]
fn an_offer_is_news_only_when_something_else_is_offered() {
    let id = ClusterId { namespace: "default".into(), name: "demo".into() };
    let offers = Offers::default();
    assert_eq!(offers.of(&id), None);
    let of = |place| Arc::new(Offer::new(&cluster(), place));
    let mut reported = SimulatedCloud::clone(&zoned());
    reported.status = Some(nephele_api::cloud::v1alpha1::SimulatedCloudStatus::default());
    let news = [
        of(Place::BuiltIn),
        of(Place::BuiltIn),
        of(Place::Cloud(zoned())),
        of(Place::Cloud(Arc::new(reported))),
        of(Place::Cloud(cloud(SimulatedCloudSpec::default()))),
    ]
    .map(|offer| offers.note(&id, &offer));
    assert_eq!(news, [true, false, true, false, true]);
    offers.forget(&id);
    assert_eq!(offers.of(&id), None);
}
