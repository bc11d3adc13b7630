//! Clusters as seen by their clients, over loopback.

use std::time::Duration;

use http::StatusCode;
use nephele_cloud::{
    Backend, Changed, Cloud, CloudConfig, ClusterError, ClusterSpec, Deletion, LoadBalancer, PreviousCluster,
};
use nephele_engine::{EventKind, Line, Record, Replay};
use nephele_model::{ClusterId, Endpoint, ErrorClass, MachineId, Role};
use prometheus::Registry;
use serde_json::json;
use tokio_stream::StreamExt as _;

use crate::{
    support,
    support::{ECDSA, Http, RSA, World, admin, client_certificate, client_tls, cluster, machine},
};

#[tokio::test]
async fn held_connection_proceeds_when_the_first_api_server_comes() {
    let world = World::start(30_000..=30_019);
    let spec = cluster("held");
    let id = spec.id.clone();
    let endpoint = world.cloud.ensure_cluster(spec).unwrap();
    let tls = client_tls(&ECDSA.cluster, Some(&admin(&ECDSA.cluster)), &["h2"]);
    let client = {
        let endpoint = endpoint.clone();
        tokio::spawn(async move { Http::connect(&endpoint, &tls).await.unwrap() })
    };
    // Without an authority there is no TLS handshake.
    world.until("nephele_workload_connections_held", 1.0).await;
    assert!(!client.is_finished());

    world.cloud.set_authorities(&id, ECDSA.clone()).unwrap();
    let mut http = client.await.unwrap();
    let waiting = tokio::spawn(async move { http.names("/api/v1/nodes").await });
    world.until("nephele_workload_connections", 1.0).await;
    assert!(!waiting.is_finished());
    support::provide(&world.cloud, machine(&id, "cp", Role::ControlPlane)).unwrap();
    assert_eq!(waiting.await.unwrap(), ["cp"]);
    world.stop().await;
}

#[tokio::test]
async fn connection_is_let_go_when_nothing_comes_in_time() {
    let world = World::start_with(30_020..=30_029, Duration::from_millis(20));
    let endpoint = world.cloud.ensure_cluster(cluster("late")).unwrap();
    let tls = client_tls(&ECDSA.cluster, None, &["h2"]);
    assert!(support::connect(&endpoint, &tls).await.is_err());

    // With an authority but no API server, requests time out instead.
    let (_, endpoint) = world.cluster("late-requests", &ECDSA);
    let tls = client_tls(&ECDSA.cluster, Some(&admin(&ECDSA.cluster)), &["h2"]);
    let mut http = Http::connect(&endpoint, &tls).await.unwrap();
    let (status, body) = http.get("/api/v1/namespaces/default/pods/own").await.unwrap();
    assert_eq!(
        (status, &body["reason"]),
        (StatusCode::SERVICE_UNAVAILABLE, &"ServiceUnavailable".into())
    );
    // The load balancer itself is healthy before it has a backend, and discovery is the same for every backend.
    for path in ["/", "/api", "/apis"] {
        assert_eq!(http.get(path).await.unwrap().0, StatusCode::OK, "{path}");
    }
    drop(http);
    world.stop().await;
}

#[tokio::test]
async fn client_of_a_certificate_is_authenticated_once() {
    let world = World::start(30_360..=30_369);
    let (id, endpoint) = world.cluster("groups", &ECDSA);
    support::provide(&world.cloud, machine(&id, "cp", Role::ControlPlane)).unwrap();
    let tls = client_tls(&ECDSA.cluster, Some(&admin(&ECDSA.cluster)), &["h2"]);
    let mut http = Http::connect(&endpoint, &tls).await.unwrap();
    let (status, review) = http
        .write(
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            &json!({}),
        )
        .await;
    let groups = json!(["system:masters", "system:authenticated"]);
    assert_eq!(
        (status, &review["status"]["userInfo"]["groups"]),
        (StatusCode::CREATED, &groups)
    );
    drop(http);
    world.stop().await;
}

