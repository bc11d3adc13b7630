//! The forms of the page: what they need, and what becomes of them.

use std::{sync::Arc, time::Duration};

use axum::body::{Body, HttpBody};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use jiff::Timestamp;
use maud::Markup;
use nephele_api::cloud::v1alpha1::{Fault, Scenario};
use nephele_controller::chain;
use tokio::{task::spawn_blocking, time::timeout};

use super::{Screens, Server, markup, not_found, parts, seen, selected, text};
use crate::{
    act::{self, Act, Permission, field},
    act_error::ActError,
    actor::RefusedAct,
    draft::Draft,
    drawer_html::{self, Forms},
    elements::{ANY, path},
    feed::Shown,
    html,
    library::Lacks,
    library_html,
    objects::{Key, Objects},
    outcome::{Change, Outcome},
    palette_html::{self, Choices},
    preview::Preview,
    recording::Recorder,
    recording_html,
};

/// The bytes of a form, and its fields.
pub(super) const FORM_MAX: usize = 4 * 1024;
const FIELDS_MAX: usize = 12;
/// The header by which the module of the page asks for what came of an act alone.
pub(super) const FRAGMENT: &str = "nephele-fragment";

/// How long the page waits for what is there of a cluster.
const LACKS_WITHIN: Duration = Duration::from_secs(5);

impl Server {
    /// The palette of a namespace, filled in as the query says. None if there is no such palette.
    pub(super) async fn palette(
        &self,
        shown: &Arc<Shown>,
        key: &Key,
        query: &str,
    ) -> Option<(StatusCode, Markup)> {
        let namespace = self
            .namespace(shown, key)
            .filter(|_| key.name == palette_html::NAME)?;
        let draft = match Draft::of(&fields_of(query.as_bytes())) {
            Ok(draft) => draft,
            Err(error) => {
                return Some((StatusCode::BAD_REQUEST, drawer_html::refusal(&error.to_string())));
            }
        };
        let choices = Choices::new(&shown.model, &namespace);
        let _place = self.preview().await?;
        let matcher = self.matcher;
        let asked = Asked {
            draft: draft.clone(),
            namespace: namespace.clone(),
            objects: Arc::clone(&shown.objects),
            now: (self.clock)(),
        };
        let previewing = move || {
            let Asked {
                draft,
                namespace,
                objects,
                now,
            } = &asked;
            Preview::new(draft, objects, namespace, *now, matcher)
        };
        let preview = spawn_blocking(previewing).await.ok()?;
        let permission = Some(Permission::of::<Fault>("create"));
        let forms = self
            .forms(palette_html::path_of(Some(&namespace)), permission, &namespace)
            .await;
        let palette = palette_html::palette(&draft, &choices, &preview, &namespace, &forms);
        Some((StatusCode::OK, palette))
    }

    /// The library, or an entry of it, for a namespace. None if there is no such entry.
    pub(super) async fn library(&self, shown: &Shown, key: &Key) -> Option<(StatusCode, Markup)> {
        let namespace = self.namespace(shown, key)?;
        let entries = self.library.entries();
        if key.name == library_html::ALL {
            return Some((StatusCode::OK, library_html::list(entries, &namespace)));
        }
        let entry = entries.iter().find(|entry| entry.name() == key.name)?;
        let lacks = self.lacks(&namespace, &key.name).await;
        let path = path(library_html::KIND, &Key::new(&namespace, &key.name));
        let permission = Some(Permission::of::<Scenario>("create"));
        let forms = self.forms(path, permission, &namespace).await;
        Some((
            StatusCode::OK,
            library_html::entry(entry, &lacks, &namespace, &forms),
        ))
    }

    /// What an entry of the library lacks.
    async fn lacks(&self, namespace: &str, name: &str) -> Result<Lacks, String> {
        let asked = async {
            // It waits for the API server, so it keeps no place of other pages.
            let _place = self.own_previews.acquire().await;
            self.library.lacks(namespace, name).await
        };
        let late = |_| Err("the management API does not say what is there".to_owned());
        timeout(LACKS_WITHIN, asked).await.unwrap_or_else(late)
    }

