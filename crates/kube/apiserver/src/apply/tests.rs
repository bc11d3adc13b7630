//! Properties of apply and update, on objects whose schema has every kind of map and list.

use std::sync::LazyLock;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{
    applied::Applied,
    field_set::FieldSet,
    managers::{ManagerId, Operation},
    owned::fields_of,
    schema::Schema,
    update::without_server_owned,
    *,
};

static KIND: LazyLock<CustomSchema> = LazyLock::new(|| {
    CustomSchema::of_kind(&json!({"properties": {"spec": {"properties": {
        "text": {"type": "string"},
        "set": {"type": "array", "x-kubernetes-list-type": "set"},
        "plain": {"type": "array"},
        "one": {"type": "object", "x-kubernetes-map-type": "atomic"},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {}, "y": {}}}},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                 "items": {"properties": {"name": {}, "x": {}, "set": {"type": "array", "x-kubernetes-list-type": "set"}}}},
    }}}}))
});

fn schema() -> Schema<'static> {
    Schema::Custom(&KIND)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![json!(1), json!(2), json!("a"), json!(true)])
}

fn set() -> impl Strategy<Value = Value> {
    prop::collection::btree_set(0..4, 0..4).prop_map(|set| json!(set))
}

fn some_of(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    fields
        .into_iter()
        .map(|(name, value)| prop::option::of(value.prop_map(move |value| (name.to_owned(), value))))
        .collect::<Vec<_>>()
        .prop_map(|fields| Value::Object(fields.into_iter().flatten().collect()))
        .boxed()
}

/// An object that can be applied.
fn config() -> impl Strategy<Value = Value> {
    let point = || some_of(vec![("x", scalar().boxed()), ("y", scalar().boxed())]);
    let free = || {
        some_of(vec![
            ("p", scalar().boxed()),
            ("q", point()),
            ("r", set().boxed()),
        ])
    };
    let element = some_of(vec![("x", scalar().boxed()), ("set", set().boxed())]);
    let list = prop::collection::btree_map("[a-d]", element, 0..4).prop_flat_map(|elements| {
        let list = elements.into_iter().map(|(name, mut element)| {
            element["name"] = name.into();
            element
        });
        Just(list.collect::<Vec<_>>())
            .prop_shuffle()
            .prop_map(Value::Array)
    });
    let map = prop::collection::btree_map("[a-c]", point(), 0..3).prop_map(|map| json!(map));
    let spec = some_of(vec![
        ("text", scalar().boxed()),
        ("set", set().boxed()),
        ("plain", set().boxed()),
        ("one", point()),
        ("map", map.boxed()),
        ("list", list.boxed()),
        ("free", free()),
    ]);
    spec.prop_map(
        |spec| json!({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec}),
    )
}

/// As [`config`], but nothing in it is empty. An empty list of elements has no owner, and only those own an empty map
/// who applied it empty, so the laws about owners do not hold for them, here as in the real server.
fn full_config() -> impl Strategy<Value = Value> {
    fn full(value: Value) -> Value {
        match value {
            Value::Object(map) => {
                let fields = map.into_iter().map(|(name, value)| (name, full(value)));
                Value::Object(
                    fields
                        .filter(|(_, value)| *value != json!({}) && *value != json!([]))
                        .collect(),
                )
            }
            Value::Array(list) => Value::Array(list.into_iter().map(full).collect()),
            other => other,
        }
    }
    config().prop_map(full)
}

/// Any object, also one that cannot be applied.
fn object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![scalar(), Just(Value::Null)];
    let any = leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map("[a-c]|x|set|list|name|map", inner, 0..4).prop_map(|map| json!(map)),
        ]
    });
    prop_oneof![
        config(),
        any.prop_map(|spec| json!({ "spec": { "list": spec.clone(), "map": spec.clone(), "set": spec } }))
    ]
}

fn pod() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![scalar(), Just(Value::Null), Just(json!("TCP"))];
    let name = "name|containerPort|protocol|env|ports|type|status|image|uid|[ab]";
    let any = leaf.prop_recursive(5, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(name, inner, 0..5).prop_map(|map| json!(map)),
        ]
    });
    (any.clone(), any.clone(), any).prop_map(|(containers, conditions, owners)| {
        json!({"metadata": {"ownerReferences": owners, "finalizers": owners}, "spec": {"containers": containers},
               "status": {"conditions": conditions}})
    })
}

