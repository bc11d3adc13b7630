//! People with a keyboard, a screen reader, a telephone, and without scripts.

use fantoccini::{Locator, key::Key};
use serde_json::{Value, json};

use crate::{
    browser::Browser,
    up::{CLUSTERS, Up},
};

/// Types a key where the focus is.
async fn press(browser: &Browser, key: &str) {
    let focused = browser.client.active_element().await.expect("a focus");
    focused.send_keys(key).await.expect("it takes keys");
}

async fn focused(browser: &Browser) -> String {
    let id = browser
        .run("return document.activeElement.id")
        .await
        .expect("it runs");
    id.as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn the_keyboard_alone_selects_a_machine_and_returns() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    let browser = Browser::start().await.expect("it starts");
    browser.open(&up.page).await.expect("it opens");
    let cell = "return document.activeElement.matches('a.m')";
    for _ in 0..20 {
        if browser.run(cell).await.expect("it runs") == json!(true) {
            break;
        }
        press(&browser, &Key::Tab.to_string()).await;
    }
    let first = focused(&browser).await;
    assert!(first.starts_with("machine:default/demo-"), "{first}");
    press(&browser, &Key::Right.to_string()).await;
    let second = focused(&browser).await;
    assert!(
        second.starts_with("machine:default/demo-") && second != first,
        "{second}"
    );
    let hint = browser.run("return document.getElementById('hint').textContent === document.activeElement.getAttribute('aria-label')");
    assert_eq!(hint.await.expect("it runs"), json!(true));
    press(&browser, &Key::Enter.to_string()).await;
    browser.drawer().await.expect("it opens");
    let name = second.trim_start_matches("machine:default/");
    let address = browser.client.current_url().await.expect("an address");
    assert_eq!(address.path(), format!("/machine/default/{name}"));
    let shown = "const drawer = document.getElementById('drawer');
        return [drawer.querySelector('h2').textContent, drawer.querySelectorAll('.chain li[data-there=true]').length,
            drawer.querySelectorAll('.stages tbody tr').length > 1, drawer.querySelectorAll('.journal li').length > 1]";
    assert_eq!(
        browser.run(shown).await.expect("it runs"),
        json!([name, 6, true, true])
    );
    press(&browser, &Key::Escape.to_string()).await;
    browser
        .until(
            "the Drawer to close",
            "return document.getElementById('drawer').hidden",
        )
        .await
        .expect("it closes");
    assert_eq!(focused(&browser).await, second);
    let entries = browser
        .run("return document.querySelectorAll('a.m[tabindex=\"0\"]').length")
        .await;
    assert_eq!(
        entries.expect("it runs"),
        json!(1),
        "the Tab key stops once in the grid"
    );
}

#[tokio::test]
async fn every_control_has_a_role_and_a_name() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    let browser = Browser::start().await.expect("it starts");
    browser.open(&up.page).await.expect("it opens");
    browser.open_drawer("a.m").await.expect("it opens");
    browser
        .cdp("Accessibility.enable", json!({}))
        .await
        .expect("it has one");
    let tree = browser
        .cdp("Accessibility.getFullAXTree", json!({}))
        .await
        .expect("a tree");
    let nodes = tree["nodes"].as_array().expect("nodes");
    let is_control = |node: &&Value| {
        let properties = node["properties"].as_array();
        let mut properties = properties.into_iter().flatten();
        node["ignored"] == json!(false)
            && node["role"]["value"] != "RootWebArea"
            && properties.any(|one| one["name"] == "focusable" && one["value"]["value"] == json!(true))
    };
    let controls: Vec<_> = nodes.iter().filter(is_control).collect();
    assert!(controls.len() > 15, "{}", controls.len());
    for control in controls {
        let role = control["role"]["value"].as_str().unwrap_or_default();
        let name = control["name"]["value"].as_str().unwrap_or_default();
        assert!(
            !["", "generic", "none"].contains(&role) && !name.is_empty(),
            "{control}"
        );
    }
    let roles = |role: &str| nodes.iter().filter(|node| node["role"]["value"] == role).count();
    assert!(roles("table") >= 1 && roles("rowheader") >= 1 && roles("columnheader") >= 2);
}

/// The texts whose contrast with what is behind them is lower than WCAG 2.2 AA asks.
const CONTRAST: &str = "
    const parse = (color) => { const [r, g, b, a = 1] = color.match(/[\\d.]+/g).map(Number); return {r, g, b, a}; };
    const over = (top, below) => ({ r: top.r * top.a + below.r * (1 - top.a), g: top.g * top.a + below.g * (1 - top.a),
        b: top.b * top.a + below.b * (1 - top.a), a: 1 });
    const light = ({r, g, b}) => { const [x, y, z] = [r, g, b].map((c) => { c /= 255;
        return c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; }); return .2126 * x + .7152 * y + .0722 * z; };
    const ground = (element) => { let layers = [];
        for (let one = element; one; one = one.parentElement) { const color = parse(getComputedStyle(one).backgroundColor);
            if (color.a) layers.push(color); if (color.a === 1) break; }
        return layers.reverse().reduce((below, top) => over(top, below), {r: 255, g: 255, b: 255, a: 1}); };
    const poor = []; let texts = 0;
    for (const element of document.querySelectorAll('body *')) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!own || !element.checkVisibility() || element.getBoundingClientRect().width < 2) continue;
        const style = getComputedStyle(element); const behind = ground(element);
        const [a, b] = [light(over(parse(style.color), behind)), light(behind)].sort((x, y) => y - x);
        const ratio = (a + .05) / (b + .05); texts++;
        if (ratio < 4.5) poor.push([element.textContent.trim().slice(0, 30), style.color, ratio.toFixed(2)]);
    }
    return [texts, poor];";