    /// What the form of an entry of the library wants.
    async fn staged(
        &self,
        namespace: &str,
        name: &str,
        fields: &[(String, String)],
    ) -> Result<Wanted, ActError> {
        let entries = self.library.entries();
        let entry = entries.iter().find(|entry| entry.name() == name);
        let entry = entry.ok_or(ActError::NotOffered)?;
        let act = match field(fields, "act") {
            "make" => Act::Make(Key::new(namespace, name)),
            "run" => {
                let lacks = self.lacks(namespace, name).await;
                if !lacks.is_ok_and(|lacks| lacks.told.is_empty()) {
                    return Err(ActError::Lacks);
                }
                let mut scenario = entry.scenario.clone();
                scenario.metadata.namespace = Some(namespace.to_owned());
                Act::Run(Box::new(scenario))
            }
            _ => return Err(ActError::NotOffered),
        };
        Ok(Wanted::Act(Box::new(act)))
    }

    /// The namespace of a palette or a library: one with clusters, or the first one.
    fn namespace(&self, shown: &Shown, key: &Key) -> Option<String> {
        let mut namespaces = shown.model.clusters.keys().map(|key| &key.namespace);
        if key.namespace == ANY {
            return Some(namespaces.next().unwrap_or(&self.home).clone());
        }
        let is_known = key.namespace == self.home || namespaces.any(|known| *known == key.namespace);
        is_known.then(|| key.namespace.clone())
    }

    /// What the forms of a path need, for someone who needs a permission.
    pub(super) async fn forms(&self, path: String, permission: Option<Permission>, namespace: &str) -> Forms {
        let lacks = match permission {
            Some(needed) if !self.actor.may(&needed, namespace, (self.clock)()).await => {
                Some(format!("{needed} in namespace {namespace}"))
            }
            _ => None,
        };
        Forms {
            token: self.guard.token().to_owned(),
            path,
            lacks,
        }
    }

