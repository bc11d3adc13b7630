//! What the palette says of a Fault that does not exist yet, as plain values. Pure.

use kube::api::ObjectMeta;
use nephele_api::{
    cloud::v1alpha1::{Fault, FaultBudget, FaultMatch, FaultSpec},
    labels,
};
use nephele_model::GoDuration;
use serde_json::{Map, json};

use crate::{
    act_error::ActError,
    palette::{self, Group, Offer},
};

/// How long a Fault lasts that the page creates, if the viewer says nothing else.
pub(crate) const LASTS: &str = "60s";
/// The effect that the palette begins with: the mildest one.
const EFFECT: &str = "notReady";

/// The machines of a cluster that are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Roles {
    #[default]
    All,
    ControlPlanes,
    Workers,
}

impl Roles {
    pub(crate) const ALL: [Self; 3] = [Self::All, Self::ControlPlanes, Self::Workers];

    /// The value of the field.
    pub(crate) fn value(self) -> &'static str {
        match self {
            Self::All => "",
            Self::ControlPlanes => "control-plane",
            Self::Workers => "worker",
        }
    }

    /// In words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::All => "all machines",
            Self::ControlPlanes => "control planes",
            Self::Workers => "workers and pool members",
        }
    }
}

/// The fields of the palette, as someone filled them in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Draft {
    /// The name of an offer.
    pub(crate) effect: String,
    /// The name of a Cluster; all if it is empty.
    pub(crate) cluster: String,
    pub(crate) roles: Roles,
    /// The name of a zone; all if it is empty.
    pub(crate) zone: String,
    /// Names of machines or, for effects of their groups, of clusters or pools.
    pub(crate) names: String,
    pub(crate) lasts: String,
    /// How many are hit at most.
    pub(crate) count: String,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            effect: EFFECT.to_owned(),
            cluster: String::new(),
            roles: Roles::All,
            zone: String::new(),
            names: String::new(),
            lasts: LASTS.to_owned(),
            count: String::new(),
        }
    }
}

impl Draft {
    /// What the fields of a form say. Those that it does not have are as in the empty palette.
    ///
    /// # Errors
    /// When a choice is not offered.
    pub(crate) fn of(fields: &[(String, String)]) -> Result<Self, ActError> {
        let mut draft = Self::default();
        for (name, value) in fields {
            let value = value.trim();
            match name.as_str() {
                "effect" => value.clone_into(&mut draft.effect),
                "cluster" => value.clone_into(&mut draft.cluster),
                "machines" => {
                    let known = Roles::ALL.into_iter().find(|roles| roles.value() == value);
                    draft.roles = known.ok_or(ActError::NotOffered)?;
                }
                "zone" => value.clone_into(&mut draft.zone),
                "names" => value.clone_into(&mut draft.names),
                "for" => value.clone_into(&mut draft.lasts),
                "count" => value.clone_into(&mut draft.count),
                _ => {}
            }
        }
        Ok(draft)
    }

    /// The fields as the query of a link, without those that are as in the empty palette.
    pub(crate) fn query(&self) -> String {
        let empty = Self::default();
        let fields = |draft: &Self| {
            [
                ("effect", draft.effect.clone()),
                ("cluster", draft.cluster.clone()),
                ("machines", draft.roles.value().to_owned()),
                ("zone", draft.zone.clone()),
                ("names", draft.names.clone()),
                ("for", draft.lasts.clone()),
                ("count", draft.count.clone()),
            ]
        };
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (field, before) in fields(self).iter().zip(fields(&empty)) {
            if *field != before {
                query.append_pair(field.0, &field.1);
            }
        }
        query.finish()
    }

