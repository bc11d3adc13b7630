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
pub(crate) enum Target {
    Worker,
    ControlPlane,
    Cluster,
}

impl Target {
    /// What can be done to it, the mildest first.
    pub(crate) fn offers(self) -> impl Iterator<Item = &'static Offer> {
        let lists: [&'static [Offer]; 2] = match self {
            Self::Worker => [&MACHINE, &[]],
            Self::ControlPlane => [&MACHINE, &CONTROL_PLANE],
            Self::Cluster => [&CLUSTER, &[]],
        };
        lists.into_iter().flatten()
    }
}

const MACHINE: [Offer; 7] = [
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

const CONTROL_PLANE: [Offer; 3] = [
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

const CLUSTER: [Offer; 9] = [
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_offer_is_an_effect_and_its_name_is_told_once() {
        for target in [Target::Worker, Target::ControlPlane, Target::Cluster] {
            let mut names = std::collections::BTreeSet::new();
            for offer in target.offers() {
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
    }
}
