//! Carries out the decided actions. Everything here is idempotent.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::atomic::{AtomicBool, Ordering},
};

use jiff::Timestamp;
use k8s_openapi::{
    ByteString, NamespaceResourceScope,
    api::core::v1::Secret,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Api, Client, Resource, ResourceExt as _, api::PostParams, core::object::HasStatus};
use nephele_api::{
    core::{Bootstrap, Endpoint, Machine, MachineSpec},
    infrastructure::v1beta2::{Behaviour, InMemoryMachine, InMemoryMachineSpec, pool_machine::label_value},
    labels,
};
use nephele_controller::{Kind, PatchError, Precondition, patch};
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

use crate::{
    cache::{Caches, Written},
    certificates::{CertificateError, Purpose, admin_kubeconfig, key_pair},
    decide::Action,
    names::{self, CLUSTER_FINALIZER, MACHINE_FINALIZER, SECRET_TYPE, TEMPLATE_HASH_LABEL},
    observe::Observed,
    plan::{ClusterPlan, DeploymentPlan},
    references::{owner, reference},
    surroundings::KeyPairs,
    workload::{self, WorkloadError},
};

/// Why an action failed.
#[derive(Debug, Error)]
pub(crate) enum ActError {
    #[error("failed to change an object")]
    Patch(#[source] PatchError),
    #[error("failed to create {0}")]
    Create(String, #[source] kube::Error),
    #[error("failed to generate certificates")]
    Certificate(#[source] CertificateError),
    #[error("failed to change the workload cluster")]
    Workload(#[source] WorkloadError),
}

impl ActError {
    /// The message of a refusal by the management API because of what the object says.
    pub(crate) fn refusal(&self) -> Option<String> {
        let source = match self {
            Self::Create(_, source) | Self::Patch(PatchError::Request { source, .. }) => source,
            Self::Patch(_) | Self::Certificate(_) | Self::Workload(_) => return None,
        };
        let is_refusal = matches!(source, kube::Error::Api(status) if [400, 403, 422].contains(&status.code));
        is_refusal.then(|| nephele_controller::chain(self))
    }
}

/// The clients and the state for actions.
pub(crate) struct Actor<'a> {
    pub(crate) client: &'a Client,
    pub(crate) caches: &'a Caches,
    /// The client of the workload cluster, if it was read.
    pub(crate) workload: Option<&'a Client>,
    pub(crate) plan: &'a ClusterPlan,
    pub(crate) key_pairs: &'a KeyPairs,
    pub(crate) observed: &'a Observed,
    pub(crate) now: Timestamp,
    /// Whether a write has changed something that the next decision has to see.
    pub(crate) wrote: AtomicBool,
}

impl Actor<'_> {
    pub(crate) async fn act(&self, action: Action) -> Result<(), ActError> {
        match action {
            Action::CompleteCluster(cluster) => self.patch(&self.observed.cluster, &cluster).await,
            Action::CreateInfrastructure(infrastructure) => self.create(&*infrastructure).await,
            Action::AdoptInfrastructure => self.adopt_infrastructure().await,
            Action::PublishEndpoint(endpoint) => self.publish_endpoint(endpoint).await,
            Action::CreateKeyPair(purpose) => self.create_key_pair(purpose).await,
            Action::CreateKubeconfig(endpoint) => self.create_kubeconfig(&endpoint).await,
            Action::CreateMachine {
                name,
                failure_domain,
                deployment,
            } => {
                let machine = self.machine(&name, failure_domain, deployment.as_deref());
                let Some(machine) = machine else { return Ok(()) };
                self.create(&machine).await
            }
            Action::CreateInfrastructureMachine(name) => {
                let Some(machine) = self.find(&name) else {
                    return Ok(());
                };
                self.create(&self.infrastructure_machine(machine)).await
            }
            Action::CreateBootstrapData(name) => self.create_bootstrap_data(&name).await,
            Action::NameProvider { machine, provider_id } => {
                let change = |machine: &mut Machine| machine.spec.provider_id = provider_id;
                self.change_machine(&machine, change).await
            }
            Action::AdoptNode { machine, node } => self.adopt_node(&machine, &node).await,
            Action::ReportMachine { machine, status } => {
                let Some(old) = self.find(&machine) else {
                    return Ok(());
                };
                let new = Machine {
                    status: Some(status),
                    ..old.clone()
                };
                self.report(old, &new).await
            }
            Action::ReportCluster(status) => {
                let old = &self.observed.cluster;
                let mut new = old.clone();
                new.status = Some(status);
                self.report(old, &new).await
            }
            Action::Owner(action) => self.act_on_owner(action).await,
            Action::DeleteMachine(name) => self.delete(self.find(&name)).await,
            Action::DeleteInfrastructureMachine(name) => {
                let machine = self.find(&name);
                self.delete(machine.and_then(|machine| self.observed.infrastructure_of(machine)))
                    .await
            }
            Action::DeleteNode { node, .. } => {
                let Some(client) = self.workload else {
                    return Ok(());
                };
                workload::delete_node(client, &node)
                    .await
                    .map_err(ActError::Workload)
            }
            Action::ReleaseMachine(name) => self.release(self.find(&name), MACHINE_FINALIZER).await,
            Action::DeleteInfrastructure => self.delete(self.observed.infrastructure.as_ref()).await,
            Action::Pool(action) => self.act_on_pool(action).await,
            Action::ReleaseCluster => {
                self.release(Some(&self.observed.cluster), CLUSTER_FINALIZER)
                    .await
            }
        }
    }

    pub(crate) fn find(&self, machine: &str) -> Option<&Machine> {
        self.observed
            .machines
            .iter()
            .find(|other| other.name_any() == machine)
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.observed.namespace())
    }

    fn note<K: Written>(&self, written: Option<K>) {
        if written.is_some_and(|written| written.note(self.caches)) {
            self.wrote.store(true, Ordering::Relaxed);
        }
    }

    /// Creates an object, unless it exists already.
    pub(crate) async fn create<K>(&self, object: &K) -> Result<(), ActError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Written + Clone + Debug + Serialize + DeserializeOwned,
    {
        self.note(create(&self.api(), object).await?);
        Ok(())
    }

    pub(crate) async fn patch<K>(&self, old: &K, new: &K) -> Result<(), ActError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Kind + Written + PartialEq,
    {
        // A merge patch replaces lists, such as owner references, as a whole.
        let patched = patch::object(&self.api(), old, new, Precondition::ResourceVersion).await;
        self.note(patched.map_err(ActError::Patch)?);
        Ok(())
    }

    pub(crate) async fn report<K>(&self, old: &K, new: &K) -> Result<(), ActError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Kind + Written + HasStatus<Status: Serialize + PartialEq>,
    {
        let patched = patch::status(&self.api(), old, new, Precondition::None).await;
        self.note(patched.map_err(ActError::Patch)?);
        Ok(())
    }

    /// Deletes an object. The watch brings what has become of it.
    pub(crate) async fn delete<K>(&self, object: Option<&K>) -> Result<(), ActError>
    where
        K: Kind + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let Some(object) = object else { return Ok(()) };
        patch::delete(&self.api(), object)
            .await
            .map(drop)
            .map_err(ActError::Patch)
    }