    /// The Fault.
    ///
    /// # Errors
    /// When a field cannot be read, or the effect is not offered.
    pub(crate) fn fault(&self, namespace: &str) -> Result<Fault, ActError> {
        let (group, offer) = palette::find(&self.effect).ok_or(ActError::NotOffered)?;
        let count = match self.count.as_str() {
            "" => None,
            count => {
                let count = count.parse().ok().filter(|count| *count >= 1);
                Some(count.ok_or(ActError::Count)?)
            }
        };
        let budget = FaultBudget {
            lasts: lasts(&self.lasts)?,
            count,
            ..FaultBudget::default()
        };
        fault(offer, namespace, self.matches(group)?, budget)
    }

    /// Without the condition that one field makes, for each field that makes one.
    pub(crate) fn wider(&self) -> Vec<(&'static str, Self)> {
        let empty = Self::default();
        let wider = [
            (
                "cluster",
                Self {
                    cluster: empty.cluster,
                    ..self.clone()
                },
            ),
            (
                "choice of machines",
                Self {
                    roles: empty.roles,
                    ..self.clone()
                },
            ),
            (
                "zone",
                Self {
                    zone: empty.zone,
                    ..self.clone()
                },
            ),
            (
                "names",
                Self {
                    names: empty.names,
                    ..self.clone()
                },
            ),
        ];
        wider.into_iter().filter(|(_, wider)| wider != self).collect()
    }

    fn matches(&self, group: Group) -> Result<FaultMatch, ActError> {
        let names = self.names.split([',', ' ']).filter(|name| !name.is_empty());
        let names: Vec<_> = names.map(str::to_owned).collect();
        let zone = Some(self.zone.clone()).filter(|zone| !zone.is_empty());
        let mut matches = FaultMatch {
            zones: zone.into_iter().collect(),
            ..FaultMatch::default()
        };
        let cluster = Some(self.cluster.clone()).filter(|cluster| !cluster.is_empty());
        let mut labels = Map::new();
        match group {
            Group::Addresses if cluster.is_some() => return Err(ActError::ClusterOfClaims),
            Group::Addresses => matches.pools = names,
            // It hits the load balancer, which has the name of the Cluster.
            Group::Clusters if names.is_empty() => matches.names = cluster.into_iter().collect(),
            Group::Clusters if cluster.is_some() => return Err(ActError::ClusterTwice),
            Group::Clusters => matches.names = names,
            Group::Machines
            | Group::ControlPlanes
            | Group::Places
            | Group::NewMachines
            | Group::Operations => {
                matches.names = names;
                labels.extend(cluster.map(|cluster| (labels::CLUSTER_NAME.to_owned(), cluster.into())));
            }
        }
        let operator = match self.roles {
            Roles::All => None,
            Roles::ControlPlanes => Some("Exists"),
            Roles::Workers => Some("DoesNotExist"),
        };
        let mut selector = Map::new();
        if !labels.is_empty() {
            selector.insert("matchLabels".to_owned(), labels.into());
        }
        if let Some(operator) = operator {
            let role = json!([{ "key": labels::CONTROL_PLANE, "operator": operator }]);
            selector.insert("matchExpressions".to_owned(), role);
        }
        if !selector.is_empty() {
            let selector = serde_json::from_value(selector.into());
            matches.machine_selector = Some(selector.map_err(|_| ActError::NotOffered)?);
        }
        Ok(matches)
    }
}

/// The time that a field says; none if it is empty.
///
/// # Errors
/// When it is no time.
pub(crate) fn lasts(field: &str) -> Result<Option<GoDuration>, ActError> {
    match field.trim() {
        "" => Ok(None),
        lasts => {
            let lasts = GoDuration::parse(lasts)
                .ok()
                .filter(|lasts| !lasts.get().is_zero());
            lasts.ok_or(ActError::Time).map(Some)
        }
    }
}

