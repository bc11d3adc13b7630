//! Property tests: no conversion loses data.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::{
    api::resource::Quantity,
    apis::meta::v1::{Condition as NewCondition, MicroTime, ObjectMeta, Time},
};
use nephele_model::{Fraction, GoDuration};
use proptest::{
    collection::{btree_map, vec},
    option,
    prelude::*,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use v1beta2::{
    creation_record::{ClusterCreationRecord, CreationRecord, MachineHardware, SeedKey},
    deletion::Deletion,
    instance::InstanceRecord,
    kubeadm::{Kubeadm, KubeadmCluster, Taint},
    termination::Termination,
    update::{Files, Software, Update},
};

use crate::infrastructure::{conversion::convert, v1beta1, v1beta2};

const OLD: &str = "infrastructure.cluster.x-k8s.io/v1beta1";
const NEW: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

fn word() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z.é\"]{1,4}"]
}

fn words() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(word(), word(), 0..3)
}

fn metadata() -> impl Strategy<Value = ObjectMeta> {
    option::of(btree_map("[a-z]{1,3}", word(), 1..3)).prop_map(|annotations| ObjectMeta {
        name: Some("one".to_owned()),
        annotations,
        ..ObjectMeta::default()
    })
}

fn template_metadata() -> impl Strategy<Value = v1beta2::TemplateMetadata> {
    (words(), words()).prop_map(|(labels, annotations)| v1beta2::TemplateMetadata { labels, annotations })
}

fn host_and_port() -> impl Strategy<Value = (String, i32)> {
    (word(), prop_oneof![Just(0), any::<i32>()])
}

fn pool() -> impl Strategy<Value = v1beta2::PoolReference> {
    (word(), word(), word()).prop_map(|(api_group, kind, name)| v1beta2::PoolReference {
        api_group,
        kind,
        name,
    })
}

fn claimed() -> impl Strategy<Value = v1beta2::ClaimedAddress> {
    (word(), option::of(any::<i32>()), word()).prop_map(|(address, prefix, gateway)| {
        v1beta2::ClaimedAddress {
            address,
            prefix,
            gateway,
        }
    })
}

fn cluster_network() -> impl Strategy<Value = Option<v1beta2::ClusterNetwork>> {
    let network = |control_plane_address_from_pool| v1beta2::ClusterNetwork {
        control_plane_address_from_pool,
    };
    option::of(option::of(pool()).prop_map(network))
}

fn cluster_network_status() -> impl Strategy<Value = Option<v1beta2::ClusterNetworkStatus>> {
    let network = |control_plane_address| v1beta2::ClusterNetworkStatus {
        control_plane_address,
    };
    option::of(option::of(claimed()).prop_map(network))
}

fn load_balancer() -> impl Strategy<Value = Option<v1beta2::LoadBalancerStatus>> {
    let backend = (word(), word(), any::<bool>(), word(), word()).prop_map(
        |(name, address, in_service, reason, message)| v1beta2::Backend {
            name,
            address,
            in_service,
            reason,
            message,
        },
    );
    let status = |(backends, other_backends)| v1beta2::LoadBalancerStatus {
        backends,
        other_backends,
    };
    option::of((vec(backend, 0..3), any::<i64>()).prop_map(status))
}

fn failure_domain_list() -> impl Strategy<Value = Vec<v1beta2::FailureDomain>> {
    let domain = ("[a-c]{0,1}", option::of(any::<bool>()), words());
    vec(domain, 0..4).prop_map(|domains| {
        let domains = domains.into_iter();
        domains
            .map(|(name, control_plane, attributes)| v1beta2::FailureDomain {
                name,
                control_plane,
                attributes,
            })
            .collect()
    })
}

fn failure_domain_map() -> impl Strategy<Value = BTreeMap<String, v1beta1::FailureDomain>> {
    let domain =
        (option::of(any::<bool>()), words()).prop_map(|(control_plane, attributes)| v1beta1::FailureDomain {
            control_plane,
            attributes,
        });
    btree_map(word(), domain, 0..4)
}

fn time() -> impl Strategy<Value = Time> {
    (0..4_000_000_000_i64).prop_map(|second| Time(Timestamp::from_second(second).expect("in range")))
}

fn status_word() -> impl Strategy<Value = String> {
    prop::sample::select(["True", "False", "Unknown", ""].as_slice()).prop_map(str::to_owned)
}

