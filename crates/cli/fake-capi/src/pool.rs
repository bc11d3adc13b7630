//! Carries out the decided actions on a MachinePool.

use kube::ResourceExt as _;
use nephele_api::{
    core::{Bootstrap, Machine, MachinePool, MachinePoolSpec, MachineSpec},
    infrastructure::v1beta2::{
        InMemoryMachinePool, InMemoryMachinePoolSpec, PoolMachine,
        pool_machine::{POOL_NAME_LABEL, label_value},
    },
};

use crate::{
    act::{ActError, Actor},
    decide::PoolAction,
    names::{self, MACHINE_FINALIZER, POOL_FINALIZER},
    references::{owner, reference},
};

impl Actor<'_> {
    pub(crate) async fn act_on_pool(&self, action: PoolAction) -> Result<(), ActError> {
        let pool = self.observed.pool.as_ref();
        let infrastructure = self.observed.infrastructure_pool.as_ref();
        match action {
            PoolAction::Plan(spec) => self.plan_pool(*spec).await,
            PoolAction::CreateInfrastructure => {
                let Some(pool) = pool else { return Ok(()) };
                let template = PoolMachine {
                    behaviour: Some(self.plan.worker_behaviour().clone()),
                    instance_type: self.plan.worker_instance_type.clone(),
                    market: self.plan.worker_market.clone(),
                    network: self.plan.machine_network(),
                    ..PoolMachine::default()
                };
                let infrastructure = InMemoryMachinePool {
                    metadata: self.metadata(&pool.name_any(), vec![owner(pool)]),
                    spec: InMemoryMachinePoolSpec {
                        template: Some(template),
                        ..InMemoryMachinePoolSpec::default()
                    },
                    status: None,
                };
                self.create(&infrastructure).await
            }
            PoolAction::CreateMachine(name) => {
                let Some(pool) = pool else { return Ok(()) };
                self.create(&self.pool_machine(pool, &name)).await
            }
            PoolAction::AdoptInstance(name) => {
                let mut instances = self.observed.infrastructure_machines.iter();
                let instance = instances.find(|instance| instance.name_any() == name);
                let (Some(machine), Some(old)) = (self.find(&name), instance) else {
                    return Ok(());
                };
                let mut new = old.clone();
                new.owner_references_mut().push(owner(machine));
                self.patch(old, &new).await
            }
            PoolAction::Delete => self.delete(pool).await,
            PoolAction::DeleteInfrastructure => self.delete(infrastructure).await,
            PoolAction::Release => self.release(pool, POOL_FINALIZER).await,
        }
    }

    async fn plan_pool(&self, spec: MachinePoolSpec) -> Result<(), ActError> {
        if let Some(old) = &self.observed.pool {
            return self.patch(old, &MachinePool { spec, ..old.clone() }).await;
        }
        let mut metadata = self.metadata(&names::pool(&self.plan.name), self.owned_by_cluster());
        metadata.finalizers = Some(vec![POOL_FINALIZER.to_owned()]);
        self.create(&MachinePool {
            metadata,
            spec,
            status: None,
        })
        .await
    }

    /// The Machine of a machine of the pool. It boots with the pool's bootstrap data, and has no version, because core
    /// does not know it before the Node exists.
    fn pool_machine(&self, pool: &MachinePool, name: &str) -> Machine {
        let mut metadata = self.metadata(name, vec![owner(pool)]);
        let labels = metadata.labels.get_or_insert_default();
        labels.insert(POOL_NAME_LABEL.to_owned(), label_value(&pool.name_any()));
        metadata.finalizers = Some(vec![MACHINE_FINALIZER.to_owned()]);
        Machine {
            metadata,
            spec: MachineSpec {
                cluster_name: self.plan.name.clone(),
                bootstrap: Some(Bootstrap {
                    config_ref: None,
                    data_secret_name: Some(String::new()),
                }),
                infrastructure_ref: Some(reference("InMemoryMachine", name)),
                ..MachineSpec::default()
            },
            status: None,
        }
    }
}
