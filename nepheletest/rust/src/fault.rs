//! What goes wrong in the cloud.

use std::fmt;

use kube::{
    Api,
    api::{ApiResource, DynamicObject},
};

use crate::{
    cluster::{self, ClusterError},
    command::CommandError,
    nephele::Nephele,
    objects::{self, FaultBody},
    wait::WaitError,
};

/// Something that goes wrong in the cloud, from [`Nephele::fault`] until [`heal`](Self::heal).
#[derive(Debug)]
pub struct Fault<'a> {
    nephele: &'a Nephele,
    namespace: Option<String>,
    name: String,
}

/// Why a Fault is not healed, or why its hits are not known.
#[derive(thiserror::Error)]
pub enum FaultError {
    /// The management API refuses a request, or its answer has an unexpected form.
    #[error(transparent)]
    Request(ClusterError),
    /// The command that heals has failed.
    #[error(transparent)]
    Command(CommandError),
    /// The Fault is not gone in time.
    #[error(transparent)]
    Wait(WaitError),
}
crate::debug::in_words!(FaultError);

impl Nephele {
    /// Lets something go wrong, and returns when that is in force. The effect and the flags are those of
    /// `nephele fault add`:
    ///
    /// ```no_run
    /// # async fn fault(nephele: nepheletest::Nephele) -> Result<(), nepheletest::CommandError> {
    /// let effect = "fail: {reason: InsufficientCapacity}";
    /// let fault = nephele.fault(effect, &["--operation", "CreateInstance"]).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Unless a flag says otherwise, it affects the namespace `default` and gets a new name. It lasts until
    /// [`Fault::heal`]; dropping a [`Fault`] does not heal it.
    ///
    /// # Errors
    ///
    /// When the effect or a flag is wrong, in the words of the program.
    pub async fn fault(&self, effect: &str, flags: &[&str]) -> Result<Fault<'_>, CommandError> {
        let said = self.run_with(&["fault", "add", effect], flags).await?;
        let Some((namespace, name)) = in_force(&said) else {
            return Err(CommandError::NoFault { said });
        };
        Ok(Fault {
            nephele: self,
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        })
    }

    /// Says what a Fault would hit, as `nephele fault preview` does, and creates none.
    ///
    /// # Errors
    ///
    /// When the effect or a flag is wrong, in the words of the program.
    pub async fn preview(&self, effect: &str, flags: &[&str]) -> Result<String, CommandError> {
        self.run_with(&["fault", "preview", effect], flags).await
    }
}

/// The namespace and the name in what `fault add` prints about the object that it has made.
fn in_force(said: &str) -> Option<(Option<&str>, &str)> {
    if let Some(rest) = said.strip_prefix("ClusterFault ") {
        let (name, _) = rest.split_once(" is ")?;
        return Some((None, name));
    }
    let (object, _) = said.strip_prefix("Fault ")?.split_once(" is ")?;
    let (namespace, name) = object.split_once('/')?;
    Some((Some(namespace), name))
}

impl Fault<'_> {
    /// The one of the flag `--name`, or a new one.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// None for a ClusterFault, which the flags `--all-namespaces` and `--namespace-selector` make.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Deletes the Fault and waits until it is gone, as [`Nephele::wait_until`] does. What it has hit recovers, except
    /// instances that are gone. A Fault that is gone already stays so.
    ///
    /// # Errors
    ///
    /// When the management API or the program refuses it, and when the Fault does not go.
    pub async fn heal(self) -> Result<(), FaultError> {
        if self.find().await.map_err(FaultError::Request)?.is_none() {
            return Ok(());
        }
        let place = match &self.namespace {
            Some(namespace) => &["--namespace", namespace][..],
            None => &["--all-namespaces"],
        };
        let healed = self.nephele.run_with(&["fault", "heal", &self.name], place).await;
        healed.map_err(FaultError::Command)?;
        self.nephele
            .wait_until(&format!("the {self} is gone"), async || match self.find().await {
                Ok(None) => Ok(()),
                Ok(Some(_)) => Err(format!("the {self} is being deleted")),
                Err(error) => Err(error.to_string()),
            })
            .await
            .map_err(FaultError::Wait)
    }

    /// How often it has hit so far. Its status has the number within a second or two, so wait for the one that you
    /// expect.
    ///
    /// # Errors
    ///
    /// When the Fault is gone, or the management API refuses the request.
    pub async fn hits(&self) -> Result<u64, FaultError> {
        let attempt = format!("get {self}");
        let api = self.api().map_err(FaultError::Request)?;
        let found = api.get(&self.name).await;
        let found = found.map_err(|source| FaultError::Request(ClusterError::Request { attempt, source }))?;
        let body: FaultBody = objects::decode(&found).map_err(|source| {
            FaultError::Request(ClusterError::Decode {
                object: self.to_string(),
                source,
            })
        })?;
        Ok(body.status.hits)
    }

    async fn find(&self) -> Result<Option<DynamicObject>, ClusterError> {
        let found = self.api()?.get_opt(&self.name).await;
        found.map_err(|source| ClusterError::Request {
            attempt: format!("get {self}"),
            source,
        })
    }

    fn api(&self) -> Result<Api<DynamicObject>, ClusterError> {
        let client = cluster::client(&self.nephele.config())?;
        let resource: ApiResource = match &self.namespace {
            Some(_) => objects::fault(),
            None => objects::cluster_fault(),
        };
        Ok(match &self.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        })
    }
}

/// The kind and the name, as in messages of the program.
impl fmt::Display for Fault<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(formatter, "Fault {namespace}/{}", self.name),
            None => write!(formatter, "ClusterFault {}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_is_found_in_what_the_program_says() {
        let cases = [
            "Fault default/no-room is Active: matched 0, hit 0\n",
            "ClusterFault all is Active in 4 namespaces: matched 2, hit 2\n",
            "apiVersion: cloud.nephele.dev/v1alpha1\nkind: Fault\n",
        ];
        let found = [Some((Some("default"), "no-room")), Some((None, "all")), None];
        assert_eq!(cases.map(in_force), found);
    }
}