fn kind_word() -> impl Strategy<Value = String> {
    prop::sample::select(["Ready", "Paused", "Deleting", "VMProvisioned"].as_slice()).prop_map(str::to_owned)
}

fn reason() -> impl Strategy<Value = String> {
    const KNOWN: [&str; 5] = [
        "",
        "Ready",
        "NoReasonReported",
        "WaitingForBootstrapData",
        "InvalidConfiguration",
    ];
    prop::sample::select(KNOWN.as_slice()).prop_map(str::to_owned)
}

fn new_conditions() -> impl Strategy<Value = Vec<NewCondition>> {
    let condition = (
        kind_word(),
        status_word(),
        reason(),
        word(),
        option::of(any::<i64>()),
        time(),
    );
    vec(condition, 0..4).prop_map(|conditions| {
        let one =
            |(type_, status, reason, message, observed_generation, last_transition_time)| NewCondition {
                type_,
                status,
                reason,
                message,
                observed_generation,
                last_transition_time,
            };
        conditions.into_iter().map(one).collect()
    })
}

fn old_conditions() -> impl Strategy<Value = Vec<v1beta1::Condition>> {
    let condition = (
        kind_word(),
        status_word(),
        word(),
        reason(),
        word(),
        option::of(time()),
    );
    vec(condition, 0..4).prop_map(|conditions| {
        let one = |(type_, status, severity, reason, message, last_transition_time)| v1beta1::Condition {
            type_,
            status,
            severity,
            last_transition_time,
            reason,
            message,
        };
        conditions.into_iter().map(one).collect()
    })
}

fn conditions_among_the_old() -> impl Strategy<Value = Option<v1beta1::V1Beta2Conditions>> {
    option::of(new_conditions().prop_map(|conditions| v1beta1::V1Beta2Conditions { conditions }))
}

fn cloud_ref() -> impl Strategy<Value = Option<v1beta2::CloudReference>> {
    option::of(word().prop_map(|name| v1beta2::CloudReference { name }))
}

fn initialization() -> impl Strategy<Value = Option<v1beta2::Initialization>> {
    option::of(option::of(any::<bool>()).prop_map(|provisioned| v1beta2::Initialization { provisioned }))
}

fn duration() -> impl Strategy<Value = Option<GoDuration>> {
    option::of(prop::sample::select(["0", "1m30.0s", "+5ms"].as_slice()))
        .prop_map(|text| text.and_then(|text| GoDuration::parse(text).ok()))
}

fn fraction() -> impl Strategy<Value = Option<Fraction>> {
    option::of(prop::sample::select(["0", ".50", "1.0"].as_slice()))
        .prop_map(|text| text.and_then(|text| Fraction::parse(text).ok()))
}

fn behaviour() -> impl Strategy<Value = Option<v1beta2::Behaviour>> {
    let component = || {
        option::of(
            (duration(), fraction()).prop_map(|(startup_duration, startup_jitter)| v1beta2::Component {
                provisioning: v1beta2::Provisioning {
                    startup_duration,
                    startup_jitter,
                },
            }),
        )
    };
    let parts = (component(), component(), component(), component());
    option::of(parts.prop_map(|(vm, node, api_server, etcd)| v1beta2::Behaviour {
        vm,
        node,
        api_server,
        etcd,
    }))
}

fn instant() -> impl Strategy<Value = MicroTime> {
    (0..4_000_000_000_000_000_i64)
        .prop_map(|micros| MicroTime(Timestamp::from_microsecond(micros).expect("in range")))
}

fn cluster_origin() -> impl Strategy<Value = Option<ClusterCreationRecord>> {
    option::of((word(), time()).prop_map(|(cluster, created)| ClusterCreationRecord { cluster, created }))
}

fn software() -> impl Strategy<Value = Software> {
    let files = (word(), words()).prop_map(|(digest, contents)| Files { digest, contents });
    (word(), word(), word(), option::of(files)).prop_map(|(version, image, etcd_image_tag, files)| Software {
        version,
        image,
        etcd_image_tag,
        files,
    })
}

