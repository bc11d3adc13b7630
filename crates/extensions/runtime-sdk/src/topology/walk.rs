//! A walk over the templates of a request.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::Variables;
use crate::{
    hooks::{
        Failure, GeneratePatchesRequest, GeneratePatchesResponse, GeneratePatchesResponseItem,
        GroupVersionHook, HolderReference, HookId, PatchType, ValidateTopologyRequest,
        ValidateTopologyResponse,
    },
    patch,
    wire::{self, Object},
};

/// A template during a walk.
#[derive(Debug)]
pub struct Template<'a> {
    /// The template, which may be changed.
    pub object: Value,
    /// The variables that apply to it.
    pub variables: Variables,
    /// The object that refers to it.
    pub holder: &'a HolderReference,
}

impl Template<'_> {
    /// Edits the template as a typed value. Only edited fields change: fields that the type does not know, or would
    /// write differently, stay as they are.
    ///
    /// # Errors
    /// When the template is not of that type.
    pub fn edit<T: Serialize + DeserializeOwned>(
        &mut self,
        change: impl FnOnce(&mut T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut typed: T = wire::from_value(self.object.clone())?;
        let before = serde_json::to_value(&typed)?;
        change(&mut typed)?;
        let after = serde_json::to_value(&typed)?;
        json_patch::merge(&mut self.object, &patch::merge_patch(&before, &after));
        Ok(())
    }
}

type Step<'f> = Box<dyn Fn(&mut Template<'_>) -> Result<(), Failure> + Send + Sync + 'f>;

/// Functions for templates, by kind. Templates of other kinds are skipped, unless the walk is strict.
pub struct Walk<'f> {
    steps: Vec<(String, String, Step<'f>)>,
    any: Option<Step<'f>>,
    strict: bool,
    format: PatchType,
}

impl Default for Walk<'_> {
    fn default() -> Self {
        Self {
            steps: Vec::new(),
            any: None,
            strict: false,
            format: PatchType::JsonPatch,
        }
    }
}

