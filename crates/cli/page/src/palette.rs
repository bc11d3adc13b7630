//! The effects that the page offers for what is selected, each with settings that show it. Pure.

use nephele_model::FaultEffect;

/// An effect with its settings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Its name, as the page and the journal have it.
    pub(crate) name: &'static str,
    /// What happens, in a sentence.
    pub(crate) sentence: &'static str,
    /// The effect, as a Fault has it.
    json: &'static str,
}

impl Offer {
    /// The effect.
    pub(crate) fn effect(&self) -> Result<FaultEffect, serde_json::Error> {
        serde_json::from_str(self.json)
    }
}

/// What an effect is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Machines,
    ControlPlanes,
    Clusters,
    /// A part of the cloud, and all that is there.
    Places,
    /// Machines that start after the Fault begins.
    NewMachines,
    /// Calls of the cloud.
    Operations,
    Addresses,
}

impl Group {
    /// All groups, in the order of the palette.
    pub(crate) const ALL: [Self; 7] = [
        Self::Machines,
        Self::ControlPlanes,
        Self::Clusters,
        Self::Places,
        Self::NewMachines,
        Self::Operations,
        Self::Addresses,
    ];

    /// Its title in the palette.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Machines => "Machines",
            Self::ControlPlanes => "Machines of control planes",
            Self::Clusters => "API servers, etcd and load balancers",
            Self::Places => "Zones and markets",
            Self::NewMachines => "Machines that start",
            Self::Operations => "Calls of the cloud",
            Self::Addresses => "Address pools",
        }
    }

    /// Its effects, the mildest first.
    pub(crate) fn offers(self) -> &'static [Offer] {
        match self {
            Self::Machines => &MACHINES,
            Self::ControlPlanes => &CONTROL_PLANES,
            Self::Clusters => &CLUSTERS,
            Self::Places => &PLACES,
            Self::NewMachines => &NEW_MACHINES,
            Self::Operations => &OPERATIONS,
            Self::Addresses => &ADDRESSES,
        }
    }
}

/// The effect of this name, with its group.
pub(crate) fn find(name: &str) -> Option<(Group, &'static Offer)> {
    let all = Group::ALL
        .into_iter()
        .flat_map(|group| group.offers().iter().map(move |offer| (group, offer)));
    all.into_iter().find(|(_, offer)| offer.name == name)
}

/// What is selected, as far as it decides which effects show on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Worker,
    ControlPlane,
    Cluster,
}

impl Target {
    /// What can be done to it, the mildest first.
    pub(crate) fn offers(self) -> impl Iterator<Item = &'static Offer> {
        let groups: &[Group] = match self {
            Self::Worker => &[Group::Machines],
            Self::ControlPlane => &[Group::Machines, Group::ControlPlanes],
            Self::Cluster => &[Group::Clusters],
        };
        groups.iter().flat_map(|group| group.offers())
    }
}

const MACHINES: [Offer; 7] = [
    Offer {
        name: "notReady",
        sentence: "the kubelet stops, everything else works",
        json: r#"{"notReady":{}}"#,
    },
    Offer {
        name: "flap",
        sentence: "the kubelet is silent for 10s and reports for 30s, in turn",
        json: r#"{"flap":{"up":"30s","down":"10s"}}"#,
    },
    Offer {
        name: "nodeCondition",
        sentence: "the Node has the condition DiskPressure",
        json: r#"{"nodeCondition":{"type":"DiskPressure","status":"True"}}"#,
    },
    Offer {
        name: "clockSkew.behind",
        sentence: "its clock is 10m behind",
        json: r#"{"clockSkew":{"behind":"10m"}}"#,
    },
    Offer {
        name: "freeze",
        sentence: "it runs, and nothing on it answers",
        json: r#"{"freeze":{}}"#,
    },
    Offer {
        name: "nodeRebootsAs",
        sentence: "it reboots, and its kubelet registers a second Node",
        json: r#"{"nodeRebootsAs":{"nameSuffix":"-2"}}"#,
    },
    Offer {
        name: "vanish",
        sentence: "the cloud terminates the instance, which does not return when the Fault ends",
        json: r#"{"vanish":{}}"#,
    },
];

const CONTROL_PLANES: [Offer; 3] = [
    Offer {
        name: "etcd.alarm",
        sentence: "its etcd member has no space left",
        json: r#"{"etcd":{"alarm":"NoSpace"}}"#,
    },
    Offer {
        name: "etcd.hiddenMember",
        sentence: "the member list of etcd omits its member",
        json: r#"{"etcd":{"hiddenMember":{}}}"#,
    },
    Offer {
        name: "certificate.expired",
        sentence: "its API server presents an expired certificate",
        json: r#"{"certificate":{"expired":{}}}"#,
    },
];