prop_compose! {
    fn instance_origin()(
        start_time in instant(),
        addresses in vec((word(), word()), 0..3),
        pod_cidrs in vec(word(), 0..3),
        failure_domain in word(),
        region in word(),
        cloud in word(),
        hardware in option::of((word(), word(), words())),
        software in option::of(software()),
        kubeadm in option::of((words(), option::of(vec((word(), word()), 0..3)), option::of((word(), vec(word(), 0..3), any::<bool>())))),
        seed_key in option::of((word(), any::<i64>())),
        reached in btree_map(word(), instant(), 0..3),
    ) -> CreationRecord {
        CreationRecord {
            start_time,
            addresses: addresses
                .into_iter()
                .map(|(kind, address)| v1beta2::MachineAddress { kind, address })
                .collect(),
            pod_cidrs,
            failure_domain,
            region,
            cloud,
            hardware: hardware.map(|(architecture, operating_system, capacity)| MachineHardware {
                architecture,
                operating_system,
                capacity,
            }),
            software,
            kubeadm: kubeadm.map(|(node_labels, taints, cluster)| Kubeadm {
                node_labels,
                taints: taints.map(|taints| {
                    let taint = |(key, effect)| Taint { key, effect, ..Taint::default() };
                    taints.into_iter().map(taint).collect()
                }),
                cluster: cluster.map(|(image_repository, external_etcd, skips_dns)| KubeadmCluster {
                    image_repository,
                    external_etcd,
                    skips_dns,
                    ..KubeadmCluster::default()
                }),
            }),
            seed_key: seed_key.map(|(owner_set, ordinal)| SeedKey { owner_set, ordinal }),
            reached,
        }
    }
}

prop_compose! {
    fn instance()(
        machine in word(),
        origin in option::of(instance_origin().boxed()),
        update in option::of((software(), instant(), duration(), fraction(), word(), option::of(instant()))),
        termination in option::of(instant()),
        deletion in option::of(instant()),
    ) -> InstanceRecord {
        InstanceRecord {
            machine,
            origin,
            update: update.map(|(software, asked_at, duration, jitter, failure, ended)| Update {
                software,
                asked_at,
                duration,
                jitter,
                failure,
                ended,
            }),
            termination: termination.map(|time| Termination { time }),
            deregistered: deletion.clone(),
            deletion: deletion.map(|time| Deletion { ended: Some(time.clone()), time }),
        }
    }
}

prop_compose! {
    fn new_cluster_spec()(
        endpoint in option::of(host_and_port()),
        network in cluster_network(),
        cloud_ref in cloud_ref(),
        failure_domains in failure_domain_list(),
        origin in cluster_origin(),
    ) -> v1beta2::InMemoryClusterSpec {
        let control_plane_endpoint = endpoint.map(|(host, port)| v1beta2::ControlPlaneEndpoint { host, port });
        v1beta2::InMemoryClusterSpec { control_plane_endpoint, network, cloud_ref, failure_domains, origin }
    }
}

prop_compose! {
    fn old_cluster_spec()(
        endpoint in option::of(host_and_port()),
        network in cluster_network(),
        cloud_ref in cloud_ref(),
        failure_domains in failure_domain_map(),
        origin in cluster_origin(),
    ) -> v1beta1::InMemoryClusterSpec {
        let control_plane_endpoint = endpoint.map(|(host, port)| v1beta1::ControlPlaneEndpoint { host, port });
        v1beta1::InMemoryClusterSpec { control_plane_endpoint, network, cloud_ref, failure_domains, origin }
    }
}

prop_compose! {
    fn new_cluster_status()(
        initialization in initialization(),
        network in cluster_network_status(),
        load_balancer in load_balancer(),
        failure_domains in failure_domain_list(),
        conditions in new_conditions(),
    ) -> v1beta2::InMemoryClusterStatus {
        v1beta2::InMemoryClusterStatus { initialization, network, load_balancer, failure_domains, conditions }
    }
}

prop_compose! {
    fn old_cluster_status()(
        ready in option::of(any::<bool>()),
        network in cluster_network_status(),
        load_balancer in load_balancer(),
        failure_domains in failure_domain_map(),
        failure_reason in option::of(word()),
        failure_message in option::of(word()),
        conditions in old_conditions(),
        v1beta2 in conditions_among_the_old(),
    ) -> v1beta1::InMemoryClusterStatus {
        v1beta1::InMemoryClusterStatus {
            ready, network, load_balancer, failure_domains, failure_reason, failure_message, conditions, v1beta2,
        }
    }
}

