//! A user's own extension delays machines before they are created and after they are deleted. It is written with the
//! Runtime SDK and the documented hooks, as users would write it.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use nephele_e2e::{Bare, Cluster, Look, Scope, Shape, management::kinds, state, until, wait::LIMIT};
use nephele_runtime_sdk::{
    catalog::Catalog,
    hooks::{Hook, HookMeta},
    request, response,
    server::{Extension, HandlerOptions, Mount, Tls, serve},
    wire::Object,
};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

request! {
    /// The request about a machine.
    struct MachineRequest {
        /// The InMemoryMachine.
        infrastructure_machine: Object,
        /// The simulated machine.
        instance: Object,
    }
}

response! {
    /// Makes the machine wait, or lets it continue.
    struct MachineResponse: retry {}
}

struct BeforeMachineCreate;

impl Hook for BeforeMachineCreate {
    type Request = MachineRequest;
    type Response = MachineResponse;
    const GROUP: &'static str = "hooks.nephele.dev";
    const VERSION: &'static str = "v1alpha1";
    const NAME: &'static str = "BeforeMachineCreate";
    const META: HookMeta = HookMeta::new("Called before a machine is created");
}

struct AfterMachineDelete;

impl Hook for AfterMachineDelete {
    type Request = MachineRequest;
    type Response = MachineResponse;
    const GROUP: &'static str = "hooks.nephele.dev";
    const VERSION: &'static str = "v1alpha1";
    const NAME: &'static str = "AfterMachineDelete";
    const META: HookMeta = HookMeta::new("Called after a machine is deleted");
}

/// Why machines have to wait now, and the recorded calls: hook, machine and provider ID.
#[derive(Default)]
struct Script {
    holds: Option<&'static str>,
    asked: Vec<(&'static str, String, String)>,
}

struct Served {
    script: Arc<Mutex<Script>>,
    address: SocketAddr,
    authority: String,
    shutdown: CancellationToken,
    task: JoinHandle<std::io::Result<()>>,
}

impl Served {
    fn start(options: &HandlerOptions) -> anyhow::Result<Self> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate()?;
        let pem = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate()?;
        let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&key, &issuer)?;
        let tls = Tls::from_pem(leaf.pem(), key.serialize_pem(), None)?;

        let script = Arc::new(Mutex::new(Script::default()));
        let answer = |hook: &'static str| {
            let script = Arc::clone(&script);
            move |request: MachineRequest| {
                let mut script = script.lock();
                let machine = request.infrastructure_machine.name().to_owned();
                let provider_id = request
                    .instance
                    .text("/providerID")
                    .unwrap_or_default()
                    .to_owned();
                script.asked.push((hook, machine, provider_id));
                script.holds.map_or_else(MachineResponse::default, |why| {
                    MachineResponse::retry_after(1, why)
                })
            }
        };
        let before = answer("BeforeMachineCreate");
        let after = answer("AfterMachineDelete");
        let mut catalog = Catalog::empty();
        catalog
            .add::<BeforeMachineCreate>()?
            .add::<AfterMachineDelete>()?;
        let mount = Mount::new(catalog)
            .on_with(BeforeMachineCreate, "veto", options.clone(), move |request, _| {
                let response = before(request);
                async move { Ok(response) }
            })
            .on_with(AfterMachineDelete, "delay", options.clone(), move |request, _| {
                let response = after(request);
                async move { Ok(response) }
            });
        let service = Extension::new().mount("/machines", mount).build()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(serve(service, listener, tls, shutdown.clone()));
        Ok(Self {
            script,
            address,
            authority: pem,
            shutdown,
            task,
        })
    }

    /// Registers the extension, and waits until the manager has discovered it.
    async fn register(&self, bare: &Bare, name: &str) -> anyhow::Result<()> {
        let url = format!("https://{}/machines", self.address);
        let object = json!({
            "apiVersion": "cloud.nephele.dev/v1alpha1", "kind": "CloudExtensionConfig",
            "metadata": {"name": name},
            "spec": {"clientConfig": {"url": url, "caBundle": STANDARD.encode(&self.authority)}},
        });
        bare.management.apply("", &[object]).await?;
        until(&format!("{name} to be discovered"), LIMIT, async || {
            let found = bare
                .management
                .get(kinds::CLOUD_EXTENSION_CONFIG, "", name)
                .await?;
            Ok(Look::when(state::is(&found, "Discovered", "True"), || {
                state::line(&found)
            }))
        })
        .await
    }

    fn hold(&self, why: Option<&'static str>) {
        self.script.lock().holds = why;
    }

    fn asked(&self, hook: &str) -> Vec<(&'static str, String, String)> {
        self.script
            .lock()
            .asked
            .iter()
            .filter(|asked| asked.0 == hook)
            .cloned()
            .collect()
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.shutdown.cancel();
        Ok(self.task.await??)
    }
}

