//! What the properties of all plans have in common: the objects that they begin with, and what a plan may do with our
//! finalizer.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use nephele_cloud::{CallError, Deletion};
use nephele_controller::{MANAGED_BY_ANNOTATION, PAUSED_ANNOTATION};
use nephele_model::CloudError;
use proptest::{
    collection::vec,
    option,
    prelude::*,
    sample::{select, subsequence},
    test_runner::TestCaseResult,
};

use super::*;

/// How many objects each property looks at.
pub(crate) const CASES: u32 = 2048;

/// What others write to an object of any kind.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    is_deleted: bool,
    finalizers: Vec<String>,
    annotations: Vec<&'static str>,
    /// Whether core has added its owner.
    pub(crate) is_owned: bool,
    /// Whether it has the label with the name of its cluster.
    pub(crate) is_labelled: bool,
}

impl Written {
    /// With and without our finalizer, and with finalizers of others.
    pub(crate) fn any(ours: &'static str) -> impl Strategy<Value = Self> {
        let finalizers = ["example.com/first", ours, "example.com/last"]
            .map(str::to_owned)
            .to_vec();
        // The last one marks an object that cannot be read.
        let annotations = vec![PAUSED_ANNOTATION, MANAGED_BY_ANNOTATION, "nephele.dev/unreadable"];
        let annotations = prop_oneof![3 => Just(vec![]), 1 => subsequence(annotations, 1..=3)];
        let all = (
            any::<bool>(),
            subsequence(finalizers, 0..=3),
            annotations,
            often(),
            often(),
        );
        all.prop_map(
            |(is_deleted, finalizers, annotations, is_owned, is_labelled)| Self {
                is_deleted,
                finalizers,
                annotations,
                is_owned,
                is_labelled,
            },
        )
    }

    /// Writes it to an object that core has owned and labelled.
    pub(crate) fn to(&self, metadata: &mut ObjectMeta) {
        metadata.deletion_timestamp = self.is_deleted.then_some(Time(Timestamp::UNIX_EPOCH));
        metadata.finalizers = Some(self.finalizers.clone());
        let annotations = self
            .annotations
            .iter()
            .map(|name| ((*name).to_owned(), "m".to_owned()));
        metadata.annotations.get_or_insert_default().extend(annotations);
        metadata.owner_references = metadata.owner_references.take().filter(|_| self.is_owned);
        metadata.labels = metadata.labels.take().filter(|_| self.is_labelled);
    }
}

/// True more often than false.
pub(crate) fn often() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.8)
}

/// What the cloud may answer to a deletion: none of it needs to be true for the object.
pub(crate) fn answers<E: From<CallError> + std::fmt::Debug + 'static>()
-> impl Strategy<Value = fn() -> Result<Deletion, E>> {
    select(vec![
        (|| Ok(Deletion::Gone)) as fn() -> Result<Deletion, E>,
        || {
            Ok(Deletion::InProgress {
                since: Timestamp::UNIX_EPOCH,
            })
        },
        || {
            let source = CloudError::UnknownZone("z".into());
            Err(E::from(CallError::Refused {
                verb: "DeleteInstance",
                source,
            }))
        },
    ])
}

/// What a plan may do with our finalizer. `is_resting` tells whether the object is paused or another system manages it.
pub(crate) fn check(
    metadata: &ObjectMeta,
    ours: &str,
    planned: Finalizer,
    is_resting: bool,
) -> TestCaseResult {
    let is_deleted = metadata.deletion_timestamp.is_some();
    let is_held = is_held(metadata, ours);
    match planned {
        // One that is being deleted goes in the end.
        Finalizer::Kept => prop_assert!(!is_deleted || !is_held || is_resting, "it is never released"),
        Finalizer::Added | Finalizer::AddedWithSpec => {
            prop_assert!(!is_deleted, "added to one that is being deleted");
            prop_assert!(!is_resting, "added to one that rests");
        }
        Finalizer::Released => {
            prop_assert!(is_deleted, "released although it is not being deleted");
            prop_assert!(is_held, "there is nothing to release");
            prop_assert!(!is_resting, "released while it rests");
        }
    }
    Ok(())
}

/// What is removed is what the cloud was asked for. `asked` is whether it was, and `deletion` what it answers then.
pub(crate) fn check_removal<E: std::fmt::Debug>(
    asked: bool,
    is_in_cloud: bool,
    deletion: fn() -> Result<Deletion, E>,
) -> TestCaseResult {
    prop_assert!(asked || !is_in_cloud, "it is left in the cloud");
    let answer = asked.then(deletion);
    let is_gone = matches!(answer, None | Some(Ok(Deletion::Gone)));
    prop_assert_eq!(Removal::answered(answer).is_done(), is_gone);
    Ok(())
}

/// Whether an object of ours rests, by its own annotations or by its Cluster.
pub(crate) fn is_resting(metadata: &ObjectMeta, is_cluster_paused: bool) -> bool {
    let has = |name: &str| {
        metadata
            .annotations
            .iter()
            .flatten()
            .any(|(known, _)| known == name)
    };
    is_cluster_paused || has(PAUSED_ANNOTATION) || has(MANAGED_BY_ANNOTATION)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_object_goes_once_the_cloud_and_its_claims_are_gone(
        answer in option::of(answers::<CallError>()),
        left in vec("[a-z]{1,3}", 0..3),
    ) {
        let answer = answer.map(|answer| answer());
        let nothing_left = matches!(answer, None | Some(Ok(Deletion::Gone))) && left.is_empty();
        let removal = Removal::answered(answer).with_claims(left);
        prop_assert_eq!(removal.is_done(), nothing_left, "{:?}", removal);
    }
}
