//! A provider that calls extensions of its own hook. Objects of its own kind register the extensions. The example shows
//! the decisions about such an object, step by step. A controller would read the object from its cluster and write the
//! results back; here the object is a value, and the extension is a function.
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::{error::Error, sync::Arc};

use futures::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use nephele_runtime_sdk::{
    catalog::Catalog,
    client::{
        Client, ClientConfig, LabelSelector, Registry, Subject,
        extension_config::{
            Condition, ExtensionKind, Finding, HandlerStatus, Metadata, Mode, Status, Step, begin, conclude,
        },
        transport::{Incoming, Outgoing, Transport, TransportError},
    },
    hooks::{Discovery, Hook, HookMeta, Settings},
    request, response,
    wire::Object,
};
use serde::Deserialize;
use serde_json::json;

request! {
    /// The request before a machine is created.
    pub struct BeforeMachineCreateRequest {
        /// The machine that will be created.
        pub machine: Object,
    }
}

response! {
    /// Lets the machine be created, or makes it wait.
    pub struct BeforeMachineCreateResponse: retry {}
}

/// Called before a machine is created.
struct BeforeMachineCreate;

impl Hook for BeforeMachineCreate {
    type Request = BeforeMachineCreateRequest;
    type Response = BeforeMachineCreateResponse;
    const GROUP: &'static str = "hooks.example.com";
    const VERSION: &'static str = "v1alpha1";
    const NAME: &'static str = "BeforeMachineCreate";
    const META: HookMeta = HookMeta::new("Called before a machine is created");
}

/// An object that registers an extension. The fields belong to the kind; the trait maps them.
#[derive(Clone, Deserialize)]
struct MachineExtension {
    metadata: Metadata,
    spec: MachineExtensionSpec,
    #[serde(default)]
    status: MachineExtensionStatus,
}

#[derive(Clone, Deserialize)]
struct MachineExtensionSpec {
    address: String,
    settings: Settings,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct MachineExtensionStatus {
    conditions: Vec<Condition>,
    handlers: Vec<HandlerStatus>,
}

impl ExtensionKind for MachineExtension {
    const GROUP: &'static str = "example.com";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "MachineExtension";
    const PLURAL: &'static str = "machineextensions";

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn client_config(&self) -> ClientConfig {
        ClientConfig {
            url: format!("https://{}", self.spec.address),
            ..ClientConfig::default()
        }
    }

    fn namespace_selector(&self) -> Option<LabelSelector> {
        Some(LabelSelector::default())
    }

    fn settings(&self) -> Settings {
        self.spec.settings.clone()
    }

    fn status(&self) -> Status {
        Status {
            conditions: self.status.conditions.clone(),
            handlers: self.status.handlers.clone(),
        }
    }
}

/// The extension: its one handler allows no machines on Fridays.
struct InProcess;

impl Transport for InProcess {
    fn send(&self, call: Outgoing) -> BoxFuture<'_, Result<Incoming, TransportError>> {
        let answer = if call.uri.path().ends_with("/discovery") {
            json!({ "status": "Success", "handlers": [{
                "name": "not-on-fridays",
                "requestHook": { "apiVersion": "hooks.example.com/v1alpha1", "hook": "BeforeMachineCreate" },
            }] })
        } else {
            json!({ "status": "Success", "message": "not on a Friday", "retryAfterSeconds": 3600 })
        };
        async move {
            Ok(Incoming {
                code: 200,
                body: answer.to_string().into(),
            })
        }
        .boxed()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut catalog = Catalog::empty();
    catalog.add::<Discovery>()?.add::<BeforeMachineCreate>()?;
    let client = Client::builder(catalog)
        .registry(Registry::of([])?)
        .transport(Arc::new(InProcess))
        .build();

    let mut object: MachineExtension = serde_json::from_value(json!({
        "metadata": { "name": "fridays", "resourceVersion": "1", "generation": 1 },
        "spec": { "address": "fridays.example.com", "settings": { "country": "fr" } },
    }))?;
    let registration = loop {
        match begin(
            Some(&object),
            client.registry().is_ready(),
            Mode::ReadWrite,
            Timestamp::now(),
        ) {
            // A controller patches the object, which triggers another reconcile.
            Step::Report(patch) => object.status = serde_json::from_value(patch["status"].clone())?,
            Step::Discover => {
                let config = object.client_config();
                let discovered = client
                    .discover("fridays", &config, MachineExtension::UNKNOWN_HOOKS)
                    .await?;
                let conclusion = conclude(&object, &Finding::Discovered(discovered), Timestamp::now());
                println!("the status becomes {:#}", conclusion.status.unwrap_or_default());
                break object.registration(conclusion.handlers.unwrap_or_default());
            }
            other => return Err(format!("this example does not expect {other:?}").into()),
        }
    };
    client.registry().add(registration)?;

    let request = BeforeMachineCreateRequest::default();
    let response = client
        .call_all::<BeforeMachineCreate>(&Subject::new("default", "machine-1"), &request)
        .await?;
    println!(
        "wait {} seconds: {}",
        response.retry_after_seconds, response.message
    );
    Ok(())
}
