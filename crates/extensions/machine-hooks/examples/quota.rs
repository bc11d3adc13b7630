//! An extension that limits the number of machines of a cluster: it delays the creation of a machine while the cluster
//! is full, and deletions make room. Its certificate is in `/tmp/k8s-webhook-server/serving-certs`. A
//! `CloudExtensionConfig` whose path is `/machines` registers it.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    net::TcpListener,
    sync::{Arc, Mutex, PoisonError},
};

use nephele_machine_hooks::{
    AfterMachineDelete, AfterMachineDeleteRequest, AfterMachineDeleteResponse, BeforeMachineCreate,
    BeforeMachineCreateRequest, BeforeMachineCreateResponse, catalog,
};
use nephele_runtime_sdk::{
    server::{Extension, Mount, Tls, TlsFiles, serve},
    wire::Object,
};
use tokio_util::sync::CancellationToken;

/// The machines that may be created, by cluster. A real extension would persist them, because it is called only once
/// for most machines.
type Granted = Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>;

fn cluster_of(machine: &Object) -> String {
    let cluster = machine.label("cluster.x-k8s.io/cluster-name").unwrap_or_default();
    format!("{}/{cluster}", machine.namespace())
}

fn before(granted: &Granted, request: &BeforeMachineCreateRequest) -> BeforeMachineCreateResponse {
    let most: usize = request
        .settings
        .get("most")
        .and_then(|most| most.parse().ok())
        .unwrap_or(10);
    let machine = &request.infrastructure_machine;
    let mut granted = granted.lock().unwrap_or_else(PoisonError::into_inner);
    let machines = granted.entry(cluster_of(machine)).or_default();
    // The hook may be called again for a machine that was allowed.
    if machines.len() >= most && !machines.contains(machine.name()) {
        return BeforeMachineCreateResponse::retry_after(30, format!("the cluster has its {most} machines"));
    }
    machines.insert(machine.name().to_owned());
    BeforeMachineCreateResponse::default()
}

fn after(granted: &Granted, request: &AfterMachineDeleteRequest) -> AfterMachineDeleteResponse {
    let machine = &request.infrastructure_machine;
    let mut granted = granted.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(machines) = granted.get_mut(&cluster_of(machine)) {
        machines.remove(machine.name());
    }
    AfterMachineDeleteResponse::default()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let granted = Granted::default();
    let of_before = Arc::clone(&granted);
    let machines = Mount::new(catalog())
        .on(BeforeMachineCreate, "quota", move |request, _call| {
            let response = before(&of_before, &request);
            async move { Ok(response) }
        })
        .on(AfterMachineDelete, "quota-release", move |request, _call| {
            let response = after(&granted, &request);
            async move { Ok(response) }
        });
    let extension = Extension::new().mount("/machines", machines).build()?;
    let tls = Tls::load(TlsFiles::in_folder("/tmp/k8s-webhook-server/serving-certs")).await?;
    serve(
        extension,
        TcpListener::bind("0.0.0.0:9443")?,
        tls,
        CancellationToken::new(),
    )
    .await?;
    Ok(())
}