fn new_machine_spec() -> impl Strategy<Value = v1beta2::InMemoryMachineSpec> {
    let network =
        vec(pool(), 0..3).prop_map(|addresses_from_pools| v1beta2::MachineNetwork { addresses_from_pools });
    // Boxed, because the strategies of all fields together are too large for the stack of a test.
    let instance = option::of(instance().prop_map(Box::new)).boxed();
    (
        word(),
        word(),
        word(),
        word(),
        option::of(network),
        behaviour(),
        instance,
    )
        .prop_map(
            |(provider_id, instance_type, market, image, network, behaviour, instance)| {
                v1beta2::InMemoryMachineSpec {
                    provider_id,
                    instance_type,
                    market,
                    image,
                    network,
                    behaviour,
                    instance,
                }
            },
        )
}

fn old_machine_spec() -> impl Strategy<Value = v1beta1::InMemoryMachineSpec> {
    new_machine_spec().prop_map(|spec| {
        let v1beta2::InMemoryMachineSpec {
            provider_id,
            instance_type,
            market,
            image,
            network,
            behaviour,
            instance,
        } = spec;
        v1beta1::InMemoryMachineSpec {
            provider_id,
            instance_type,
            market,
            image,
            network,
            behaviour,
            instance,
        }
    })
}

prop_compose! {
    fn new_machine_status()(
        initialization in initialization(),
        start_time in option::of(0..4_000_000_000_000_000_i64),
        addresses in vec((word(), word()), 0..3),
        network in option::of(vec(claimed(), 0..3)),
        failure_domain in word(),
        interruptible in any::<bool>(),
        conditions in new_conditions(),
    ) -> v1beta2::InMemoryMachineStatus {
        v1beta2::InMemoryMachineStatus {
            initialization,
            start_time: start_time.map(|micros| MicroTime(Timestamp::from_microsecond(micros).expect("in range"))),
            addresses: addresses
                .into_iter()
                .map(|(kind, address)| v1beta2::MachineAddress { kind, address })
                .collect(),
            network: network.map(|addresses| v1beta2::MachineNetworkStatus { addresses }),
            failure_domain,
            interruptible,
            conditions,
        }
    }
}

prop_compose! {
    fn old_machine_status()(
        new in new_machine_status(),
        ready in option::of(any::<bool>()),
        failure_reason in option::of(word()),
        failure_message in option::of(word()),
        conditions in old_conditions(),
        v1beta2 in conditions_among_the_old(),
    ) -> v1beta1::InMemoryMachineStatus {
        let v1beta2::InMemoryMachineStatus { start_time, addresses, network, failure_domain, interruptible, .. } = new;
        v1beta1::InMemoryMachineStatus {
            ready,
            start_time,
            addresses,
            network,
            failure_domain,
            interruptible,
            failure_reason,
            failure_message,
            conditions,
            v1beta2,
        }
    }
}

prop_compose! {
    fn machine_template_status()(
        capacity in words(),
        node_info in option::of((word(), word())),
    ) -> v1beta2::InMemoryMachineTemplateStatus {
        v1beta2::InMemoryMachineTemplateStatus {
            capacity: capacity.into_iter().map(|(name, quantity)| (name, Quantity(quantity))).collect(),
            node_info: node_info.map(|(architecture, operating_system)| v1beta2::NodeInfo {
                architecture,
                operating_system,
            }),
        }
    }
}

fn pool_machine() -> impl Strategy<Value = v1beta2::PoolMachine> {
    new_machine_spec().prop_map(|spec| {
        let v1beta2::InMemoryMachineSpec {
            instance_type,
            market,
            image,
            network,
            behaviour,
            ..
        } = spec;
        v1beta2::PoolMachine {
            instance_type,
            market,
            image,
            network,
            behaviour,
        }
    })
}

prop_compose! {
    fn new_pool_spec()(
        provider_id_list in vec(word(), 0..3),
        template in option::of(pool_machine()),
    ) -> v1beta2::InMemoryMachinePoolSpec {
        v1beta2::InMemoryMachinePoolSpec { provider_id_list, template }
    }
}

fn old_pool_spec() -> impl Strategy<Value = v1beta1::InMemoryMachinePoolSpec> {
    new_pool_spec().prop_map(|spec| {
        let v1beta2::InMemoryMachinePoolSpec {
            provider_id_list,
            template,
        } = spec;
        v1beta1::InMemoryMachinePoolSpec {
            provider_id_list,
            template,
        }
    })
}

