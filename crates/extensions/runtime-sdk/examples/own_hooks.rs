//! A custom hook beside a hook of Cluster API, on a mount that Cluster API does not discover. Prints the served paths.
#![allow(clippy::print_stdout, reason = "an example prints what it shows")]

use std::error::Error;

use nephele_runtime_sdk::{
    catalog::Catalog,
    hooks::{BeforeClusterDelete, BeforeClusterDeleteResponse, Failure, Hook, HookMeta},
    request, response,
    server::{Extension, HandlerOptions, Mount},
    wire::Object,
};

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
#[derive(Clone, Copy, Debug)]
pub struct BeforeMachineCreate;

impl Hook for BeforeMachineCreate {
    type Request = BeforeMachineCreateRequest;
    type Response = BeforeMachineCreateResponse;
    const GROUP: &'static str = "hooks.example.com";
    const VERSION: &'static str = "v1alpha1";
    const NAME: &'static str = "BeforeMachineCreate";
    const META: HookMeta = HookMeta::new("Called before a machine is created").tags(&["Machines"]);
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut catalog = Catalog::empty();
    catalog.add::<BeforeMachineCreate>()?;
    let options = HandlerOptions::new().timeout_seconds(2).ignore_failures();
    let own = Mount::new(catalog).on_with(
        BeforeMachineCreate,
        "quota",
        options,
        |request, _call| async move {
            if request.machine.label("example.com/tier") == Some("gold") {
                return Err(Failure::new("no machines of tier gold are left"));
            }
            Ok(BeforeMachineCreateResponse::default())
        },
    );
    let service = Extension::new()
        .on(BeforeClusterDelete, "backup", |request, _call| async move {
            if request.cluster.annotation("example.com/backed-up").is_none() {
                return Ok(BeforeClusterDeleteResponse::retry_after(
                    30,
                    "the cluster is being backed up",
                ));
            }
            Ok(BeforeClusterDeleteResponse::default())
        })
        .mount("/own", own)
        .build()?;
    for path in service.paths() {
        println!("{path}");
    }
    println!("{:#}", service.openapi());
    Ok(())
}
