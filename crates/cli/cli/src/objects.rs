//! Objects of any kind, with errors for the people who asked for them.

use std::{fmt::Debug, time::Duration};

use kube::{
    Api, Resource,
    api::{DeleteParams, ListParams, Preconditions},
    runtime::wait::{await_condition, conditions},
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::exit::{Exit, Problem};

/// All objects of an API. `place` follows the kind in errors, such as " in namespace default".
pub(crate) async fn listed<K>(api: &Api<K>, place: &str) -> Result<Vec<K>, Problem>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let listed = api.list(&ListParams::default()).await;
    listed.map(|listed| listed.items).map_err(|error| {
        let what = format!("list the {}s{place}", K::kind(&()));
        Problem::request(&what, &format!("list {}{place}", resource::<K>()), error)
    })
}

/// Deletes this object and no later one of its name, and waits until it is gone. `because` says what holds one that stays.
pub(crate) async fn delete<K>(api: &Api<K>, object: &K, within: Duration, because: &str) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let metadata = object.meta();
    let name = metadata.name.as_deref().unwrap_or_default();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let what = format!("{} {namespace}/{name}", K::kind(&()));
    let only = DeleteParams {
        preconditions: Some(Preconditions {
            uid: metadata.uid.clone(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match api.delete(name, &only).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
        Err(error) => {
            let permission = format!("delete {}", resource::<K>());
            return Err(Problem::request(&format!("delete {what}"), &permission, error).into());
        }
    }
    let uid = metadata.uid.as_deref().unwrap_or_default();
    let gone = await_condition(api.clone(), name, conditions::is_deleted(uid));
    match timeout(within, gone).await {
        Ok(gone) => Ok(gone.map(drop)?),
        Err(_) => {
            let limit = nephele_go_duration::format(within);
            let message = format!("{what} is still there after {limit}{because}; does a manager run?");
            Err(Problem::new(Exit::Failed, message).into())
        }
    }
}

/// The resource of a kind, as permissions name it.
fn resource<K: Resource<DynamicType = ()>>() -> String {
    let group = K::group(&());
    let dot = if group.is_empty() { "" } else { "." };
    format!("{}{dot}{group}", K::plural(&()))
}