prop_compose! {
    fn new_pool_status()(
        ready in option::of(any::<bool>()),
        initialization in initialization(),
        replicas in option::of(any::<i32>()),
        infrastructure_machine_kind in word(),
        next_ordinal in option::of(any::<i64>()),
        template in machine_template_status(),
        conditions in new_conditions(),
    ) -> v1beta2::InMemoryMachinePoolStatus {
        let v1beta2::InMemoryMachineTemplateStatus { capacity, node_info } = template;
        v1beta2::InMemoryMachinePoolStatus {
            ready,
            initialization,
            replicas,
            infrastructure_machine_kind,
            next_ordinal,
            capacity,
            node_info,
            conditions,
        }
    }
}

prop_compose! {
    fn old_pool_status()(
        new in new_pool_status(),
        conditions in old_conditions(),
        v1beta2 in conditions_among_the_old(),
    ) -> v1beta1::InMemoryMachinePoolStatus {
        v1beta1::InMemoryMachinePoolStatus {
            ready: new.ready,
            replicas: new.replicas,
            infrastructure_machine_kind: new.infrastructure_machine_kind,
            next_ordinal: new.next_ordinal,
            capacity: new.capacity,
            node_info: new.node_info,
            conditions,
            v1beta2,
        }
    }
}

fn pool_template_status() -> impl Strategy<Value = v1beta2::InMemoryMachinePoolTemplateStatus> {
    machine_template_status().prop_map(|status| {
        let v1beta2::InMemoryMachineTemplateStatus { capacity, node_info } = status;
        v1beta2::InMemoryMachinePoolTemplateStatus { capacity, node_info }
    })
}

/// Objects of a version.
macro_rules! objects {
    ($objects:ident, $version:ident: $cluster_spec:ident, $cluster_status:ident, $machine_spec:ident, $machine_status:ident, $pool_spec:ident, $pool_status:ident) => {
        mod $objects {
            use super::*;

            pub(super) fn clusters() -> impl Strategy<Value = $version::InMemoryCluster> {
                (metadata(), $cluster_spec(), option::of($cluster_status())).prop_map(
                    |(metadata, spec, status)| $version::InMemoryCluster {
                        metadata,
                        spec,
                        status,
                    },
                )
            }

            pub(super) fn cluster_templates() -> impl Strategy<Value = $version::InMemoryClusterTemplate> {
                (metadata(), template_metadata(), $cluster_spec()).prop_map(|(metadata, labels, spec)| {
                    let template = $version::InMemoryClusterTemplateResource {
                        metadata: labels,
                        spec,
                    };
                    let spec = $version::InMemoryClusterTemplateSpec { template };
                    $version::InMemoryClusterTemplate { metadata, spec }
                })
            }

            pub(super) fn machines() -> impl Strategy<Value = $version::InMemoryMachine> {
                (metadata(), $machine_spec(), option::of($machine_status())).prop_map(
                    |(metadata, spec, status)| $version::InMemoryMachine {
                        metadata,
                        spec,
                        status,
                    },
                )
            }

            pub(super) fn machine_templates() -> impl Strategy<Value = $version::InMemoryMachineTemplate> {
                let parts = (
                    metadata(),
                    template_metadata(),
                    $machine_spec(),
                    option::of(machine_template_status()),
                );
                parts.prop_map(|(metadata, labels, spec, status)| {
                    let template = $version::InMemoryMachineTemplateResource {
                        metadata: labels,
                        spec,
                    };
                    let spec = $version::InMemoryMachineTemplateSpec { template };
                    $version::InMemoryMachineTemplate {
                        metadata,
                        spec,
                        status,
                    }
                })
            }

            pub(super) fn pools() -> impl Strategy<Value = $version::InMemoryMachinePool> {
                (metadata(), $pool_spec(), option::of($pool_status())).prop_map(|(metadata, spec, status)| {
                    $version::InMemoryMachinePool {
                        metadata,
                        spec,
                        status,
                    }
                })
            }

            pub(super) fn pool_templates() -> impl Strategy<Value = $version::InMemoryMachinePoolTemplate> {
                let parts = (
                    metadata(),
                    template_metadata(),
                    $pool_spec(),
                    option::of(pool_template_status()),
                );
                parts.prop_map(|(metadata, labels, spec, status)| {
                    let template = $version::InMemoryMachinePoolTemplateResource {
                        metadata: labels,
                        spec,
                    };
                    let spec = $version::InMemoryMachinePoolTemplateSpec { template };
                    $version::InMemoryMachinePoolTemplate {
                        metadata,
                        spec,
                        status,
                    }
                })
            }
        }
    };
}

objects!(old, v1beta1: old_cluster_spec, old_cluster_status, old_machine_spec, old_machine_status, old_pool_spec, old_pool_status);
objects!(new, v1beta2: new_cluster_spec, new_cluster_status, new_machine_spec, new_machine_status, new_pool_spec, new_pool_status);