    /// Removes a finalizer. The watch brings what has become of the object.
    pub(crate) async fn release<K>(&self, object: Option<&K>, finalizer: &str) -> Result<(), ActError>
    where
        K: Kind + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let Some(object) = object else { return Ok(()) };
        patch::remove_finalizer(&self.api(), object, finalizer)
            .await
            .map(drop)
            .map_err(ActError::Patch)
    }

    async fn adopt_infrastructure(&self) -> Result<(), ActError> {
        let Some(old) = &self.observed.infrastructure else {
            return Ok(());
        };
        let mut new = old.clone();
        new.labels_mut()
            .insert(labels::CLUSTER_NAME.to_owned(), self.observed.name());
        new.owner_references_mut().push(owner(&self.observed.cluster));
        self.patch(old, &new).await
    }

    async fn publish_endpoint(&self, endpoint: Endpoint) -> Result<(), ActError> {
        let mut cluster = self.observed.cluster.clone();
        cluster.spec.control_plane_endpoint = Some(endpoint);
        self.patch(&self.observed.cluster, &cluster).await
    }

    async fn adopt_node(&self, machine: &str, node: &str) -> Result<(), ActError> {
        let known = self.observed.workload.as_ref().map(|workload| &workload.nodes);
        let node = known.and_then(|nodes| nodes.iter().find(|other| other.name_any() == node));
        let (Some(client), Some(machine), Some(node)) = (self.workload, self.find(machine), node) else {
            return Ok(());
        };
        workload::mark(client, node, &self.observed.cluster, machine)
            .await
            .map_err(ActError::Workload)
    }

    async fn create_key_pair(&self, purpose: Purpose) -> Result<(), ActError> {
        let algorithm = self.plan.key_algorithm;
        let now = self.now;
        let data = match self.key_pairs {
            KeyPairs::Generated => {
                // RSA keys take a while to generate.
                let made = tokio::task::spawn_blocking(move || key_pair(purpose, algorithm, now)).await;
                made.expect("making a key pair does not panic")
                    .map_err(ActError::Certificate)?
            }
            KeyPairs::Shared(shared) => shared.get(purpose.as_str()).cloned().unwrap_or_default(),
        };
        let name = names::secret(&self.observed.name(), purpose.as_str());
        self.create(&secret(self.metadata(&name, self.owned_by_cluster()), data))
            .await
    }

    async fn create_kubeconfig(&self, endpoint: &Endpoint) -> Result<(), ActError> {
        let ca = self
            .observed
            .secret(Purpose::Cluster.as_str())
            .and_then(|ca| ca.data.as_ref());
        let part = |key: &str| {
            ca.and_then(|ca| ca.get(key))
                .map_or(&[][..], |bytes| bytes.0.as_slice())
        };
        let server = format!("https://{endpoint}");
        let certificate = part("tls.crt");
        let key = part("tls.key");
        let text = admin_kubeconfig(&self.observed.name(), &server, certificate, key, self.now)
            .map_err(ActError::Certificate)?;
        let name = names::secret(&self.observed.name(), "kubeconfig");
        self.create_secret(&name, "value", text.into_bytes(), self.owned_by_cluster())
            .await
    }

    async fn create_secret(
        &self,
        name: &str,
        key: &str,
        value: Vec<u8>,
        owners: Vec<OwnerReference>,
    ) -> Result<(), ActError> {
        let data = BTreeMap::from([(key.to_owned(), ByteString(value))]);
        self.create(&secret(self.metadata(name, owners), data)).await
    }

    async fn create_bootstrap_data(&self, name: &str) -> Result<(), ActError> {
        let Some(machine) = self.find(name) else {
            return Ok(());
        };
        let data = b"## template: jinja\n#cloud-config\n# Nothing boots here: the machine is simulated.\n";
        self.create_secret(name, "value", data.to_vec(), vec![owner(machine)])
            .await?;
        let bootstrap = Bootstrap {
            config_ref: None,
            data_secret_name: Some(name.to_owned()),
        };
        self.change_machine(name, |machine| machine.spec.bootstrap = Some(bootstrap))
            .await
    }

    async fn change_machine(&self, name: &str, change: impl FnOnce(&mut Machine)) -> Result<(), ActError> {
        let Some(old) = self.find(name) else { return Ok(()) };
        let mut new = old.clone();
        change(&mut new);
        // Several changes of one Machine may follow from one observation; none of them changes a list.
        let patched = patch::object(&self.api(), old, &new, Precondition::None).await;
        self.note(patched.map_err(ActError::Patch)?);
        Ok(())
    }

    pub(crate) fn metadata(&self, name: &str, owners: Vec<OwnerReference>) -> ObjectMeta {
        let mut labels = self.plan.labels.clone();
        labels.insert(labels::CLUSTER_NAME.to_owned(), self.observed.name());
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.observed.namespace()),
            labels: Some(labels),
            owner_references: Some(owners),
            ..ObjectMeta::default()
        }
    }

    pub(crate) fn owned_by_cluster(&self) -> Vec<OwnerReference> {
        vec![owner(&self.observed.cluster)]
    }

    /// A Machine of a MachineDeployment and its MachineSet, or without them of the control plane. None without its owner.
    fn machine(
        &self,
        name: &str,
        failure_domain: String,
        deployment: Option<&(DeploymentPlan, String)>,
    ) -> Option<Machine> {
        let set = match deployment {
            None => None,
            Some((_, set)) => Some(self.observed.sets.iter().find(|other| other.name_any() == *set)?),
        };
        let owner = match set {
            None => owner(self.observed.control_plane.as_ref()?),
            Some(set) => owner(set),
        };
        let mut metadata = self.metadata(name, vec![owner.clone()]);
        let deployment = deployment.map(|(deployment, _)| deployment);
        let given = deployment.map_or(&self.plan.control_plane_metadata, |deployment| {
            &deployment.metadata
        });
        let labels = metadata.labels.get_or_insert_default();
        labels.extend(given.labels.clone());
        match deployment {
            None => labels.extend([
                (labels::CONTROL_PLANE.to_owned(), String::new()),
                (labels::CONTROL_PLANE_NAME.to_owned(), label_value(&owner.name)),
            ]),
            Some(DeploymentPlan {
                topology_name, name, ..
            }) => labels.extend([
                (labels::SET_NAME.to_owned(), label_value(&owner.name)),
                (labels::DEPLOYMENT_NAME.to_owned(), label_value(name)),
                (
                    labels::TOPOLOGY_DEPLOYMENT_NAME.to_owned(),
                    label_value(topology_name),
                ),
            ]),
        }
        let of_set = set.map(|set| &set.spec.template.metadata.labels);
        let hash = of_set.and_then(|of_set| of_set.get_key_value(TEMPLATE_HASH_LABEL));
        labels.extend(hash.map(|(name, value)| (name.clone(), value.clone())));
        labels.insert(labels::TOPOLOGY_OWNED.to_owned(), String::new());
        metadata.annotations = Some(given.annotations.clone()).filter(|given| !given.is_empty());
        metadata.finalizers = Some(vec![MACHINE_FINALIZER.to_owned()]);
        Some(Machine {
            metadata,
            spec: MachineSpec {
                cluster_name: self.observed.name(),
                version: self.plan.version.clone(),
                infrastructure_ref: Some(reference("InMemoryMachine", name)),
                failure_domain,
                ..MachineSpec::default()
            },
            status: None,
        })
    }

    fn infrastructure_machine(&self, machine: &Machine) -> InMemoryMachine {
        let mut metadata = self.metadata(&machine.name_any(), vec![owner(machine)]);
        metadata.labels = Some(machine.labels().clone());
        metadata.annotations.clone_from(&machine.metadata.annotations);
        let (behaviour, instance_type, market) = if labels::is_control_plane(&machine.metadata) {
            (&self.plan.behaviour, &self.plan.control_plane_instance_type, "")
        } else {
            let deployment = self.plan.deployment_of(machine);
            let behaviour = deployment.and_then(|deployment| deployment.behaviour.as_ref());
            let instance_type = deployment.and_then(|deployment| deployment.instance_type.as_ref());
            (
                behaviour.unwrap_or(self.plan.worker_behaviour()),
                instance_type.unwrap_or(&self.plan.worker_instance_type),
                self.plan.worker_market.as_str(),
            )
        };
        let spec = InMemoryMachineSpec {
            behaviour: Some(behaviour)
                .filter(|given| **given != Behaviour::default())
                .cloned(),
            instance_type: instance_type.clone(),
            market: market.to_owned(),
            network: self.plan.machine_network(),
            ..InMemoryMachineSpec::default()
        };
        InMemoryMachine {
            metadata,
            spec,
            status: None,
        }
    }
}

/// Creates an object. None if it exists already.
pub(crate) async fn create<K>(api: &Api<K>, object: &K) -> Result<Option<K>, ActError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    match api.create(&PostParams::default(), object).await {
        Ok(created) => Ok(Some(created)),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
        Err(error) => Err(ActError::Create(
            format!("{} {}", K::kind(&()), object.name_any()),
            error,
        )),
    }
}

fn secret(metadata: ObjectMeta, data: BTreeMap<String, ByteString>) -> Secret {
    Secret {
        metadata,
        data: Some(data),
        type_: Some(SECRET_TYPE.to_owned()),
        ..Secret::default()
    }
}