fn now() -> Timestamp {
    Timestamp::from_second(1).unwrap()
}

fn writer(manager: &str) -> Writer<'_> {
    Writer {
        manager,
        api_version: "x.io/v1",
        subresource: "",
    }
}

fn nothing() -> Applied {
    Applied {
        object: json!({}),
        managers: Managers::default(),
    }
}

/// Applies, without conflicts only.
fn by(manager: &str, config: &Value, to: &Applied) -> Result<Applied, ApplyError> {
    let application = Application {
        config,
        writer: writer(manager),
        force: false,
    };
    apply(schema(), &to.object, to.managers.clone(), application, now())
}

fn forced(manager: &str, config: &Value, to: &Applied) -> Applied {
    let application = Application {
        config,
        writer: writer(manager),
        force: true,
    };
    apply(schema(), &to.object, to.managers.clone(), application, now()).unwrap()
}

fn updated(manager: &str, object: &Value, to: &Applied) -> Applied {
    let managers = update(
        schema(),
        &to.object,
        object,
        to.managers.clone(),
        &writer(manager),
        now(),
    );
    Applied {
        object: object.clone(),
        managers,
    }
}

fn owned(applied: &Applied, manager: &str) -> FieldSet {
    let id = ManagerId::new(Operation::Apply, manager, "", "");
    applied
        .managers
        .0
        .get(&id)
        .map(|managed| managed.fields.clone())
        .unwrap_or_default()
}

/// An object without empty maps and lists below its top, and with its merged lists in order: what a client cannot tell
/// apart after fields were removed, or cannot order.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let fields = map.iter().map(|(name, value)| (name.clone(), plain(value)));
            Value::Object(
                fields
                    .filter(|(_, value)| *value != json!({}) && *value != json!([]))
                    .collect::<Map<_, _>>(),
            )
        }
        Value::Array(list) => {
            let mut list: Vec<_> = list.iter().map(plain).collect();
            list.sort_by_key(Value::to_string);
            Value::Array(list)
        }
        other => other.clone(),
    }
}

fn bare() -> Value {
    json!({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "t"}})
}

/// What remains of the list is not the applier's.
#[test]
fn list_that_an_updater_made_is_left_empty_when_its_last_element_goes() {
    let object = |spec: Value| {
        let mut object = bare();
        object["spec"] = spec;
        object
    };
    let first = by("one", &object(json!({"text": 1})), &nothing()).unwrap();
    let made = updated(
        "two",
        &object(json!({"text": 1, "list": [{"name": "a"}]})),
        &first,
    );
    let emptied = updated("three", &object(json!({"text": 1, "list": []})), &made);
    let filled = by("four", &object(json!({"list": [{"name": "b"}]})), &emptied).unwrap();
    assert_eq!(filled.object["spec"]["list"], json!([{"name": "b"}]));
    assert_eq!(by("four", &bare(), &filled).unwrap(), emptied);
}