#[tokio::test]
async fn texts_have_contrast_in_both_themes_and_a_phone_needs_no_sideways_scroll() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    let browser = Browser::start().await.expect("it starts");
    browser.open(&up.page).await.expect("it opens");
    up.silence("workers", json!({})).await.expect("it is created");
    let marked = "return !!document.querySelector('.m[data-fault=silent]')";
    browser.until("a marked machine", marked).await.expect("it is");
    let cluster = json!({"controlPlaneEndpoint": {"host": "h".repeat(100), "port": 1}, "paused": true});
    up.create("Cluster", &"long-name".repeat(6), cluster)
        .await
        .expect("it is created");
    browser
        .until(
            "the cluster",
            "return document.querySelectorAll('.cluster').length === 2",
        )
        .await
        .expect("it is there");
    for opener in [None, Some(".m[data-fault=silent]"), Some("#palette")] {
        if let Some(opener) = opener {
            browser.open_drawer(opener).await.expect("it opens");
        }
        is_readable(&browser, opener.unwrap_or("the cloud"))
            .await
            .expect("it is");
    }
    browser.click("timeline-link").await.expect("it is there");
    let band = "return !!document.querySelector('.lanes .band')";
    browser.until("the timeline", band).await.expect("it is there");
    is_readable(&browser, "the timeline").await.expect("it is");
    up.pools().await.expect("they are created");
    for (screen, there) in [("observed", "#differing tr"), ("pools", ".addresses i")] {
        browser
            .click(&format!("{screen}-link"))
            .await
            .expect("it is there");
        let there = format!("return !!document.querySelector('{there}')");
        browser.until(screen, &there).await.expect("it is there");
        is_readable(&browser, screen).await.expect("it is");
    }
}

/// Whether what is shown has contrast in both themes, and fits on a phone.
async fn is_readable(browser: &Browser, what: &str) -> anyhow::Result<()> {
    for theme in ["light", "dark"] {
        browser.theme(theme).await?;
        let found = browser.run(CONTRAST).await?;
        assert!(found[0].as_u64() > Some(20), "{found}");
        assert_eq!(found[1], json!([]), "{what} {theme}");
    }
    browser.resize(390, 844, true).await?;
    let narrow = "return document.scrollingElement.scrollWidth <= innerWidth";
    browser.until("a narrow page", narrow).await?;
    let small = "return [...document.querySelectorAll('main a, #drawer a, summary, button')]
        .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 24).map((one) => one.outerHTML)";
    assert_eq!(browser.run(small).await?, json!([]), "{what}");
    browser.resize(1440, 900, false).await
}

#[tokio::test]
async fn without_scripts_the_page_is_complete() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    let browser = Browser::start().await.expect("it starts");
    let off = json!({"value": true});
    browser
        .cdp("Emulation.setScriptExecutionDisabled", off)
        .await
        .expect("it obeys");
    browser.client.goto(&up.page).await.expect("it opens");
    let cells = browser
        .client
        .find_all(Locator::Css("a.m:not(.sample)"))
        .await
        .expect("cells");
    assert_eq!(cells.len(), 6);
    let path = cells[0]
        .attr("href")
        .await
        .expect("it has one")
        .expect("it has one");
    browser
        .client
        .goto(&format!("{}{path}", up.origin()))
        .await
        .expect("it opens");
    let title = browser
        .client
        .find(Locator::Id("drawer-title"))
        .await
        .expect("a Drawer");
    assert!(title.text().await.expect("text").starts_with("demo-"));
    browser
        .client
        .goto(&format!("{}/table", up.origin()))
        .await
        .expect("it opens");
    let rows = browser
        .client
        .find_all(Locator::Css("tbody tr"))
        .await
        .expect("rows");
    assert_eq!(rows.len(), 6);
    let palette = format!("{}/palette/-/new?effect=freeze&machines=worker", up.origin());
    browser.client.goto(&palette).await.expect("it opens");
    let (path, query) = browser
        .follow(Locator::Id("palette-preview"))
        .await
        .expect("it leads on");
    assert_eq!(
        (path.as_str(), query.as_str()),
        ("/palette/default/new", "effect=freeze&machines=worker")
    );
    let preview = browser
        .client
        .wait()
        .for_element(Locator::Id("preview"))
        .await
        .expect("a preview");
    let told = preview.text().await.expect("text");
    assert!(told.starts_with("Hits 3 of 6 machines."), "{told}");
}

#[tokio::test]
async fn forced_colors_keep_the_forms_and_what_is_selected_and_nothing_moves_by_itself() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    let browser = Browser::start().await.expect("it starts");
    let features = json!([
        {"name": "forced-colors", "value": "active"},
        {"name": "prefers-reduced-motion", "value": "no-preference"},
    ]);
    browser
        .cdp("Emulation.setEmulatedMedia", json!({"features": features}))
        .await
        .expect("it emulates");
    browser.open(&up.page).await.expect("it opens");
    browser
        .run("document.querySelector('#main a.m').click()")
        .await
        .expect("it is clicked");
    browser.drawer().await.expect("it opens");
    let seen = "
        const style = (cell) => getComputedStyle(cell);
        const cells = [...document.querySelectorAll('#main a.m')];
        return [matchMedia('(forced-colors: active)').matches, cells.length > 1,
            cells.every((cell) => style(cell).backgroundImage.includes('data:image') && style(cell).backgroundImage.includes('gradient')),
            style(document.querySelector('a.m[aria-current]')).outlineStyle, document.getAnimations().length]";
    assert_eq!(
        browser.run(seen).await.expect("it runs"),
        json!([true, true, true, "solid", 0])
    );
}
