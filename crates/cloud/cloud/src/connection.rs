//! What faults do to the connections of a load balancer: new ones reach no API server or a foreign one, and open ones break off.

use std::{collections::BTreeMap, sync::Arc};

use nephele_model::LoadBalancerEffect;
use tokio::time::Instant;

use crate::tls::ApiServerTls;

/// A trouble, and since when connections know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) request_effect: LoadBalancerEffect,
    since: Instant,
}

/// What is wrong with a load balancer, by the name of the fault.
pub(crate) type LoadBalancerEffects = BTreeMap<String, Known>;

/// Where a new connection leads that does not reach the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Diversion {
    /// Nowhere: it ends at once.
    Nowhere,
    /// To a server of another cluster.
    ForeignServer,
}

/// The server behind a load balancer for a new connection.
pub(crate) enum Backend {
    /// None: the connection ends at once.
    None,
    /// A server of another cluster.
    ForeignServer(Arc<ApiServerTls>),
    /// An API server of the cluster.
    ApiServer(Arc<ApiServerTls>),
}

/// The wanted troubles. One that stays keeps the time since which it is known.
pub(crate) fn known(
    wanted: BTreeMap<String, LoadBalancerEffect>,
    before: &LoadBalancerEffects,
) -> LoadBalancerEffects {
    let known = |(fault, request_effect): (String, LoadBalancerEffect)| {
        let stays = before
            .get(&fault)
            .filter(|known| known.request_effect == request_effect)
            .cloned();
        let known = stays.unwrap_or_else(|| Known {
            request_effect,
            since: Instant::now(),
        });
        (fault, known)
    };
    wanted.into_iter().map(known).collect()
}

/// Where new connections lead instead of to the cluster. The first fault by name decides.
pub(crate) fn diversion(request_effects: &LoadBalancerEffects) -> Option<Diversion> {
    request_effects
        .values()
        .find_map(|known| match known.request_effect {
            LoadBalancerEffect::NoBackends => Some(Diversion::Nowhere),
            LoadBalancerEffect::WrongBackends => Some(Diversion::ForeignServer),
            LoadBalancerEffect::Reset { .. } => None,
        })
}

/// When a connection that began at this time breaks. `draw` is its draw for a fault, in [0, 1).
pub(crate) fn breaks_at(
    request_effects: &LoadBalancerEffects,
    began: Instant,
    draw: impl Fn(&str) -> f64,
) -> Option<Instant> {
    let end = |(
        fault,
        Known {
            request_effect,
            since,
        },
    ): (&String, &Known)| match *request_effect {
        LoadBalancerEffect::Reset { after, per_million } if draw(fault) * 1e6 < f64::from(per_million) => {
            began.max(*since).checked_add(after)
        }
        _ => None,
    };
    request_effects.iter().filter_map(end).min()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn request_effects(list: &[(&str, LoadBalancerEffect)]) -> LoadBalancerEffects {
        let wanted = list
            .iter()
            .map(|(fault, request_effect)| ((*fault).to_owned(), request_effect.clone()));
        known(wanted.collect(), &LoadBalancerEffects::new())
    }

    fn reset(seconds: u64, per_million: u32) -> LoadBalancerEffect {
        LoadBalancerEffect::Reset {
            after: Duration::from_secs(seconds),
            per_million,
        }
    }

    #[test]
    fn first_fault_that_diverts_connections_decides() {
        use LoadBalancerEffect::{NoBackends, WrongBackends};
        assert_eq!(diversion(&request_effects(&[])), None);
        assert_eq!(diversion(&request_effects(&[("a", reset(1, 1))])), None);
        let both = request_effects(&[("b", NoBackends), ("a", WrongBackends)]);
        assert_eq!(diversion(&both), Some(Diversion::ForeignServer));
        assert_eq!(
            diversion(&request_effects(&[("b", NoBackends)])),
            Some(Diversion::Nowhere)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_are_drawn_break_after_their_time() {
        let second = Duration::from_secs(1);
        let before = Instant::now();
        tokio::time::advance(second * 100).await;
        let list = request_effects(&[("a", reset(30, 1_000_000)), ("b", reset(5, 250_000))]);
        let now = Instant::now();
        let drawn = |value: f64| move |_: &str| value;
        assert_eq!(
            breaks_at(&list, before, drawn(0.9)),
            Some(now + second * 30),
            "open before the fault"
        );
        let later = now + second;
        assert_eq!(breaks_at(&list, later, drawn(0.9)), Some(later + second * 30));
        assert_eq!(breaks_at(&list, later, drawn(0.2)), Some(later + second * 5));
        assert_eq!(
            breaks_at(&request_effects(&[("b", reset(5, 250_000))]), later, drawn(0.25)),
            None
        );
        tokio::time::advance(second).await;
        let wanted = BTreeMap::from([
            ("a".to_owned(), reset(30, 1_000_000)),
            ("b".to_owned(), reset(6, 1)),
        ]);
        let again = known(wanted, &list);
        assert_eq!(
            (again["a"].since, again["b"].since),
            (now, now + second),
            "one that stays is known longer"
        );
    }
}
