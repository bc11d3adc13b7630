//! Port-forwards to the control plane's pods, end to end.

use nephele_cloud::Authorities;
use nephele_model::{Endpoint, MachineId, Role};
use rustls::pki_types::ServerName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::{
    support,
    support::{
        ECDSA, Http, RSA, World, admin, client_certificate, client_tls,
        etcd::{Etcd, Id, Members, Status},
        machine,
        spdy::{forward, try_forward},
    },
};

async fn http(endpoint: &Endpoint, authorities: &Authorities) -> Http {
    let tls = client_tls(
        &authorities.cluster,
        Some(&admin(&authorities.cluster)),
        &["http/1.1"],
    );
    Http::connect(endpoint, &tls).await.unwrap()
}

async fn etcd(endpoint: &Endpoint, authorities: &Authorities, node: &str) -> Etcd {
    let authority = authorities.etcd.as_ref().unwrap();
    let certificate = client_certificate(authority, "cluster-api.x-k8s.io", &[]);
    let tls = client_tls(authority, Some(&certificate), &["h2"]);
    let tunnel = forward(http(endpoint, authorities).await, &format!("etcd-{node}"), 2379).await;
    Etcd::connect(tunnel, &tls, node).await.unwrap()
}

#[tokio::test]
async fn etcd_members_are_listed_led_and_removed_through_tunnels() {
    let world = World::start(30_100..=30_109);
    for (name, authorities) in [("rsa", &*RSA), ("ecdsa", &*ECDSA)] {
        let (id, endpoint) = world.cluster(name, authorities);
        for node in ["cp-1", "cp-2", "cp-3"] {
            support::provide(&world.cloud, machine(&id, node, Role::ControlPlane)).unwrap();
        }
        let mut second = etcd(&endpoint, authorities, "cp-2").await;
        let listed: Members = second
            .call("Cluster/MemberList", &Status::default())
            .await
            .unwrap();
        let mut names: Vec<_> = listed.members.iter().map(|member| member.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["cp-1", "cp-2", "cp-3"]);
        let id_of = |name: &str| {
            listed
                .members
                .iter()
                .find(|member| member.name == name)
                .unwrap()
                .id
        };
        let status: Status = second
            .call("Maintenance/Status", &Status::default())
            .await
            .unwrap();
        let leader = listed
            .members
            .iter()
            .find(|member| member.id == status.leader)
            .unwrap()
            .name
            .clone();

        let target = ["cp-1", "cp-2", "cp-3"]
            .into_iter()
            .find(|name| *name != leader)
            .unwrap();
        let mut leading = etcd(&endpoint, authorities, &leader).await;
        let _: Status = leading
            .call("Maintenance/MoveLeader", &Id { id: id_of(target) })
            .await
            .unwrap();
        let status: Status = second
            .call("Maintenance/Status", &Status::default())
            .await
            .unwrap();
        assert_eq!(status.leader, id_of(target));

        let mut staying = etcd(&endpoint, authorities, target).await;
        let left: Members = staying
            .call("Cluster/MemberRemove", &Id { id: id_of(&leader) })
            .await
            .unwrap();
        assert_eq!(left.members.len(), 2);
        assert!(
            leading
                .call::<Status>("Maintenance/Status", &Status::default())
                .await
                .is_err()
        );
    }
    world.until("nephele_workload_tunnels", 0.0).await;
    world.stop().await;
}

#[tokio::test]
async fn etcd_refuses_clients_without_a_certificate_of_its_own_authority() {
    let world = World::start(30_110..=30_119);
    let (id, endpoint) = world.cluster("etcd", &ECDSA);
    support::provide(&world.cloud, machine(&id, "cp", Role::ControlPlane)).unwrap();
    let authority = ECDSA.etcd.as_ref().unwrap();
    let stranger = admin(&ECDSA.cluster);
    for certificate in [None, Some(&stranger)] {
        let tunnel = forward(http(&endpoint, &ECDSA).await, "etcd-cp", 2379).await;
        let tls = client_tls(authority, certificate, &["h2"]);
        // With TLS 1.3 the client's handshake ends before the server has checked the certificate, so the refusal comes
        // with the first response.
        let refused = match Etcd::connect(tunnel, &tls, "cp").await {
            Err(_) => true,
            Ok(mut etcd) => etcd
                .call::<Members>("Cluster/MemberList", &Status::default())
                .await
                .is_err(),
        };
        assert!(refused);
    }
    world.stop().await;
}