    /// Does what a form says. The module of the page asks for what came of it; without scripts, the page of the object says so.
    pub(super) async fn act<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        if self.screens == Screens::Kiosk {
            return text(
                StatusCode::FORBIDDEN,
                "text/plain; charset=utf-8",
                "a kiosk only shows\n",
            );
        }
        let is_fragment = request.headers().contains_key(FRAGMENT);
        let Some(parts) = parts(request.uri().path()) else {
            return not_found();
        };
        let ["act", kind, namespace, name] = &parts.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
            return not_found();
        };
        let key = Key::new(namespace, name);
        let refused = |status, why: &dyn std::fmt::Display| {
            let said = drawer_html::refusal(&why.to_string());
            markup(status, if is_fragment { said } else { html::said(&said) })
        };
        let Ok(form) = Limited::new(request.into_body(), FORM_MAX).collect().await else {
            return refused(
                StatusCode::PAYLOAD_TOO_LARGE,
                &"the form is too long, or did not arrive",
            );
        };
        let form = form.to_bytes();
        let fields = fields_of(&form);
        let token = fields.iter().find(|(name, _)| name == "token");
        if !token.is_some_and(|(_, token)| self.guard.is_token(token)) {
            return refused(
                StatusCode::FORBIDDEN,
                &"the page is older than this process; load it again",
            );
        }
        let shown = match self.shown(None).await {
            Ok((shown, _)) => shown,
            Err(refusal) => return refusal,
        };
        let Some(wanted) = self.wanted(&shown, kind, &key, &fields).await else {
            return refused(StatusCode::NOT_FOUND, &"it does not exist any more");
        };
        let outcome = match wanted {
            Ok(Wanted::Act(act)) => self.carried_out(*act, &shown).await,
            Ok(Wanted::Record(namespace, change)) => self.recorded(&namespace, change, &shown),
            Ok(Wanted::Look(path)) => return seen(&path),
            Err(error) => return refused(StatusCode::BAD_REQUEST, &error),
        };
        match outcome {
            Ok(outcome) if is_fragment => {
                markup(StatusCode::OK, drawer_html::outcome(&outcome, self.guard.token()))
            }
            Ok(_) => seen(&path(kind, &key)),
            Err(error) => refused(error.code(), &chain(&error)),
        }
    }

    /// What a form wants. None if there is nothing that it could be for.
    async fn wanted(
        &self,
        shown: &Shown,
        kind: &str,
        key: &Key,
        fields: &[(String, String)],
    ) -> Option<Result<Wanted, ActError>> {
        let namespace = || self.namespace(shown, key);
        let act = |act| Wanted::Act(Box::new(act));
        Some(match kind {
            palette_html::KIND if key.name == palette_html::NAME => drafted(&namespace()?, fields),
            library_html::KIND => self.staged(&namespace()?, &key.name, fields).await,
            recording_html::KIND if key.name == recording_html::NAME => self.directed(&namespace()?, fields),
            _ => act::wanted(&selected(shown, kind, key)??.doable, key, fields).map(act),
        })
    }

    /// What the form of the recording wants.
    fn directed(&self, namespace: &str, fields: &[(String, String)]) -> Result<Wanted, ActError> {
        let change = |change| Wanted::Record(namespace.to_owned(), change);
        match (field(fields, "act"), &*self.recorder.lock()) {
            ("begin", _) => Ok(change(Change::Begin)),
            ("end", _) => Ok(change(Change::End)),
            ("forget", _) => Ok(change(Change::Forget)),
            ("run", Recorder::Ended(recording)) => {
                let scenario = recording.scenario();
                Ok(Wanted::Act(Box::new(Act::Run(Box::new(scenario)))))
            }
            _ => Err(ActError::NotOffered),
        }
    }

    /// Changes the recording.
    fn recorded(&self, namespace: &str, change: Change, shown: &Shown) -> Result<Outcome, RefusedAct> {
        let now = (self.clock)();
        let is_offered = self
            .recorder
            .lock()
            .change(change, &shown.objects, namespace, now);
        is_offered
            .then_some(Outcome::Recorded(change))
            .ok_or(RefusedAct::Recording)
    }

    /// Carries out an act, and records it.
    async fn carried_out(&self, act: Act, shown: &Shown) -> Result<Outcome, RefusedAct> {
        let outcome = self.actor.carry_out(act.clone()).await?;
        let now = (self.clock)();
        self.recorder.lock().note(&act, &outcome, &shown.objects, now);
        Ok(outcome)
    }

    /// The recording. None if there is no such one.
    pub(super) async fn recording(&self, shown: &Shown, key: &Key) -> Option<(StatusCode, Markup)> {
        let named = self
            .namespace(shown, key)
            .filter(|_| key.name == recording_html::NAME)?;
        let recorder = self.recorder.lock().clone();
        let namespace = match &recorder {
            Recorder::Off => named,
            Recorder::Runs(recording) | Recorder::Ended(recording) => recording.namespace.clone(),
        };
        let path = path(recording_html::KIND, &Key::new(&namespace, recording_html::NAME));
        let permission = Some(Permission::of::<Scenario>("create"));
        let forms = self.forms(path, permission, &namespace).await;
        Some((
            StatusCode::OK,
            recording_html::recording(&recorder, &namespace, &forms),
        ))
    }
}

/// What a preview is made of, on a thread of its own.
struct Asked {
    draft: Draft,
    namespace: String,
    objects: Arc<Objects>,
    now: Timestamp,
}

/// What a form wants.
enum Wanted {
    Act(Box<Act>),
    /// To change the recording of a namespace.
    Record(String, Change),
    /// To look at another path.
    Look(String),
}

/// What the form of a palette wants: the Fault or, without scripts, its preview.
fn drafted(namespace: &str, fields: &[(String, String)]) -> Result<Wanted, ActError> {
    let draft = Draft::of(fields)?;
    if field(fields, "act") == "preview" {
        let path = palette_html::path_of(Some(namespace));
        return Ok(Wanted::Look(format!("{path}?{}", draft.query())));
    }
    let fault = draft.fault(namespace)?;
    Ok(Wanted::Act(Box::new(Act::Create(Box::new(fault)))))
}

/// The first fields of a form or a query.
fn fields_of(form: &[u8]) -> Vec<(String, String)> {
    let fields = form_urlencoded::parse(form).into_owned();
    fields.take(FIELDS_MAX).collect()
}