/// A Fault with an effect that the page offers.
///
/// # Errors
/// When the offer is not an effect.
pub(crate) fn fault(
    offer: &Offer,
    namespace: &str,
    matches: FaultMatch,
    budget: FaultBudget,
) -> Result<Fault, ActError> {
    let word = offer.name.replace('.', "-").to_lowercase();
    Ok(Fault {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            generate_name: Some(format!("{word}-")),
            ..ObjectMeta::default()
        },
        spec: FaultSpec {
            matches,
            effect: Some(offer.effect().map_err(|_| ActError::NotOffered)?),
            budget,
        },
        status: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{prelude::*, sample::select};

    fn draft(query: &str) -> Result<Draft, ActError> {
        let fields: Vec<_> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        Draft::of(&fields)
    }

    #[test]
    fn the_fields_make_the_fault_that_the_same_flags_make() {
        let made = |query: &str| {
            let fault = draft(query)?.fault("team")?;
            Ok::<_, ActError>(serde_json::to_value(fault.spec).expect("JSON"))
        };
        assert_eq!(
            made(""),
            Ok(json!({ "effect": { "notReady": {} }, "budget": { "for": "60s" } }))
        );
        assert_eq!(
            made("effect=freeze&cluster=red&machines=worker&zone=n1&names=a,%20b&for=&count=2"),
            Ok(json!({
                "match": {
                    "names": ["a", "b"],
                    "zones": ["n1"],
                    "machineSelector": {
                        "matchLabels": { "cluster.x-k8s.io/cluster-name": "red" },
                        "matchExpressions": [{ "key": "cluster.x-k8s.io/control-plane", "operator": "DoesNotExist" }],
                    },
                },
                "effect": { "freeze": {} },
                "budget": { "count": 2 },
            }))
        );
        assert_eq!(
            made("effect=apiServer.down&cluster=red"),
            Ok(json!({
                "match": { "names": ["red"] }, "effect": { "apiServer": { "down": {} } }, "budget": { "for": "60s" },
            }))
        );
        assert_eq!(
            made("effect=addresses.exhausted&names=pool-a"),
            Ok(json!({
                "match": { "pools": ["pool-a"] }, "effect": { "addresses": { "exhausted": {} } },
                "budget": { "for": "60s" },
            }))
        );
        let refused = |query: &str| made(query).expect_err("it is refused");
        assert_eq!(refused("effect=gremlins"), ActError::NotOffered);
        assert_eq!(refused("machines=some"), ActError::NotOffered);
        for count in ["0", "-1", "many", "99999999999"] {
            assert_eq!(refused(&format!("count={count}")), ActError::Count);
        }
        assert_eq!(refused("for=soon"), ActError::Time);
    }

    /// Otherwise a Fault hits more than someone asked for.
    #[test]
    fn no_field_is_ignored() {
        let spec = |draft: &Draft| draft.fault("team").map(|fault| fault.spec);
        for offer in palette::Group::ALL.into_iter().flat_map(palette::Group::offers) {
            let effect = offer.name.to_owned();
            for fields in 0..16_u8 {
                let has = |bit: u8| fields & (1 << bit) != 0;
                let text = |bit: u8, text: &str| if has(bit) { text.to_owned() } else { String::new() };
                let draft = Draft {
                    effect: effect.clone(),
                    cluster: text(0, "red"),
                    roles: if has(1) { Roles::Workers } else { Roles::All },
                    zone: text(2, "north"),
                    names: text(3, "a"),
                    ..Draft::default()
                };
                let Ok(made) = spec(&draft) else { continue };
                for (field, wider) in draft.wider() {
                    let wider = spec(&wider);
                    assert_ne!(wider.as_ref(), Ok(&made), "{effect}: {field} of {draft:?}");
                }
            }
        }
    }

    proptest! {
        /// What someone fills in is a link that fills it in.
        #[test]
        fn a_draft_is_read_from_its_query(
            words in prop::array::uniform6("[a-z&=%+ü,]{0,5}"), roles in select(Roles::ALL.to_vec()),
        ) {
            let [effect, cluster, zone, names, lasts, count] = words;
            let drafted = Draft { effect, cluster, roles, zone, names, lasts, count };
            prop_assert_eq!(draft(&drafted.query()), Ok(drafted));
        }
    }
}