#[tokio::test]
async fn client_is_known_by_a_certificate_of_the_cluster_and_by_nothing_else() {
    let world = World::start(30_030..=30_039);
    for (name, authorities, protocol) in [("rsa", &*RSA, "http/1.1"), ("ecdsa", &*ECDSA, "h2")] {
        let (id, endpoint) = world.cluster(name, authorities);
        support::provide(&world.cloud, machine(&id, "cp", Role::ControlPlane)).unwrap();
        let other = if name == "rsa" {
            &ECDSA.cluster
        } else {
            &RSA.cluster
        };
        let stranger = client_certificate(other, "kubernetes-admin", &["system:masters"]);
        let known = admin(&authorities.cluster);
        for (certificate, expected) in [
            (None, StatusCode::UNAUTHORIZED),
            (Some(&stranger), StatusCode::UNAUTHORIZED),
            (Some(&known), StatusCode::OK),
        ] {
            let tls = client_tls(&authorities.cluster, certificate, &[protocol]);
            let mut http = Http::connect(&endpoint, &tls).await.unwrap();
            let (status, body) = http.get("/api/v1/nodes").await.unwrap();
            assert_eq!(status, expected, "{name}: {body}");
            assert_eq!(http.get("/readyz").await.unwrap().0, StatusCode::OK);
            assert_eq!(http.get("/version").await.unwrap().1["gitVersion"], "v1.36.3");
        }
    }
    world.stop().await;
}

#[tokio::test]
async fn connections_without_a_certificate_cannot_fill_the_port_of_a_cluster() {
    let world = World::start(30_290..=30_299);
    let (id, endpoint) = world.cluster("filled", &ECDSA);
    support::provide(&world.cloud, machine(&id, "cp", Role::ControlPlane)).unwrap();
    let known = client_tls(&ECDSA.cluster, Some(&admin(&ECDSA.cluster)), &["h2"]);
    let mut http = Http::connect(&endpoint, &known).await.unwrap();
    let nameless = client_tls(&ECDSA.cluster, None, &["h2"]);
    let mut idle = Vec::new();
    for _ in 0..300 {
        // A connection may be closed during its handshake, to make room for the next one.
        idle.push(support::connect(&endpoint, &nameless).await);
    }
    let mut newcomer = Http::connect(&endpoint, &known).await.unwrap();
    for client in [&mut newcomer, &mut http] {
        assert_eq!(client.names("/api/v1/nodes").await, ["cp"]);
    }
    drop((http, newcomer, idle));
    world.stop().await;
}

#[tokio::test]
async fn ticket_of_one_cluster_does_not_open_another() {
    let world = World::start(30_040..=30_049);
    let (one, first) = world.cluster("one", &ECDSA);
    let (two, second) = world.cluster("two", &RSA);
    for id in [&one, &two] {
        support::provide(&world.cloud, machine(id, "cp", Role::ControlPlane)).unwrap();
    }
    // One client configuration, and so one ticket cache by host, for two clusters at the same host.
    let tls = client_tls(&ECDSA.cluster, Some(&admin(&ECDSA.cluster)), &["http/1.1"]);
    for _ in 0..2 {
        let mut http = Http::connect(&first, &tls).await.unwrap();
        assert_eq!(http.get("/api/v1/nodes").await.unwrap().0, StatusCode::OK);
    }
    let error = support::connect(&second, &tls).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    world.stop().await;
}