const CLUSTERS: [Offer; 9] = [
    Offer {
        name: "apiServer.latency",
        sentence: "requests wait for 2s",
        json: r#"{"apiServer":{"latency":{"duration":"2s"}}}"#,
    },
    Offer {
        name: "apiServer.error",
        sentence: "half of the requests are answered with 500",
        json: r#"{"apiServer":{"error":{"code":500,"probability":"0.5"}}}"#,
    },
    Offer {
        name: "apiServer.cutWatches",
        sentence: "each watch breaks after 5s",
        json: r#"{"apiServer":{"cutWatches":{"after":"5s"}}}"#,
    },
    Offer {
        name: "apiServer.staleReads",
        sentence: "reads show the past",
        json: r#"{"apiServer":{"staleReads":{}}}"#,
    },
    Offer {
        name: "etcd.slow",
        sentence: "etcd answers 500ms late",
        json: r#"{"etcd":{"slow":{"duration":"500ms"}}}"#,
    },
    Offer {
        name: "etcd.noLeader",
        sentence: "etcd has no leader, and nothing can be written",
        json: r#"{"etcd":{"noLeader":{}}}"#,
    },
    Offer {
        name: "loadBalancer.reset",
        sentence: "each connection breaks off after 5s",
        json: r#"{"loadBalancer":{"reset":{"after":"5s"}}}"#,
    },
    Offer {
        name: "loadBalancer.noBackends",
        sentence: "connections are accepted and end at once",
        json: r#"{"loadBalancer":{"noBackends":{}}}"#,
    },
    Offer {
        name: "apiServer.down",
        sentence: "connections end, and new ones get no answer",
        json: r#"{"apiServer":{"down":{}}}"#,
    },
];

const PLACES: [Offer; 2] = [
    Offer {
        name: "spotReclaim",
        sentence: "the cloud takes spot instances back, with a notice of 2m",
        json: r#"{"spotReclaim":{"notice":"2m"}}"#,
    },
    Offer {
        name: "outage",
        sentence: "the machines there freeze, and the cloud creates no new ones",
        json: r#"{"outage":{}}"#,
    },
];

const NEW_MACHINES: [Offer; 3] = [
    Offer {
        name: "hold",
        sentence: "the kubelet does not register its Node",
        json: r#"{"hold":{"stage":"node"}}"#,
    },
    Offer {
        name: "wrongProviderID",
        sentence: "the Node has the provider ID of no machine",
        json: r#"{"wrongProviderID":{}}"#,
    },
    Offer {
        name: "bootstrap",
        sentence: "kubeadm fails in its phase preflight",
        json: r#"{"bootstrap":{"failedPhase":"preflight"}}"#,
    },
];

const OPERATIONS: [Offer; 7] = [
    Offer {
        name: "delay",
        sentence: "each call takes 5s longer",
        json: r#"{"delay":{"duration":"5s"}}"#,
    },
    Offer {
        name: "lag",
        sentence: "reads show changes 5s late",
        json: r#"{"lag":{"duration":"5s"}}"#,
    },
    Offer {
        name: "fail.Throttled",
        sentence: "the cloud refuses calls, because there are too many",
        json: r#"{"fail":{"reason":"Throttled"}}"#,
    },
    Offer {
        name: "fail.InsufficientCapacity",
        sentence: "the cloud has no room for machines",
        json: r#"{"fail":{"reason":"InsufficientCapacity"}}"#,
    },
    Offer {
        name: "fail.Unauthorized",
        sentence: "the cloud does not accept the credentials",
        json: r#"{"fail":{"reason":"Unauthorized"}}"#,
    },
    Offer {
        name: "duplicate",
        sentence: "a creation gets no answer, and its repetition creates a second instance",
        json: r#"{"duplicate":{}}"#,
    },
    Offer {
        name: "leak",
        sentence: "what is deleted still exists, and costs money",
        json: r#"{"leak":{}}"#,
    },
];

const ADDRESSES: [Offer; 3] = [
    Offer {
        name: "addresses.slow",
        sentence: "pools hand out addresses 10s late",
        json: r#"{"addresses":{"slow":{"duration":"10s"}}}"#,
    },
    Offer {
        name: "addresses.lateRelease",
        sentence: "pools keep released addresses for 1m",
        json: r#"{"addresses":{"lateRelease":{"duration":"1m"}}}"#,
    },
    Offer {
        name: "addresses.exhausted",
        sentence: "pools have no address",
        json: r#"{"addresses":{"exhausted":{}}}"#,
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kube::CustomResourceExt as _;
    use nephele_api::cloud::v1alpha1::Fault;
    use serde_json::Value;

    use super::*;

    #[test]
    fn each_offer_is_an_effect_and_its_name_is_told_once() {
        let mut names = BTreeSet::new();
        for offer in Group::ALL.into_iter().flat_map(Group::offers) {
            let effect = offer
                .effect()
                .unwrap_or_else(|error| panic!("{}: {error}", offer.name));
            assert_eq!(
                serde_json::to_string(&effect).expect("JSON"),
                offer.json,
                "nothing is left out"
            );
            let word = offer.name.split('.').next().unwrap_or_default();
            assert!(
                crate::effect_name(&effect).starts_with(word),
                "{} is another effect",
                offer.name
            );
            assert!(names.insert(offer.name), "{} is there twice", offer.name);
        }
    }

    #[test]
    fn every_effect_of_the_kind_is_offered() {
        let definition = serde_json::to_value(Fault::crd()).expect("JSON");
        let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/effect/properties";
        let effects = definition.pointer(schema).and_then(Value::as_object);
        let effects: BTreeSet<_> = effects.into_iter().flat_map(|effects| effects.keys()).collect();
        let offered = Group::ALL.into_iter().flat_map(Group::offers);
        let offered: BTreeSet<_> = offered
            .filter_map(|offer| Some(offer.name.split('.').next()?.to_owned()))
            .collect();
        assert!(effects.len() >= 22, "{effects:?}");
        assert_eq!(offered.iter().collect::<BTreeSet<_>>(), effects);
    }
}
