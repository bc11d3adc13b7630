//! Volumes and their drivers.

use serde_json::Value;

use super::{
    column::{Column, Row},
    format::{items, joined, length, text, text_or},
};

pub(super) const PERSISTENT_VOLUME: &[Column] = &[
    Column::NAME,
    Column::text("Capacity", |row| text_or(&row.spec("capacity")["storage"], "0")),
    Column::text("Access Modes", |row| access_modes(row.spec("accessModes"))),
    Column::text("Reclaim Policy", |row| {
        text_or(row.spec("persistentVolumeReclaimPolicy"), "")
    }),
    Column::text("Status", phase),
    Column::text("Claim", |row| match row.spec("claimRef") {
        Value::Null => "".into(),
        claim => format!("{}/{}", text(&claim["namespace"]), text(&claim["name"])).into(),
    }),
    STORAGE_CLASS_NAME,
    VOLUME_ATTRIBUTES_CLASS,
    Column::text("Reason", |row| text_or(row.status("reason"), "")),
    Column::AGE,
    VOLUME_MODE,
];

pub(super) const PERSISTENT_VOLUME_CLAIM: &[Column] = &[
    Column::NAME,
    Column::text("Status", phase),
    Column::text("Volume", |row| text_or(row.spec("volumeName"), "")),
    Column::text("Capacity", |row| {
        if is_bound(row) {
            text_or(&row.status("capacity")["storage"], "0")
        } else {
            "".into()
        }
    }),
    Column::text("Access Modes", |row| {
        if is_bound(row) {
            access_modes(row.status("accessModes"))
        } else {
            "".into()
        }
    }),
    STORAGE_CLASS_NAME,
    VOLUME_ATTRIBUTES_CLASS,
    Column::AGE,
    VOLUME_MODE,
];

pub(super) const STORAGE_CLASS: &[Column] = &[
    // As [`Column::NAME`], with a mark on the default class.
    Column {
        format: "name",
        ..Column::text("Name", |row| {
            let default = &row.metadata("annotations")["storageclass.kubernetes.io/is-default-class"];
            let name = text(row.metadata("name"));
            if *default == "true" {
                format!("{name} (default)").into()
            } else {
                name.into()
            }
        })
    },
    Column::text("Provisioner", |row| text_or(&row.object["provisioner"], "")),
    Column::text("ReclaimPolicy", |row| {
        text_or(&row.object["reclaimPolicy"], "Delete")
    }),
    Column::text("VolumeBindingMode", |row| {
        text_or(&row.object["volumeBindingMode"], "Immediate")
    }),
    Column::text("AllowVolumeExpansion", |row| {
        (row.object["allowVolumeExpansion"] == true).into()
    }),
    Column::AGE,
];

pub(super) const VOLUME_ATTACHMENT: &[Column] = &[
    Column::NAME,
    Column {
        format: "name",
        ..Column::text("Attacher", |row| text_or(row.spec("attacher"), ""))
    },
    Column::text("PV", |row| {
        text_or(&row.spec("source")["persistentVolumeName"], "")
    }),
    Column::text("Node", |row| text_or(row.spec("nodeName"), "")),
    Column::truth("Attached", |row| {
        (*row.status("attached") == Value::Bool(true)).into()
    }),
    Column::AGE,
];

pub(super) const VOLUME_ATTRIBUTES_CLASS_KIND: &[Column] = &[
    Column::NAME,
    Column::text("DriverName", |row| text_or(&row.object["driverName"], "")),
    Column::AGE,
];

pub(super) const CSI_NODE: &[Column] = &[
    Column::NAME,
    Column::integer("Drivers", |row| length(row.spec("drivers")).into()),
    Column::AGE,
];

pub(super) const CSI_DRIVER: &[Column] = &[
    Column::NAME,
    Column::truth("AttachRequired", |row| {
        row.spec("attachRequired").as_bool().unwrap_or(true).into()
    }),
    Column::truth("PodInfoOnMount", |row| {
        row.spec("podInfoOnMount").as_bool().unwrap_or(false).into()
    }),
    Column::truth("StorageCapacity", |row| {
        row.spec("storageCapacity").as_bool().unwrap_or(false).into()
    }),
    Column::text("TokenRequests", |row| {
        joined(
            items(row.spec("tokenRequests"))
                .iter()
                .map(|request| text(&request["audience"])),
            "<unset>",
        )
    }),
    Column::truth("RequiresRepublish", |row| {
        row.spec("requiresRepublish").as_bool().unwrap_or(false).into()
    }),
    Column::text("Modes", |row| {
        joined(items(row.spec("volumeLifecycleModes")).iter().map(text), "<none>")
    }),
    Column::AGE,
];

const STORAGE_CLASS_NAME: Column =
    Column::text("StorageClass", |row| text_or(row.spec("storageClassName"), ""));
const VOLUME_ATTRIBUTES_CLASS: Column = Column::text("VolumeAttributesClass", |row| {
    text_or(row.spec("volumeAttributesClassName"), "<unset>")
});
const VOLUME_MODE: Column =
    Column::text("VolumeMode", |row| text_or(row.spec("volumeMode"), "<unset>")).wide();

fn phase(row: Row<'_>) -> Value {
    if row.metadata("deletionTimestamp").is_string() {
        return "Terminating".into();
    }
    text_or(row.status("phase"), "")
}

fn is_bound(row: Row<'_>) -> bool {
    !text(row.spec("volumeName")).is_empty()
}

/// The access modes in their short forms, in a fixed order.
fn access_modes(modes: &Value) -> Value {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let modes = items(modes);
    joined(
        short
            .iter()
            .filter(|(mode, _)| modes.iter().any(|other| other == mode))
            .map(|(_, short)| *short),
        "",
    )
}