#[tokio::test]
async fn outage_ends_connections_and_holds_new_ones_until_it_is_over() {
    let world = World::start(30_050..=30_059);
    let (id, endpoint) = world.cluster("outage", &ECDSA);
    support::provide(&world.cloud, machine(&id, "cp-1", Role::ControlPlane)).unwrap();
    let tls = client_tls(&ECDSA.cluster, Some(&admin(&ECDSA.cluster)), &["h2"]);
    let mut before = Http::connect(&endpoint, &tls).await.unwrap();
    assert_eq!(before.names("/api/v1/nodes").await, ["cp-1"]);

    let first = MachineId {
        cluster: id.clone(),
        name: "cp-1".into(),
    };
    assert_eq!(world.cloud.delete_machine(&first).unwrap(), Deletion::Gone);
    assert_eq!(world.cloud.observe_cluster(&id).unwrap().backends, 0);
    world.until("nephele_workload_connections", 0.0).await;
    assert!(before.get("/api/v1/nodes").await.is_err());

    let after = {
        let endpoint = endpoint.clone();
        tokio::spawn(async move {
            Http::connect(&endpoint, &tls)
                .await
                .unwrap()
                .names("/api/v1/nodes")
                .await
        })
    };
    world.until("nephele_workload_connections_held", 1.0).await;
    support::provide(&world.cloud, machine(&id, "cp-2", Role::ControlPlane)).unwrap();
    assert_eq!(after.await.unwrap(), ["cp-2"]);
    world.stop().await;
}

