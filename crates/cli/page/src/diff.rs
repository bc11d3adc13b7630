//! What has to change on a page so that it shows the new elements. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::elements::{Element, Elements, Form};

/// One change of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// An attribute of an element has a new value.
    Set {
        id: String,
        name: &'static str,
        value: String,
    },
    /// A text in an element is a new one.
    Say {
        id: String,
        place: &'static str,
        text: String,
    },
    /// A new element stands before another one of its list, or at its end.
    Add {
        id: String,
        element: Arc<Element>,
        before: Option<String>,
    },
    /// The element is gone, with all that stood in it.
    Delete { id: String },
}

/// How to get from one page to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    Changes(Vec<Change>),
    /// The columns differ, or numbers stand for cells now: the whole page is sent.
    Everything,
}

/// The difference from `old` to `new`.
pub(crate) fn diff(old: &Elements, new: &Elements) -> Difference {
    if (&old.zones, old.is_dense) != (&new.zones, new.is_dense) {
        return Difference::Everything;
    }
    let mut changes = Vec::new();
    let mut fresh = BTreeSet::new();
    let mut before = old.all.iter().peekable();
    let delete = |id: &String| Change::Delete { id: id.clone() };
    // Both are in the order of their ids.
    for (id, is) in &new.all {
        while let Some((gone, _)) = before.next_if(|(other, _)| *other < id) {
            changes.push(delete(gone));
        }
        match before.next_if(|(other, _)| *other == id) {
            Some((_, was)) if Arc::ptr_eq(was, is) => {}
            Some((_, was)) if is_in_place(was, is) => of_element(id, was, is, &mut changes),
            was => {
                changes.extend(was.map(|(id, _)| delete(id)));
                fresh.insert(id.as_str());
            }
        }
    }
    changes.extend(before.map(|(gone, _)| delete(gone)));
    changes.extend(added(new, &fresh));
    Difference::Changes(changes)
}

/// An element that has moved is deleted, and added at its new place.
fn is_in_place(was: &Element, is: &Element) -> bool {
    (was.form, &was.list, &was.order) == (is.form, &is.list, &is.order)
        && was.attributes.keys().eq(is.attributes.keys())
        && was.texts.keys().eq(is.texts.keys())
}

fn of_element(id: &str, was: &Element, is: &Element, changes: &mut Vec<Change>) {
    for (name, value) in &is.attributes {
        if was.attributes.get(name) != Some(value) {
            changes.push(Change::Set {
                id: id.to_owned(),
                name,
                value: value.clone(),
            });
        }
    }
    for (place, text) in &is.texts {
        if was.texts.get(place) != Some(text) {
            changes.push(Change::Say {
                id: id.to_owned(),
                place,
                text: text.clone(),
            });
        }
    }
}

/// The new elements: those that others stand in come first, and in each list the last one, so that the element before which
/// one stands is there when it comes.
fn added(new: &Elements, fresh: &BTreeSet<&str>) -> Vec<Change> {
    let mut by_form: BTreeMap<Form, Vec<Change>> = BTreeMap::new();
    let lists: BTreeSet<&str> = fresh.iter().map(|id| new.all[*id].list.as_str()).collect();
    for list in new.by_list(|list| lists.contains(list)).into_values() {
        let mut next: Option<&String> = None;
        for (id, element) in list.into_iter().rev() {
            if fresh.contains(id.as_str()) {
                by_form.entry(element.form).or_default().push(Change::Add {
                    id: id.clone(),
                    element: Arc::clone(element),
                    before: next.cloned(),
                });
            }
            next = Some(id);
        }
    }
    by_form.into_values().flatten().collect()
}

#[cfg(test)]
mod tests;