#[tokio::test]
async fn an_extension_of_a_users_own_vetoes_and_delays_machines_and_is_missed_by_its_failure_policy()
-> anyhow::Result<()> {
    let bare = Bare::up("machine-hooks", None).await?;
    let scope = Scope::on(bare.management.clone(), "machine-hooks").await?;
    let strict = Served::start(&HandlerOptions::new())?;
    strict.hold(Some("no quota left"));
    strict.register(&bare, "strict").await?;

    let cluster = scope.plain("asked", Shape::new(1, 1)).await?;
    let said = "BeforeMachineCreate waits for veto.strict: no quota left; asked again every 1s";
    let machine = says(&cluster, "InfrastructureReady", said).await?;
    let described = bare
        .kubectl(&[
            "describe",
            "machines",
            state::name(&machine),
            "-n",
            &scope.namespace,
        ])
        .await?;
    assert!(described.contains(said), "{described}");
    let vetoed = cluster.of_kind(kinds::IN_MEMORY_MACHINE).await?;
    assert!(
        vetoed
            .iter()
            .all(|machine| machine["spec"]["providerID"].is_null()),
        "{vetoed:?}"
    );
    strict.hold(None);
    cluster.settled(1, 1).await?;
    for machine in cluster.of_kind(kinds::IN_MEMORY_MACHINE).await? {
        let name = state::name(&machine);
        let id = machine["spec"]["providerID"].as_str().unwrap_or_default();
        let asked = strict.asked("BeforeMachineCreate");
        assert!(
            asked.iter().any(|(_, asked, told)| asked == name && told == id),
            "{name} {id}: {asked:?}"
        );
    }

    strict.hold(Some("still in the inventory"));
    let asked = strict.asked("BeforeMachineCreate").len();
    cluster.scale_workers(0).await?;
    let said = "AfterMachineDelete waits for delay.strict: still in the inventory; asked again every 1s";
    until("the deletion to be delayed", LIMIT, async || {
        let machines = cluster.of_kind(kinds::IN_MEMORY_MACHINE).await?;
        let holds = machines
            .iter()
            .any(|machine| message(machine, "Deleting") == said);
        Ok(Look::when(holds, || machines.iter().map(state::line).collect()))
    })
    .await?;
    assert_eq!(cluster.machines(None).await?.len(), 2);
    strict.hold(None);
    cluster.settled(1, 0).await?;
    // The hook was not called again for existing machines.
    assert_eq!(strict.asked("BeforeMachineCreate").len(), asked);

    strict.stop().await?;
    cluster.scale_workers(1).await?;
    says(
        &cluster,
        "InfrastructureReady",
        "extension handler \"veto.strict\"",
    )
    .await?;
    let lenient = Served::start(&HandlerOptions::new().ignore_failures())?;
    lenient.hold(Some("never"));
    lenient.register(&bare, "lenient").await?;
    lenient.stop().await?;
    bare.management
        .delete(kinds::CLOUD_EXTENSION_CONFIG, "", "strict")
        .await?;
    cluster.settled(1, 1).await?;
    cluster.scale_workers(0).await?;
    cluster.settled(1, 0).await?;
    bare.management
        .delete(kinds::CLOUD_EXTENSION_CONFIG, "", "lenient")
        .await?;
    scope.finish().await?;
    bare.down().await
}

fn message<'a>(object: &'a Value, kind: &str) -> &'a str {
    state::condition(object, kind)
        .and_then(|condition| condition["message"].as_str())
        .unwrap_or_default()
}

/// Waits until a condition of a Machine has a message.
async fn says(cluster: &Cluster, kind: &str, said: &str) -> anyhow::Result<Value> {
    until(&format!("a machine to say {said:?}"), LIMIT, async || {
        let machines = cluster.machines(None).await?;
        match machines
            .iter()
            .find(|machine| message(machine, kind).contains(said))
        {
            Some(machine) => Ok(Look::Done(machine.clone())),
            None => Ok(Look::NotYet(machines.iter().map(state::line).collect())),
        }
    })
    .await
}