proptest! {
    #[test]
    fn object_that_is_applied_first_is_stored_as_it_is(config in config()) {
        let applied = by("one", &config, &nothing()).unwrap();
        prop_assert_eq!(&applied.object, &config);
        let fields = without_server_owned(&fields_of(schema(), &config));
        prop_assert_eq!(owned(&applied, "one"), fields);
    }

    #[test]
    fn apply_is_idempotent(live in object(), config in config()) {
        let live = Applied { object: live, managers: Managers::default() };
        let once = forced("one", &config, &live);
        let twice = by("one", &config, &once);
        prop_assert_eq!(twice.map_err(|error| error.to_string()), Ok(once));
    }

    /// Two appliers that agree on the fields they share can come in any order.
    #[test]
    fn order_of_applies_without_conflicts_does_not_matter(a in full_config(), b in full_config()) {
        let a_first = by("one", &a, &nothing()).and_then(|applied| by("two", &b, &applied));
        let b_first = by("two", &b, &nothing()).and_then(|applied| by("one", &a, &applied));
        prop_assert_eq!(a_first.is_ok(), b_first.is_ok());
        if let (Ok(a_first), Ok(b_first)) = (a_first, b_first) {
            prop_assert_eq!(plain(&a_first.object), plain(&b_first.object));
            prop_assert_eq!(a_first.managers, b_first.managers);
        }
    }

    /// Without force, all that another applier applied is as it was applied.
    #[test]
    fn apply_without_force_leaves_what_others_applied(a in full_config(), b in full_config(), c in full_config()) {
        let first = by("one", &a, &nothing()).unwrap();
        let second = by("two", &b, &first);
        let third = second.and_then(|applied| by("two", &c, &applied));
        if let Ok(third) = third {
            prop_assert_eq!(owned(&third, "one"), owned(&first, "one"));
            // The order of lists has no owner.
            let again = by("one", &a, &third).map(|again| (plain(&again.object), again.managers));
            prop_assert_eq!(again.map_err(|error| error.to_string()), Ok((plain(&third.object), third.managers)));
        }
    }

    /// An applier that applies nothing any more takes away what only it owned.
    #[test]
    fn applying_nothing_undoes_an_apply(a in full_config(), b in full_config()) {
        let first = by("one", &a, &nothing()).unwrap();
        if let Ok(both) = by("two", &b, &first) {
            let undone = by("two", &bare(), &both).unwrap();
            prop_assert_eq!(plain(&undone.object), plain(&first.object));
            prop_assert_eq!(undone.managers, first.managers);
        }
    }

    /// What was there before the first apply stays until it is changed.
    #[test]
    fn fields_without_an_owner_and_of_updaters_stay(live in config(), config in config()) {
        let live = Applied { object: live, managers: Managers::default() };
        if let Ok(applied) = by("one", &config, &live) {
            let undone = by("one", &bare(), &applied).unwrap();
            prop_assert_eq!(plain(&undone.object), plain(&live.object));
        }
    }

    #[test]
    fn forced_apply_wins(a in config(), b in config()) {
        let first = by("one", &a, &nothing()).unwrap();
        let second = forced("two", &b, &first);
        prop_assert_eq!(owned(&second, "two"), without_server_owned(&fields_of(schema(), &b)));
        prop_assert_eq!(by("two", &b, &second).map_err(|error| error.to_string()), Ok(second));
    }

    /// Whatever was there, an update leaves no field to anybody that is gone, and none to others that it changed.
    #[test]
    fn update_moves_what_it_changes(config in config(), next in object()) {
        let first = by("one", &config, &nothing()).unwrap();
        let second = updated("two", &next, &first);
        let changes = compare::compare(schema(), &first.object, &next);
        prop_assert!(owned(&second, "one").intersection(&changes.removed).is_empty());
        prop_assert!(owned(&second, "one").intersection(&changes.modified).is_empty());
        prop_assert_eq!(
            owned(&second, "one"),
            owned(&first, "one").difference(&changes.removed).difference(&changes.modified).difference(&changes.added)
        );
        prop_assert_eq!(updated("two", &next, &second), second);
    }

    /// Built-in kinds are stored unchecked, so their lists may hold anything.
    #[test]
    fn pod_may_hold_anything(a in pod(), b in pod(), c in pod()) {
        let kind = KindSchema::built_in("", "Pod");
        let writer = Writer { manager: "kubectl", api_version: "v1", subresource: "" };
        let on = |live: &Applied, config: &Value| {
            let application = Application { config, writer, force: true };
            apply(kind.root(), &live.object, live.managers.clone(), application, now())
        };
        let live = Applied { object: a, managers: Managers::default() };
        if let Ok(once) = on(&live, &b) {
            prop_assert_eq!(Managers::of(once.managers.write().as_ref()), once.managers.clone());
            let managers = update(kind.root(), &once.object, &c, once.managers, &writer, now());
            let next = Applied { object: c, managers };
            let again = on(&next, &b).unwrap();
            let twice = on(&again, &b).unwrap();
            prop_assert_eq!(&twice.object, &again.object);
            // If nothing has an owner, the second apply is the first one again.
            prop_assert!(again.managers.is_empty() || twice.managers == again.managers);
        }
    }

    /// Nothing panics, whatever is compared, merged or owned.
    #[test]
    fn any_objects_can_be_compared(a in object(), b in object()) {
        let same = compare::compare(schema(), &a, &a);
        prop_assert_eq!(same, compare::Comparison::default());
        let there = compare::compare(schema(), &a, &b);
        let back = compare::compare(schema(), &b, &a);
        prop_assert_eq!(there.modified, back.modified);
        prop_assert_eq!(there.added, back.removed);
        let all = fields_of(schema(), &a);
        prop_assert_eq!(owned::with_named(schema(), &all).difference(&all).intersection(&all), FieldSet::default());
        prop_assert_eq!(remove::remove(schema(), &a, &FieldSet::default(), remove::Emptied::Empty), a);
    }
}
