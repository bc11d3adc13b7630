//! Checkpoints of a cloud: the objects of all its clusters, written and put back.

use std::collections::BTreeMap;

use nephele_model::ClusterId;

use crate::{
    checkpoint::{BYTES_MAX, ClusterObjects, PutBackError, Waiting, WrittenObjects, WrittenRecord},
    cloud::Cloud,
    content::Content,
};

impl Cloud {
    /// The [`ClusterObjects`] of a cluster as a line of JSON. None if it does not run.
    ///
    /// Clients of the cluster choose how much that is, and what a parse of it would take. So nothing is parsed, and whoever
    /// serves others does this on a thread of its own.
    #[must_use]
    pub fn cluster_objects(&self, id: &ClusterId) -> Option<Vec<u8>> {
        let cluster = self.cluster(id)?;
        self.catch_up(&cluster, |_| ());
        let deleted = cluster.deleted();
        let there = cluster.cluster_server.store.objects();
        let there = there.iter().map(|(key, object)| {
            let object = serde_json::from_slice(&object.bytes);
            WrittenRecord::of(
                key,
                Some(object.expect("stored bytes were serialised from a JSON object")),
            )
        });
        let objects = there
            .chain(deleted.iter().map(|key| WrittenRecord::of(key, None)))
            .collect();
        let written = WrittenObjects {
            namespace: &id.namespace,
            name: &id.name,
            created_at: cluster.spec.created_at,
            objects,
        };
        let mut line = serde_json::to_vec(&written).expect("JSON can be written");
        line.push(b'\n');
        Some(line)
    }

    /// Keeps objects for clusters that are created later, instead of those that an earlier call put here. Each cluster
    /// takes its own when it is created.
    ///
    /// # Errors
    /// When one of the clusters exists, or the objects cannot be those of a cluster. Then nothing is changed.
    pub fn put_back(&self, clusters: Vec<ClusterObjects>) -> Result<(), PutBackError> {
        let mut waiting = BTreeMap::new();
        let mut bytes = 0;
        for cluster in clusters {
            let id = ClusterId {
                namespace: cluster.namespace,
                name: cluster.name,
            };
            let content = Content::of(cluster.objects);
            bytes += content
                .objects
                .iter()
                .map(|(_, object)| object.len())
                .sum::<usize>();
            if bytes > BYTES_MAX {
                return Err(PutBackError::TooLarge(BYTES_MAX));
            }
            content.check().map_err(|source| PutBackError::Objects {
                cluster: id.clone(),
                source: Box::new(source),
            })?;
            waiting.insert(
                id,
                Waiting {
                    created_at: cluster.created_at,
                    content,
                },
            );
        }
        let clusters: Vec<_> = waiting.keys().cloned().collect();
        let put = self.unless_they_exist(&clusters, |persister| persister.put_back.replace(waiting));
        put.map_err(PutBackError::Exists)
    }

    /// Forgets the objects of [`Cloud::put_back`]: all clusters have theirs. Until then a cluster that is created twice, for
    /// example by a reconcile that has not seen yet that its object is gone, gets them twice.
    pub fn forget_put_back(&self) {
        // No cluster exists of those in an empty list.
        let _ = self.unless_they_exist(&[], |persister| persister.put_back.replace(BTreeMap::new()));
    }
}