#[tokio::test]
async fn api_server_shows_the_certificate_of_its_machine() {
    let world = World::start(30_120..=30_129);
    let (id, endpoint) = world.cluster("probe", &RSA);
    support::provide(&world.cloud, machine(&id, "cp", Role::ControlPlane)).unwrap();
    let seen = world
        .cloud
        .observe_machine(&MachineId {
            cluster: id,
            name: "cp".into(),
        })
        .unwrap();
    let started = seen.reached(nephele_model::Stage::ApiServer).unwrap();
    let tls = client_tls(&RSA.cluster, None, &[]);
    for port in [6443, endpoint.port] {
        let tunnel = forward(http(&endpoint, &RSA).await, "kube-apiserver-cp", port).await;
        let stream = tls
            .connect(ServerName::try_from("cp").unwrap(), tunnel.stream)
            .await
            .unwrap();
        let shown = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
        let (_, certificate) = X509Certificate::from_der(&shown).unwrap();
        let name = certificate
            .subject()
            .iter_common_name()
            .next()
            .unwrap()
            .as_str()
            .unwrap();
        assert_eq!(name, "kube-apiserver");
        assert_eq!(
            certificate.validity().not_after.timestamp(),
            started.as_second() + 365 * 86_400
        );
        let addresses = certificate
            .subject_alternative_name()
            .unwrap()
            .unwrap()
            .value
            .general_names
            .len();
        assert!(addresses >= 9, "{addresses}");
    }
    world.stop().await;
}

#[tokio::test]
async fn tunnels_are_bounded_and_end_with_the_last_api_server() {
    let world = World::start(30_140..=30_149);
    let (id, endpoint) = world.cluster("many", &ECDSA);
    support::provide(&world.cloud, machine(&id, "cp", Role::ControlPlane)).unwrap();
    let mut tunnels = Vec::new();
    for _ in 0..64 {
        tunnels.push(forward(http(&endpoint, &ECDSA).await, "etcd-cp", 2379).await);
    }
    world.until("nephele_workload_tunnels", 64.0).await;
    let request = http::Request::post("/api/v1/namespaces/kube-system/pods/etcd-cp/portforward")
        .header("host", "127.0.0.1")
        .header("connection", "Upgrade")
        .header("upgrade", "SPDY/3.1")
        .header("x-stream-protocol-version", "portforward.k8s.io")
        .body(http_body_util::Full::default())
        .unwrap();
    let refused = http(&endpoint, &ECDSA).await.send(request).await.unwrap();
    assert_eq!(refused.status(), http::StatusCode::SERVICE_UNAVAILABLE);
    let machine = MachineId {
        cluster: id,
        name: "cp".into(),
    };
    assert_eq!(
        world.cloud.delete_machine(&machine).unwrap(),
        nephele_cloud::Deletion::Gone
    );
    world.until("nephele_workload_tunnels", 0.0).await;
    drop(tunnels);
    world.stop().await;
}

#[tokio::test]
async fn closed_port_is_refused_on_the_error_stream() {
    let world = World::start(30_130..=30_139);
    let (id, endpoint) = world.cluster("closed", &ECDSA);
    support::provide(&world.cloud, machine(&id, "cp", Role::ControlPlane)).unwrap();
    for (pod, port) in [
        ("etcd-cp", 2380),
        ("kube-scheduler-cp", 10_259),
        ("kube-apiserver-cp", 1),
    ] {
        let tunnel = forward(http(&endpoint, &ECDSA).await, pod, port).await;
        let said = tunnel.error.await.unwrap();
        assert!(
            said.contains("connection refused") && said.contains(&port.to_string()),
            "{said}"
        );
    }
    world.stop().await;
}

#[tokio::test]
async fn connections_inside_of_tunnels_take_places_as_others_do() {
    let world = World::start(30_160..=30_169);
    let (id, endpoint) = world.cluster("places", &ECDSA);
    support::provide(&world.cloud, machine(&id, "cp", Role::ControlPlane)).unwrap();
    let tls = client_tls(&ECDSA.cluster, Some(&admin(&ECDSA.cluster)), &["http/1.1"]);
    let mut open = Vec::new();
    for _ in 0..250 {
        let mut http = Http::connect(&endpoint, &tls).await.unwrap();
        assert_eq!(http.get("/version").await.unwrap().0, http::StatusCode::OK);
        open.push(http);
    }
    // The connection of a tunnel gives its place back when it is upgraded, and the connection inside of it takes one.
    let mut tunnels = Vec::new();
    while tunnels.len() <= 8
        && let Ok(http) = Http::connect(&endpoint, &tls).await
        && let Some(tunnel) = try_forward(http, "etcd-cp", 2379).await
    {
        tunnels.push(tunnel);
    }
    assert!(
        tunnels.len() <= 6,
        "{} tunnels beside 250 connections",
        tunnels.len()
    );
    drop((open, tunnels));
    world.stop().await;
}