#[tokio::test]
async fn load_balancer_leads_where_operations_say_and_the_journal_tells() {
    let world = World::start(30_300..=30_309);
    let cloud = &world.cloud;
    let mut journal = cloud.journal();
    let mut lines = journal.next().await;
    let (id, endpoint) = world.cluster("demo", &ECDSA);
    let led_to = || cloud.observe_cluster(&id).map(|seen| seen.backends);

    // An API server that is not registered gets no requests.
    let first = machine(&id, "cp", Role::ControlPlane);
    cloud.ensure_machine(first.clone()).unwrap();
    let seen = cloud.observe_machine(&first.id).unwrap();
    assert!(seen.reached(nephele_model::Stage::ApiServer).is_some());
    let address = seen
        .allocation
        .addresses
        .iter()
        .find(|address| address.kind == "InternalIP")
        .unwrap();
    let up = Backend {
        address: address.address.clone(),
        out_of_service: None,
    };
    let described = |backends: &[&str]| {
        let backends = backends
            .iter()
            .map(|&name| (name.to_owned(), up.clone()))
            .collect();
        Some(LoadBalancer {
            endpoint: endpoint.clone(),
            backends,
        })
    };
    assert_eq!(
        (led_to(), cloud.describe_load_balancer(&id).unwrap()),
        (Some(0), described(&[]))
    );
    cloud.register_backend(&first.id).unwrap();
    cloud.register_backend(&first.id).unwrap();
    let up = described(&["cp"]);
    assert_eq!(
        (led_to(), cloud.describe_load_balancer(&id).unwrap()),
        (Some(1), up)
    );
    cloud.deregister_backend(&first.id).unwrap();
    cloud.deregister_backend(&first.id).unwrap();
    assert_eq!(
        (led_to(), cloud.describe_load_balancer(&id).unwrap()),
        (Some(0), described(&[]))
    );
    // A machine that is deleted goes out of service, whether or not it is deregistered.
    cloud.register_backend(&first.id).unwrap();
    assert_eq!(cloud.delete_machine(&first.id).unwrap(), Deletion::Gone);
    assert_eq!(
        (led_to(), cloud.describe_load_balancer(&id).unwrap()),
        (Some(0), described(&[]))
    );
    cloud.register_backend(&first.id).unwrap();

    assert_eq!(cloud.delete_load_balancer(&id).unwrap(), Deletion::Gone);
    assert_eq!(cloud.describe_load_balancer(&id).unwrap(), None);
    assert_eq!(cloud.ensure_cluster(cluster("demo")).unwrap(), endpoint);
    assert_eq!(cloud.describe_load_balancer(&id).unwrap(), described(&[]));
    cloud.delete_cluster(&id);
    assert_eq!(cloud.describe_load_balancer(&id).unwrap(), None);

    world.stop().await;
    loop {
        let next = journal.next().await;
        if next.is_empty() {
            break;
        }
        lines.extend(next);
    }
    let told = |line: &Line| match line {
        Line::Record(entry) => match &entry.record {
            Record::Operation { operation, .. } => Some(operation.verb()),
            Record::Event(event) => match &event.kind {
                EventKind::BackendInService(_) => Some("in service"),
                EventKind::BackendOutOfService(_) => Some("out of service"),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    assert_eq!(
        lines.iter().filter_map(told).collect::<Vec<_>>(),
        [
            "CreateLoadBalancer",
            "CreateInstance",
            "RegisterBackend",
            "in service",
            "DeregisterBackend",
            "out of service",
            "RegisterBackend",
            "in service",
            "DeleteInstance",
            "out of service",
            // For a machine that is gone.
            "RegisterBackend",
            "DeleteLoadBalancer",
            // For a load balancer that is gone.
            "DescribeLoadBalancer",
            "CreateLoadBalancer",
            "DeleteLoadBalancer",
            "DescribeLoadBalancer",
        ]
    );
    let mut replay = Replay::default();
    lines
        .iter()
        .for_each(|line| replay.play(line).expect("no difference"));
    assert_eq!(replay.records(), lines.len() as u64 - 1);
}

#[tokio::test]
async fn a_cause_that_each_port_has_is_not_taken_for_a_port_in_use() {
    // An address for examples (RFC 5737), which this machine does not have.
    let config = CloudConfig {
        bind_address: [192, 0, 2, 1].into(),
        ..support::config(30_062..=30_069)
    };
    let (cloud, driver) = Cloud::start(config, &Registry::new()).unwrap();
    let driver = tokio::spawn(driver);
    cloud.reserve_endpoints([]);
    let mut published = cluster("published");
    published.endpoint = Some(Endpoint {
        host: "127.0.0.1".into(),
        port: 30_065,
    });
    for (spec, tried) in [(cluster("first"), 30_062), (published, 30_065)] {
        let error = cloud.ensure_cluster(spec).unwrap_err();
        assert!(
            matches!(error, ClusterError::Listen { port, .. } if port == tried),
            "{error:?}"
        );
        let cause = std::error::Error::source(&error)
            .map(ToString::to_string)
            .unwrap_or_default();
        assert_eq!(error.to_string(), format!("failed to listen on port {tried}"));
        assert!(cause.starts_with("Cannot assign requested address"), "{cause}");
        assert_eq!(error.category(), "ListenFailed");
    }
    cloud.shutdown().await;
    driver.await.unwrap();
}

#[tokio::test]
async fn all_addresses_are_those_of_ipv6_and_ipv4() {
    let all = std::net::Ipv6Addr::UNSPECIFIED.into();
    let config = CloudConfig {
        bind_address: all,
        ..support::config(30_070..=30_070)
    };
    let (cloud, driver) = Cloud::start(config, &Registry::new()).unwrap();
    let driver = tokio::spawn(driver);
    cloud.reserve_endpoints([]);
    cloud.ensure_cluster(cluster("first")).unwrap();
    // A machine may have no IPv6.
    let has_ipv6 = std::net::TcpListener::bind("[::1]:0").is_ok();
    for (host, answers) in [("127.0.0.1", true), ("::1", has_ipv6)] {
        assert_eq!(
            tokio::net::TcpStream::connect((host, 30_070)).await.is_ok(),
            answers,
            "{host}"
        );
    }
    cloud.shutdown().await;
    driver.await.unwrap();
}

#[tokio::test]
async fn port_of_a_deleted_cluster_is_given_to_the_next() {
    let world = World::start(30_060..=30_060);
    let (id, endpoint) = world.cluster("first", &ECDSA);
    assert_eq!(
        endpoint,
        Endpoint {
            host: "127.0.0.1".into(),
            port: 30_060
        }
    );
    assert_eq!(world.cloud.ensure_cluster(cluster("first")).unwrap(), endpoint);
    let error = world.cloud.ensure_cluster(cluster("second")).unwrap_err();
    assert!(matches!(
        error,
        ClusterError::PortsExhausted {
            first: 30_060,
            last: 30_060
        }
    ));
    let mut published = cluster("third");
    published.endpoint = Some(endpoint.clone());
    let error = world.cloud.ensure_cluster(published.clone()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to listen on port 30060: it belongs to cluster default/first"
    );
    assert_eq!(error.category(), "PortInUse");

    world.cloud.delete_cluster(&id);
    world.cloud.delete_cluster(&id);
    assert_eq!(world.cloud.observe_cluster(&id), None);
    // The port now belongs to the third cluster, which was published with it, whoever asks first.
    let error = world.cloud.ensure_cluster(cluster("second")).unwrap_err();
    assert!(matches!(error, ClusterError::PortsExhausted { .. }));
    support::eventually("the port is free", || {
        world.cloud.ensure_cluster(published.clone()).is_ok()
    })
    .await;
    world.stop().await;
}

/// Two tenants of one manager. What is only reserved counts, and the refusals do not name the other namespace.
#[tokio::test]
async fn a_namespace_has_its_share_of_the_ports_and_no_more() {
    let config = CloudConfig {
        clusters_max: Some(2),
        moved_ports: vec![],
        ..support::config(30_360..=30_363)
    };
    let (cloud, driver) = Cloud::start(config, &Registry::new()).unwrap();
    tokio::spawn(driver);
    let of = |namespace: &str, name: &str, port: u16| {
        let id = ClusterId {
            namespace: namespace.into(),
            name: name.into(),
        };
        let endpoint = (port != 0).then(|| Endpoint {
            host: "127.0.0.1".into(),
            port,
        });
        ClusterSpec {
            id,
            endpoint,
            ..cluster(name)
        }
    };
    let previous = |name: &str, port| PreviousCluster {
        id: of("hostile", name, 0).id,
        port,
        cloud_spec: None,
    };
    cloud.reserve_endpoints((0..9).map(|number| previous(&format!("c{number}"), 30_360 + number % 4)));
    cloud.reserve_endpoint(previous("late", 30_362));
    let refused = |spec: ClusterSpec| cloud.ensure_cluster(spec).unwrap_err();
    let error = refused(of("hostile", "new", 0));
    assert_eq!(
        (error.to_string().as_str(), error.category(), error.class()),
        (
            "failed to find a port: the namespace has 2 clusters, the most that it may have (--max-clusters-per-namespace)",
            "ClustersMax",
            ErrorClass::RetryAfter(Duration::from_secs(5)),
        )
    );
    let taken = refused(of("own", "c", 30_360)).to_string();
    assert_eq!(
        taken,
        "failed to listen on port 30360: it belongs to a cluster of another namespace"
    );
    let outside = refused(of("own", "d", 30_364));
    assert_eq!(
        (outside.to_string().as_str(), outside.class()),
        (
            "failed to listen on port 30364: this manager does not serve it (--workload-ports, --moved-ports)",
            ErrorClass::WaitForChange,
        )
    );
    // It stood in the line for the port, which counts, too.
    cloud.delete_cluster(&of("own", "c", 0).id);
    for (name, port) in [("a", 30_362), ("b", 30_363)] {
        assert_eq!(cloud.ensure_cluster(of("own", name, 0)).unwrap().port, port);
    }
    cloud.shutdown().await;
}

#[tokio::test]
async fn ports_of_clusters_that_are_not_back_yet_are_not_given_to_others() {
    let world = World::start_unprepared(30_080..=30_083);
    // A cluster with a published endpoint gets it before the ports of all clusters are known.
    let at = |port| {
        Some(Endpoint {
            host: "127.0.0.1".into(),
            port,
        })
    };
    let early = ClusterSpec {
        endpoint: at(30_083),
        ..cluster("early")
    };
    assert_eq!(world.cloud.ensure_cluster(early).unwrap().port, 30_083);
    let error = world.cloud.ensure_cluster(cluster("new")).unwrap_err();
    assert!(matches!(error, ClusterError::PortsUnknown), "{error}");
    assert_eq!(error.class(), ErrorClass::RetryAfter(Duration::from_secs(1)));

    let paused = cluster("paused").id;
    let previous = |id: &ClusterId, port| PreviousCluster {
        id: id.clone(),
        port,
        cloud_spec: None,
    };
    world
        .cloud
        .reserve_endpoints([previous(&paused, 30_080), previous(&cluster("late").id, 30_081)]);
    assert_eq!(world.cloud.ensure_cluster(cluster("new")).unwrap().port, 30_082);
    let late = ClusterSpec {
        endpoint: at(30_081),
        ..cluster("late")
    };
    assert_eq!(world.cloud.ensure_cluster(late).unwrap().port, 30_081);
    // The cluster never ran, and its object is gone.
    world.cloud.delete_cluster(&paused);
    assert_eq!(world.cloud.ensure_cluster(cluster("next")).unwrap().port, 30_080);
    world.stop().await;
}

#[tokio::test]
async fn port_of_another_process_is_passed_over() {
    let foreign = std::net::TcpListener::bind(("127.0.0.1", 30_070)).unwrap();
    let world = World::start(30_070..=30_071);
    assert_eq!(world.cloud.ensure_cluster(cluster("a")).unwrap().port, 30_071);
    let mut published = cluster("b");
    published.endpoint = Some(Endpoint {
        host: String::new(),
        port: 30_070,
    });
    let error = world.cloud.ensure_cluster(published.clone()).unwrap_err();
    assert!(matches!(
        error,
        ClusterError::PortInUse {
            port: 30_070,
            source: Some(_)
        }
    ));
    drop(foreign);
    assert_eq!(world.cloud.ensure_cluster(published).unwrap().port, 30_070);
    world.stop().await;
}

#[tokio::test]
async fn twenty_rounds_of_clusters_leave_nothing_behind() {
    let world = World::start(30_310..=30_329);
    let mut changes = world.cloud.changes();
    for round in 0..20 {
        let (id, endpoint) = world.cluster(&format!("round-{round}"), &ECDSA);
        support::provide(&world.cloud, machine(&id, "cp", Role::ControlPlane)).unwrap();
        support::provide(&world.cloud, machine(&id, "worker", Role::Worker)).unwrap();
        let tls = client_tls(&ECDSA.cluster, Some(&admin(&ECDSA.cluster)), &["h2"]);
        let mut http = Http::connect(&endpoint, &tls).await.unwrap();
        assert_eq!(http.names("/api/v1/nodes").await, ["cp", "worker"]);
        // A watch and a tunnel are open, and another connection has sent nothing.
        let mut watching = Http::connect(&endpoint, &tls).await.unwrap();
        let request = http::Request::get("https://127.0.0.1/api/v1/nodes?watch=1")
            .body(Default::default())
            .unwrap();
        let watch = watching.send(request).await.unwrap();
        let one = client_tls(&ECDSA.cluster, Some(&admin(&ECDSA.cluster)), &["http/1.1"]);
        let tunnel =
            support::spdy::forward(Http::connect(&endpoint, &one).await.unwrap(), "etcd-cp", 2379).await;
        let silent = tokio::net::TcpStream::connect(("127.0.0.1", endpoint.port))
            .await
            .unwrap();
        world.cloud.delete_cluster(&id);
        support::eventually("no task is left", || world.cloud.task_count() == 0).await;
        drop((watch, tunnel, silent));
    }
    for gauge in [
        "clusters",
        "machines",
        "machine_stages_reached",
        "workload_connections",
        "workload_connections_held",
    ] {
        assert_eq!(world.gauge(&format!("nephele_{gauge}")), 0.0, "{gauge}");
    }
    let mut told = 0;
    while let Ok(Some(change)) = tokio::time::timeout(Duration::from_millis(1), changes.next()).await {
        assert_ne!(change, Changed::Everything);
        told += 1;
    }
    assert!(told >= 20 * 4, "{told}");
    world.stop().await;
}