fn converted(object: &Value, version: &str) -> Value {
    convert(object.clone(), version).expect("convertible")
}

fn json_of(object: impl Serialize) -> Value {
    serde_json::to_value(object).expect("JSON")
}

/// An object that is converted to the other version and back is unchanged. The same holds for the object in between, which
/// has the other type.
fn survives<Here, There>(object: &Here, [from, to]: [&str; 2]) -> Result<(), TestCaseError>
where
    Here: PartialEq + std::fmt::Debug + Serialize + DeserializeOwned,
    There: Serialize + DeserializeOwned,
{
    let written = json_of(object);
    let sent = converted(&written, to);
    let back = converted(&sent, from);
    prop_assert_eq!(&back, &written);
    prop_assert_eq!(&converted(&back, to), &sent);
    let between: There = serde_json::from_value(sent.clone()).expect("an object of the other type");
    prop_assert_eq!(json_of(between), sent);
    prop_assert_eq!(
        &serde_json::from_value::<Here>(back).expect("an object of its type"),
        object
    );
    Ok(())
}

/// The laws of a kind.
macro_rules! laws {
    ($module:ident, $objects:ident, $kind:ident) => {
        mod $module {
            use super::*;

            proptest! {
                #[test]
                fn down_and_up_changes_nothing(object in new::$objects()) {
                    survives::<v1beta2::$kind, v1beta1::$kind>(&object, [NEW, OLD])?;
                }

                #[test]
                fn up_and_down_changes_nothing(object in old::$objects()) {
                    survives::<v1beta1::$kind, v1beta2::$kind>(&object, [OLD, NEW])?;
                }

                /// A client that reads the old version, changes the whole spec and writes it reads the same spec
                /// afterwards.
                #[test]
                fn a_spec_written_over_another_is_read_back(
                    object in new::$objects(), other in old::$objects(),
                ) {
                    let mut written = converted(&json_of(object), OLD);
                    written["spec"] = json_of(other.spec);
                    let stored = converted(&written, NEW);
                    prop_assert_eq!(&converted(&stored, OLD)["spec"], &written["spec"]);
                }
            }
        }
    };
}

laws!(cluster, clusters, InMemoryCluster);
laws!(cluster_template, cluster_templates, InMemoryClusterTemplate);
laws!(machine, machines, InMemoryMachine);
laws!(machine_template, machine_templates, InMemoryMachineTemplate);
laws!(machine_pool, pools, InMemoryMachinePool);
laws!(machine_pool_template, pool_templates, InMemoryMachinePoolTemplate);

proptest! {
    /// The two statuses belong to the same cluster at two times. The new version shows the later status, even when
    /// parts of the earlier one were kept.
    #[test]
    fn a_status_of_the_manager_is_seen_whatever_was_kept(
        before in old::clusters(), status in new_cluster_status(),
    ) {
        let mut stored = v1beta2::InMemoryCluster::from(before.clone());
        stored.status = Some(status.clone());
        let seen = v1beta1::InMemoryCluster::from(stored.clone());
        // The converted status converts back to the original, and the spec is as it was written.
        prop_assert_eq!(v1beta2::InMemoryCluster::from(seen.clone()).status, Some(status));
        prop_assert_eq!(seen.spec, before.spec);
        let failure = |status: Option<v1beta1::InMemoryClusterStatus>| {
            status.map(|status| (status.failure_reason, status.failure_message)).unwrap_or_default()
        };
        prop_assert_eq!(failure(seen.status), failure(before.status));
    }

    #[test]
    fn nothing_that_is_sent_panics(
        kind in prop::sample::select(["InMemoryCluster", "InMemoryMachine", "InMemoryClusterTemplate"].as_slice()),
        versions in prop::sample::select([[OLD, NEW], [NEW, OLD]].as_slice()),
        annotation in ".{0,40}",
        host in ".{0,5}",
        port in any::<i64>(),
        time in "[0-9TZ:. -]{0,20}",
    ) {
        let sent = json!({
            "apiVersion": versions[0], "kind": kind,
            "metadata": { "annotations": { "cluster.x-k8s.io/conversion-data": annotation } },
            "spec": { "controlPlaneEndpoint": { "host": host, "port": port } },
            "status": { "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": time }] },
        });
        let _ = convert(sent, versions[1]);
    }
}
