//! An extension over real TLS with hooks for machines, whose answers the test sets.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use nephele_api::{cloud::v1alpha1::CloudExtensionConfig, conditions};
use nephele_machine_hooks::{
    AfterMachineDelete, AfterMachineDeleteResponse, BeforeMachineCreate, BeforeMachineCreateResponse,
    Instance, catalog,
};
use nephele_runtime_sdk::{
    hooks::Failure,
    server::{Extension as Served, HandlerOptions, Mount, Tls, serve},
    wire::{Bytes, Object},
};
use nephele_testkit::{ManagementApi, PATIENCE, eventually_of};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// A hook request that arrived.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Question {
    pub(crate) hook: &'static str,
    pub(crate) machine: String,
    pub(crate) instance: Instance,
    /// The names of Cluster and Machine, and the version and kind of each object.
    pub(crate) objects: Vec<String>,
}

/// The answer to each hook request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Say {
    Go,
    Wait(u16, &'static str),
    Fail(&'static str),
}

#[derive(Clone)]
struct Script {
    say: watch::Sender<Say>,
    asked: watch::Sender<Vec<Question>>,
}

pub(crate) struct Extension {
    script: Script,
    authority: String,
    tls: Tls,
    pub(crate) address: SocketAddr,
    options: HandlerOptions,
    running: Option<(CancellationToken, JoinHandle<std::io::Result<()>>)>,
}

impl Extension {
    pub(crate) fn start(say: Say, options: HandlerOptions) -> Self {
        let mut authority = CertificateParams::new(Vec::new()).expect("parameters");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate().expect("a key");
        let pem = authority
            .self_signed(&authority_key)
            .expect("a certificate")
            .pem();
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate().expect("a key");
        let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("parameters");
        let leaf = leaf.signed_by(&key, &issuer).expect("a certificate");
        let script = Script {
            say: watch::Sender::new(say),
            asked: watch::Sender::default(),
        };
        let mut extension = Self {
            script,
            authority: pem,
            tls: Tls::from_pem(leaf.pem(), key.serialize_pem(), None).expect("a certificate and its key"),
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            options,
            running: None,
        };
        extension.serve();
        extension
    }

    /// Serves again after [`Extension::stop`], on the same address.
    pub(crate) fn serve(&mut self) {
        let listener = TcpListener::bind(self.address).expect("a free port");
        self.address = listener.local_addr().expect("an address");
        let before = self.script.clone();
        let after = self.script.clone();
        let mount = Mount::new(catalog())
            .on_with(
                BeforeMachineCreate,
                "quota",
                self.options.clone(),
                move |request, _| {
                    let objects = [
                        &request.cluster,
                        &request.machine,
                        &request.infrastructure_machine,
                    ];
                    let question = question("BeforeMachineCreate", objects, &request.instance);
                    let said = before.note(question);
                    async move {
                        match said {
                            Say::Go => Ok(BeforeMachineCreateResponse::default()),
                            Say::Wait(seconds, why) => {
                                Ok(BeforeMachineCreateResponse::retry_after(seconds, why))
                            }
                            Say::Fail(why) => Err(Failure::new(why)),
                        }
                    }
                },
            )
            .on_with(
                AfterMachineDelete,
                "cleanup",
                self.options.clone(),
                move |request, _| {
                    let objects = [
                        &request.cluster,
                        &request.machine,
                        &request.infrastructure_machine,
                    ];
                    let question = question("AfterMachineDelete", objects, &request.instance);
                    let said = after.note(question);
                    async move {
                        match said {
                            Say::Go => Ok(AfterMachineDeleteResponse::default()),
                            Say::Wait(seconds, why) => {
                                Ok(AfterMachineDeleteResponse::retry_after(seconds, why))
                            }
                            Say::Fail(why) => Err(Failure::new(why)),
                        }
                    }
                },
            );
        let service = Served::new()
            .mount("/machines", mount)
            .build()
            .expect("an extension");
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(serve(service, listener, self.tls.clone(), shutdown.clone()));
        self.running = Some((shutdown, task));
    }

    pub(crate) async fn stop(&mut self) {
        let (shutdown, task) = self.running.take().expect("it is served");
        shutdown.cancel();
        task.await.expect("no panic").expect("a listener");
    }

    pub(crate) fn say(&self, say: Say) {
        self.script.say.send_replace(say);
    }

    /// The hook requests so far.
    pub(crate) fn asked(&self) -> Vec<Question> {
        self.script.asked.borrow().clone()
    }

    /// How often a hook was called so far.
    pub(crate) fn count(&self, hook: &str) -> usize {
        self.script
            .asked
            .borrow()
            .iter()
            .filter(|question| question.hook == hook)
            .count()
    }

    /// Waits until a hook was called this many times.
    pub(crate) async fn counts(&self, hook: &str, count: usize) {
        let mut asked = self.script.asked.subscribe();
        let enough =
            |asked: &Vec<Question>| asked.iter().filter(|question| question.hook == hook).count() >= count;
        let waited = tokio::time::timeout(PATIENCE, asked.wait_for(enough)).await;
        waited
            .unwrap_or_else(|_| panic!("waited for {count} of {hook}: {:?}", self.asked()))
            .expect("kept");
    }

    /// Registers the extension by this name, for the selected namespaces, and waits until it is discovered.
    pub(crate) async fn register(&self, api: &ManagementApi, name: &str, namespaces: Value) {
        let object: CloudExtensionConfig = serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": {
                "clientConfig": {
                    "url": format!("https://{}/machines", self.address),
                    "caBundle": serde_json::to_value(Bytes(self.authority.clone().into_bytes())).expect("base64"),
                },
                "namespaceSelector": namespaces,
                "settings": { "most": "3" },
            },
        }))
        .expect("an object");
        configs(api)
            .create(&PostParams::default(), &object)
            .await
            .expect("it is taken");
        let discovered = |object: Option<&CloudExtensionConfig>| {
            let status = object.and_then(|object| object.status.as_ref());
            status.is_some_and(|status| conditions::is_true(&status.conditions, "Discovered"))
        };
        eventually_of(&configs(api), name, "to be discovered", discovered).await;
    }
}

pub(crate) fn configs(api: &ManagementApi) -> Api<CloudExtensionConfig> {
    Api::all(api.client())
}

pub(crate) async fn unregister(api: &ManagementApi, name: &str) {
    configs(api)
        .delete(name, &DeleteParams::default())
        .await
        .expect("it is deleted");
}

/// Changes something in a registration that does not concern machines.
pub(crate) async fn touch(api: &ManagementApi, name: &str) {
    let patch = json!({ "spec": { "settings": { "most": "4" } } });
    let patched = configs(api)
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    assert_eq!(patched.expect("it is patched").name_any(), name);
}

impl Script {
    fn note(&self, question: Question) -> Say {
        let say = *self.say.borrow();
        self.asked.send_modify(|asked| asked.push(question));
        say
    }
}

fn question(hook: &'static str, objects: [&Object; 3], instance: &Instance) -> Question {
    let name = |object: &Object| format!("{} {} {}", object.api_version(), object.kind(), object.name());
    Question {
        hook,
        machine: objects[2].name().to_owned(),
        instance: instance.clone(),
        objects: objects
            .into_iter()
            .filter(|object| !object.is_absent())
            .map(name)
            .collect(),
    }
}
