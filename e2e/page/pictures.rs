//! Pictures of the page, for the README and for people who work on it: `cargo xtask page --pictures FOLDER`.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{browser::Browser, up::Up};

const CLUSTERS: &str = include_str!("pictures.yaml");

/// A cluster whose only machine takes this long to start. The quota has room for one.
fn cluster(startup: &str) -> Value {
    json!({"topology": {"classRef": {"name": "in-memory"}, "version": "v1.36.3", "controlPlane": {"replicas": 1},
        "variables": [{"name": "controlPlaneBehaviour",
            "value": {"vm": {"provisioning": {"startupDuration": "100ms"}},
                "node": {"provisioning": {"startupDuration": startup}}}}]}})
}

#[tokio::test]
async fn pictures() {
    let folder = std::env::var_os("NEPHELE_PAGE_PICTURES").map(PathBuf::from);
    let folder = folder.expect("NEPHELE_PAGE_PICTURES names the folder for the pictures");
    let up = Up::start(CLUSTERS).await.expect("it starts");
    let browser = Browser::start().await.expect("it starts");
    up.silence("workers-b", json!({"count": 2}))
        .await
        .expect("it is created");
    up.pools().await.expect("they are created");
    browser.open(&up.page).await.expect("it opens");
    for name in ["slow", "waiting"] {
        up.create("Cluster", name, cluster("10m"))
            .await
            .expect("it is created");
        let there = format!("return !!document.querySelector('.m[aria-label*=\" {name}-\"]')");
        browser.until("its machine", &there).await.expect("it is there");
    }
    let ready = "return document.querySelectorAll('.m[data-fault=silent][data-state=\"not ready\"]').length === 2 && !!document.querySelector('#waits > li')";
    browser
        .until("the Fault and the quota", ready)
        .await
        .expect("they are there");
    let save = async |name: &str| {
        let picture = browser.picture().await.expect("a picture");
        std::fs::write(folder.join(format!("page-{name}.png")), picture).expect("it is written");
    };
    for theme in ["light", "dark"] {
        browser.theme(theme).await.expect("it has themes");
        browser.resize(1280, 720, false).await.expect("a size");
        save(&format!("cloud-{theme}")).await;
        browser
            .open_drawer(".m[data-fault=silent]")
            .await
            .expect("it opens");
        browser.resize(1440, 1000, false).await.expect("a size");
        save(&format!("drawer-{theme}")).await;
        browser.resize(390, 844, true).await.expect("a size");
        save(&format!("phone-drawer-{theme}")).await;
        browser
            .run("document.getElementById('drawer-close').click()")
            .await
            .expect("a click");
        save(&format!("phone-{theme}")).await;
    }
    for screen in ["observed", "pools", "kiosk"] {
        let path = format!("{}/{screen}", up.origin());
        browser.open(&path).await.expect("it opens");
        for theme in ["light", "dark"] {
            browser.theme(theme).await.expect("it has themes");
            browser.resize(1280, 720, false).await.expect("a size");
            save(&format!("{screen}-{theme}")).await;
            browser.resize(390, 844, true).await.expect("a size");
            save(&format!("phone-{screen}-{theme}")).await;
        }
    }
}