impl<'f> Walk<'f> {
    /// A walk without functions that makes JSON Patches.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a function for templates of a kind, in any version of the group.
    #[must_use]
    pub fn on(
        mut self,
        group: impl Into<String>,
        kind: impl Into<String>,
        step: impl Fn(&mut Template<'_>) -> Result<(), Failure> + Send + Sync + 'f,
    ) -> Self {
        self.steps.push((group.into(), kind.into(), Box::new(step)));
        self
    }

    /// Adds a function for all templates of other kinds.
    #[must_use]
    pub fn on_others(
        mut self,
        step: impl Fn(&mut Template<'_>) -> Result<(), Failure> + Send + Sync + 'f,
    ) -> Self {
        self.any = Some(Box::new(step));
        self
    }

    /// Makes the walk fail on a template without a function.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Sets the patch type.
    #[must_use]
    pub fn format(mut self, format: PatchType) -> Self {
        self.format = format;
        self
    }

    /// Walks over the templates in order and makes a patch for each that has a function; an unchanged template gets
    /// a patch that changes nothing.
    ///
    /// # Errors
    /// The first failure of a function.
    pub fn patches(&self, request: &GeneratePatchesRequest) -> Result<GeneratePatchesResponse, Failure> {
        let mut items = Vec::new();
        for item in &request.items {
            let variables = Variables::merged(&request.variables, &item.variables)?;
            let Some(after) = self.step(&item.object, variables, &item.holder_reference)? else {
                continue;
            };
            items.push(GeneratePatchesResponseItem {
                uid: item.uid.clone(),
                patch_type: self.format.clone(),
                patch: patch::between(&item.object.to_value(), &after, &self.format),
            });
        }
        Ok(GeneratePatchesResponse {
            items,
            ..GeneratePatchesResponse::default()
        })
    }

    /// Walks over the templates to validate them. Changes are dropped.
    ///
    /// # Errors
    /// The first failure of a function.
    pub fn verdict(&self, request: &ValidateTopologyRequest) -> Result<ValidateTopologyResponse, Failure> {
        for item in &request.items {
            let variables = Variables::merged(&request.variables, &item.variables)?;
            self.step(&item.object, variables, &item.holder_reference)?;
        }
        Ok(ValidateTopologyResponse::default())
    }

    /// The template after its function; `None` when it is skipped.
    fn step(
        &self,
        object: &Object,
        variables: Variables,
        holder: &HolderReference,
    ) -> Result<Option<Value>, Failure> {
        let group = object.group();
        let kind = object.kind();
        let step = self
            .steps
            .iter()
            .find(|(of_group, of_kind, _)| of_group == group && of_kind == kind)
            .map(|(_, _, step)| step)
            .or(self.any.as_ref());
        let Some(step) = step else {
            if self.strict {
                return Err(Failure::new(format!(
                    "there is no function for {kind:?} of {:?}",
                    object.api_version()
                )));
            }
            return Ok(None);
        };
        let hook = GroupVersionHook {
            api_version: holder.api_version.clone(),
            hook: String::new(),
        };
        HookId::try_from(&hook).map_err(|error| {
            Failure::new(format!("the holderReference's apiVersion is not valid: {error}"))
        })?;
        let mut template = Template {
            object: object.to_value(),
            variables,
            holder,
        };
        step(&mut template)?;
        Ok(Some(template.object))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::hooks::{GeneratePatchesRequestItem, Response as _, ValidateTopologyRequestItem, Variable};

    const GROUP: &str = "infrastructure.cluster.x-k8s.io";

    fn item(uid: &str, kind: &str) -> GeneratePatchesRequestItem {
        let object = json!({
            "apiVersion": format!("{GROUP}/v1beta2"), "kind": kind, "metadata": { "name": "t" },
            "spec": { "template": { "spec": { "unknown": [1], "size": 1 } } },
        });
        GeneratePatchesRequestItem {
            uid: uid.into(),
            holder_reference: HolderReference {
                api_version: "cluster.x-k8s.io/v1beta2".into(),
                ..HolderReference::default()
            },
            object: Object::try_from(object).unwrap(),
            variables: vec![Variable {
                name: "zone".into(),
                value: json!(uid),
            }],
        }
    }

    fn request() -> GeneratePatchesRequest {
        GeneratePatchesRequest {
            items: vec![
                item("1", "MachineTemplate"),
                item("2", "Other"),
                item("3", "MachineTemplate"),
            ],
            ..GeneratePatchesRequest::default()
        }
    }

    fn zones() -> Walk<'static> {
        Walk::new().on(GROUP, "MachineTemplate", |template| {
            let zone = template.variables.string("zone")?.to_owned();
            if zone != "3" {
                template.object["spec"]["template"]["spec"]["zone"] = zone.into();
            }
            Ok(())
        })
    }

    fn texts(response: &GeneratePatchesResponse) -> Vec<(&str, &str, String)> {
        let text = |item: &GeneratePatchesResponseItem| String::from_utf8(item.patch.0.clone()).unwrap();
        response
            .items
            .iter()
            .map(|item| (item.uid.as_str(), item.patch_type.as_str(), text(item)))
            .collect()
    }

    /// WALK-2 and WALK-4, and the part of ENG-1 that applies here.
    #[test]
    fn known_templates_are_patched_in_order_and_others_passed_over() {
        assert_eq!(
            texts(&zones().patches(&request()).unwrap()),
            [
                (
                    "1",
                    "JSONPatch",
                    r#"[{"op":"add","path":"/spec/template/spec/zone","value":"1"}]"#.to_owned()
                ),
                ("3", "JSONPatch", "[]".to_owned()),
            ]
        );
        assert_eq!(
            texts(
                &zones()
                    .format(PatchType::JsonMergePatch)
                    .patches(&request())
                    .unwrap()
            ),
            [
                (
                    "1",
                    "JSONMergePatch",
                    r#"{"spec":{"template":{"spec":{"zone":"1"}}}}"#.to_owned()
                ),
                ("3", "JSONMergePatch", "{}".to_owned()),
            ]
        );
        let failure = zones().strict().patches(&request()).unwrap_err();
        assert!(failure.message().contains("\"Other\""), "{failure}");
        let all = zones()
            .on_others(|_| Ok(()))
            .strict()
            .patches(&request())
            .unwrap();
        assert_eq!(all.items.len(), 3);
    }

    /// WALK-1, WALK-3.
    #[test]
    fn a_wrong_holder_and_wrong_builtins_are_failures() {
        let mut wrong = request();
        wrong.items[2].holder_reference.api_version = "a/b/c".into();
        assert!(zones().patches(&wrong).unwrap_err().message().contains("a/b/c"));
        let mut wrong = request();
        wrong.variables = vec![Variable {
            name: "builtin".into(),
            value: json!("{"),
        }];
        wrong.items[0].variables.push(Variable {
            name: "builtin".into(),
            value: json!({}),
        });
        assert!(zones().patches(&wrong).unwrap_err().message().contains("builtin"));
        let mut empty = request();
        empty.items[0].holder_reference.api_version.clear();
        assert!(zones().patches(&empty).is_ok());
    }

    #[derive(Serialize, Deserialize)]
    struct Typed {
        spec: Outer,
        #[serde(default)]
        defaulted: Vec<String>,
    }
    #[derive(Serialize, Deserialize)]
    struct Outer {
        template: Inner,
    }
    #[derive(Serialize, Deserialize)]
    struct Inner {
        spec: Sized,
    }
    #[derive(Serialize, Deserialize)]
    struct Sized {
        size: i32,
    }

    #[test]
    fn a_typed_change_touches_nothing_else() {
        let walk = Walk::new().on(GROUP, "MachineTemplate", |template| {
            template.edit::<Typed>(|typed| {
                typed.spec.template.spec.size += 1;
                Ok(())
            })
        });
        assert_eq!(
            texts(&walk.patches(&request()).unwrap())[0].2,
            r#"[{"op":"replace","path":"/spec/template/spec/size","value":2}]"#
        );
    }

    #[test]
    fn a_verdict_is_the_first_failure() {
        let request = ValidateTopologyRequest {
            items: request()
                .items
                .into_iter()
                .map(|item| ValidateTopologyRequestItem {
                    holder_reference: item.holder_reference,
                    object: item.object,
                    variables: item.variables,
                })
                .collect(),
            ..ValidateTopologyRequest::default()
        };
        assert!(zones().verdict(&request).unwrap().message().is_empty());
        let refuse = Walk::new().on_others(|template| match template.variables.string("zone")? {
            "2" => Err(Failure::new("zone 2 is full")),
            _ => Ok(()),
        });
        assert_eq!(
            refuse.verdict(&request).unwrap_err(),
            Failure::new("zone 2 is full")
        );
    }

    proptest! {
        /// The same request has the same patches. Once they are applied, a second walk changes nothing.
        #[test]
        fn a_walk_is_deterministic_and_idempotent(zones_of in prop::collection::vec("[a-z3]{1,2}", 1..5)) {
            let items = zones_of.iter().map(|zone| item(zone, "MachineTemplate")).collect();
            let mut request = GeneratePatchesRequest { items, ..GeneratePatchesRequest::default() };
            let first = zones().patches(&request).unwrap();
            prop_assert_eq!(&first, &zones().patches(&request).unwrap());
            for (item, patched) in request.items.iter_mut().zip(&first.items) {
                let mut value = item.object.to_value();
                let patch: json_patch::Patch = serde_json::from_slice(&patched.patch.0).unwrap();
                json_patch::patch(&mut value, &patch).unwrap();
                item.object = Object::try_from(value).unwrap();
            }
            for item in zones().patches(&request).unwrap().items {
                prop_assert_eq!(item.patch.0, b"[]");
            }
        }
    }
}
