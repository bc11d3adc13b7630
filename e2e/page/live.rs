//! What the page shows while things happen.

use serde_json::{Value, json};

use crate::{
    browser::Browser,
    line::Line,
    up::{CLUSTERS, Up},
};

/// All that differences can change, in the order of the document.
const STATE: &str = "
    const skipped = ['tabindex', 'aria-current', 'class'];
    const of = (element) => [element.tagName, element.parentElement.id, element.id,
        [...element.attributes].filter((one) => !skipped.includes(one.name)).map((one) => one.name + '=' + one.value).sort(),
        element.matches('[data-k]') ? element.textContent : ''];
    return JSON.stringify([...document.querySelectorAll('#main [id], #main [data-k], #main progress')].map(of));";

/// Waits until the page equals a fresh load of it, in a second tab.
async fn equals_a_fresh_load(browser: &Browser, origin: &str) -> anyhow::Result<()> {
    let tab = browser.client.window().await?;
    for attempt in 0.. {
        let live = browser.run(STATE).await?;
        let fresh = browser.client.new_window(true).await?.handle;
        browser.client.switch_to_window(fresh).await?;
        browser.client.goto(origin).await?;
        let loaded = browser.run(STATE).await?;
        browser.client.close_window().await?;
        browser.client.switch_to_window(tab.clone()).await?;
        if live == loaded {
            return Ok(());
        }
        // What happened between the two is on its way.
        assert!(attempt < 20, "live:\n{live}\nfresh:\n{loaded}");
        let live = "return document.getElementById('live').dataset.state === 'live'";
        browser.until("the stream to be there", live).await?;
    }
    Ok(())
}

fn running(prefix: &str, number: usize) -> String {
    format!(
        "const found = [...document.querySelectorAll('.m[href*=\"/{prefix}\"]')];
         return found.length === {number} && found.every((cell) => cell.dataset.state === 'running');"
    )
}

#[tokio::test]
async fn a_machine_appears_and_runs_without_a_reload_and_the_page_equals_a_fresh_one() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    let browser = Browser::start().await.expect("it starts");
    browser.open(&up.page).await.expect("it opens");
    let address = browser.client.current_url().await.expect("an address");
    assert_eq!(address.as_str(), format!("{}/", up.origin()));
    browser
        .until("all machines", &running("demo", 6))
        .await
        .expect("they run");
    browser.run("window.stays = 1").await.expect("it runs");
    up.scale("demo", 4).await.expect("it scales");
    browser
        .until("two more machines", &running("demo", 8))
        .await
        .expect("they run");
    let counted = "return document.querySelector('[data-k=count]').textContent === '8/8 running'";
    browser.until("the count", counted).await.expect("it counts");
    equals_a_fresh_load(&browser, up.origin())
        .await
        .expect("it loads");
    up.scale("demo", 1).await.expect("it scales");
    browser
        .until("three machines less", &running("demo", 5))
        .await
        .expect("they go");
    equals_a_fresh_load(&browser, up.origin())
        .await
        .expect("it loads");
    assert_eq!(
        browser.run("return window.stays").await.expect("it runs"),
        json!(1)
    );
}

#[tokio::test]
async fn a_broken_stream_is_opened_again_and_no_cell_is_lost_or_doubled() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    let browser = Browser::start().await.expect("it starts");
    let of_page = up.origin().trim_start_matches("http://");
    let line = Line::start(of_page.to_owned()).await.expect("a line");
    let address = up.page.replace(of_page, &line.address);
    browser.open(&address).await.expect("it opens");
    browser
        .until("all machines", &running("demo", 6))
        .await
        .expect("they run");
    browser.run("window.stays = 1").await.expect("it runs");
    line.cut(true);
    let broken = "return document.getElementById('live').dataset.state === 'broken'";
    browser
        .until("the stream to break", broken)
        .await
        .expect("it breaks");
    up.scale("demo", 3).await.expect("it scales");
    up.machines_running(7).await.expect("they run");
    line.cut(false);
    browser
        .until("the machine", &running("demo", 7))
        .await
        .expect("it is there");
    let ids = "const all = [...document.querySelectorAll('#main [id]')].map((one) => one.id);
        return [all.length, new Set(all).size]";
    let ids = browser.run(ids).await.expect("it runs");
    assert_eq!(ids[0], ids[1], "an id is there twice");
    let origin = format!("http://{}", line.address);
    equals_a_fresh_load(&browser, &origin).await.expect("it loads");
    assert_eq!(
        browser.run("return window.stays").await.expect("it runs"),
        json!(1)
    );
}

#[tokio::test]
async fn hostile_text_is_text() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    let browser = Browser::start().await.expect("it starts");
    browser.open(&up.page).await.expect("it opens");
    browser.console().await.expect("a console");
    let hostile = "<img src=x onerror=window.hacked=1>\"'><script>window.hacked=1</script>\u{202e}\u{0}"
        .trim_end_matches('\u{0}');
    let long = "x".repeat(63);
    let cluster = json!({"controlPlaneEndpoint": {"host": hostile, "port": 1}, "paused": true});
    up.create("Cluster", &long, cluster).await.expect("it is created");
    let machine = json!({"clusterName": long, "failureDomain": hostile, "version": hostile, "bootstrap": {}});
    up.create("Machine", "hostile", machine)
        .await
        .expect("it is created");
    let status = json!({"phase": hostile, "conditions": [{"type": "Ready", "status": "False", "reason": "R",
        "message": hostile, "lastTransitionTime": "2026-03-04T05:06:07Z"}]});
    up.report("Machine", "hostile", status)
        .await
        .expect("it is reported");
    browser
        .until(
            "the machine",
            "return !!document.getElementById('machine:default/hostile')",
        )
        .await
        .expect("it is there");
    browser
        .run("document.getElementById('machine:default/hostile').click()")
        .await
        .expect("a click");
    let open = "return document.getElementById('drawer-title')?.textContent === 'hostile'";
    browser.until("the Drawer", open).await.expect("it opens");
    browser
        .until(
            "the message",
            "return document.getElementById('drawer').textContent.includes('onerror')",
        )
        .await
        .expect("it is there");
    let found = browser
        .run("return [window.hacked ?? null, document.querySelectorAll('main img, main script, aside img, aside script').length]")
        .await
        .expect("it runs");
    assert_eq!(found, json!([Value::Null, 0]));
    let console = browser.console().await.expect("a console");
    assert!(console.is_empty(), "{console:?}");
    // Also not when the page is loaded afresh, with the Drawer in it.
    browser.client.refresh().await.expect("it loads");
    let found = browser
        .run("return window.hacked ?? null")
        .await
        .expect("it runs");
    let console = browser.console().await.expect("a console");
    assert!(found.is_null() && console.is_empty(), "{console:?}");
}

#[tokio::test]
async fn a_machine_breaks_on_a_click_and_heals_on_another() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    let browser = Browser::start().await.expect("it starts");
    browser.open(&up.page).await.expect("it opens");
    browser.console().await.expect("a console");
    browser
        .open_drawer(".m[data-role=\"worker\"]")
        .await
        .expect("it opens");
    browser.click("act-break").await.expect("it is there");
    let broken =
        "const marked = document.querySelectorAll('.m[data-fault^=\"notready-\"][data-state=\"not ready\"]');
        return marked.length === 1 && marked[0].ariaLabel.includes('Fault notready-')";
    browser
        .until("one machine that is not ready", broken)
        .await
        .expect("it is");
    let counts =
        "return /^[1-9][0-9]?s left$/.test(document.querySelector('#faults .left')?.textContent ?? '')";
    browser
        .until("the time that is left", counts)
        .await
        .expect("it counts");
    let said = "return document.getElementById('outcome').textContent.includes('is created')";
    assert_eq!(browser.run(said).await.expect("it runs"), json!(true));
    // The Drawer changes while someone fills in its form.
    let chosen = "document.getElementById('act-for').value = '5m'; document.getElementById('act-effect').value = 'freeze'";
    browser.run(chosen).await.expect("it runs");
    browser.click("outcome-undo").await.expect("it is there");
    browser
        .until("all machines", &running("demo", 6))
        .await
        .expect("they run again");
    let healed = "return !document.querySelector('.m:not(.sample):not([data-fault=\"\"]), #faults > li')";
    browser.until("no Fault", healed).await.expect("it is gone");
    let kept =
        "return [document.getElementById('act-for').value, document.getElementById('act-effect').value]";
    assert_eq!(browser.run(kept).await.expect("it runs"), json!(["5m", "freeze"]));
    let console = browser.console().await.expect("a console");
    assert!(console.is_empty(), "{console:?}");
}

#[tokio::test]
async fn the_clock_of_a_cloud_stands_still_and_runs_again_on_a_click() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    let browser = Browser::start().await.expect("it starts");
    browser.open(&up.page).await.expect("it opens");
    browser.open_drawer(".cloud .name").await.expect("it opens");
    browser.click("act-pause").await.expect("it is there");
    let paused =
        |is_paused: bool| format!("return document.querySelector('.cloud').dataset.paused === '{is_paused}'");
    browser
        .until("the clock", &paused(true))
        .await
        .expect("it stands");
    up.scale("demo", 3).await.expect("it scales");
    let starting =
        "return document.querySelectorAll('.m[data-role=\"worker\"][data-vm=\"starting\"]').length";
    let one = format!("{starting} === 1");
    browser
        .until("a machine that starts", &one)
        .await
        .expect("it is there");
    browser.click("act-step").await.expect("it is there");
    let none = format!("{starting} === 0");
    browser.until("its next stage", &none).await.expect("it has it");
    browser.click("act-resume").await.expect("it is there");
    browser.until("the clock", &paused(false)).await.expect("it runs");
    browser
        .until("the machine", &running("demo", 7))
        .await
        .expect("it runs");
}

/// The ids of the cells that a script selects, in their order.
async fn cells(browser: &Browser, selector: &str) -> Value {
    let ids = format!("return [...document.querySelectorAll('#main {selector}')].map((one) => one.id)");
    browser.run(&ids).await.expect("it runs")
}

#[tokio::test]
async fn the_palette_marks_what_a_fault_would_hit_and_the_fault_hits_that() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    let browser = Browser::start().await.expect("it starts");
    browser.open(&up.page).await.expect("it opens");
    browser.console().await.expect("a console");
    // From a cell, by a key.
    let focus = "document.querySelector('#main a.m').focus()";
    browser.run(focus).await.expect("it runs");
    let cell = browser.client.active_element().await.expect("a focus");
    cell.send_keys("f").await.expect("it takes keys");
    browser.drawer().await.expect("it opens");
    let all = "return document.getElementById('preview').textContent.startsWith('Hits 6 of 6 machines')";
    browser.until("the preview", all).await.expect("it is there");
    assert_eq!(
        cells(&browser, ".m[data-aimed]").await.as_array().map(Vec::len),
        Some(6)
    );
    let choose = |field: &str, value: &str| {
        format!(
            "const field = document.getElementById('palette-{field}'); field.value = '{value}';
             field.dispatchEvent(new Event('input', {{ bubbles: true }}))"
        )
    };
    let zone =
        "return document.querySelector('#main .m[data-role=control-plane]').closest('td').dataset.zone";
    let zone = browser.run(zone).await.expect("it runs");
    let zone = zone.as_str().expect("a zone");
    browser.run(&choose("zone", zone)).await.expect("it runs");
    browser
        .run(&choose("machines", "control-plane"))
        .await
        .expect("it runs");
    let some = "return /^Hits [1-5] of 6 machines/.test(document.getElementById('preview').textContent)";
    browser.until("the preview", some).await.expect("it changes");
    let aimed = cells(&browser, ".m[data-aimed]").await;
    let there = format!("td[data-zone=\"{zone}\"] .m[data-role=\"control-plane\"]");
    let there = cells(&browser, &there).await;
    assert_eq!(aimed, there);
    // A link says the same.
    let address = browser.client.current_url().await.expect("an address");
    let query = format!("effect=notReady&cluster=&machines=control-plane&zone={zone}&names=&for=60s&count=");
    assert_eq!(
        (address.path(), address.query()),
        ("/palette/-/new", Some(query.as_str()))
    );
    browser.click("palette-break").await.expect("it is there");
    let hit = ".m:not(.sample):not([data-fault=\"\"])";
    let broken = format!(
        "return document.querySelectorAll('#main {hit}').length === document.querySelectorAll('[data-aimed]').length"
    );
    browser.until("broken machines", &broken).await.expect("they are");
    assert_eq!(cells(&browser, hit).await, aimed);
    browser.click("outcome-undo").await.expect("it is there");
    browser
        .until("all machines", &running("demo", 6))
        .await
        .expect("they run again");
    // A Fault that hits nothing says which field is to blame.
    browser.run(&choose("names", "absent")).await.expect("it runs");
    let blamed =
        "return document.getElementById('preview').textContent.includes('Without the names it would hit ')";
    browser.until("the reason", blamed).await.expect("it is there");
    assert_eq!(cells(&browser, "[data-aimed]").await, json!([]));
    let console = browser.console().await.expect("a console");
    assert!(console.is_empty(), "{console:?}");
}

#[tokio::test]
async fn a_scenario_tells_its_story_and_runs_again_on_a_click() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    let browser = Browser::start().await.expect("it starts");
    browser.open(&up.page).await.expect("it opens");
    browser.console().await.expect("a console");
    let steps = json!([{ "say": "the workers rest" }, { "pause": "2s" }, { "say": "the end" }]);
    up.create("Scenario", "rest", json!({ "steps": steps }))
        .await
        .expect("it is created");
    let told = "return document.getElementById('captions').textContent === 'default/rest the workers rest'";
    browser.until("the story", told).await.expect("it is told");
    let phase = |phase: &str| {
        format!(
            "const line = document.getElementById('scenario:default/rest'); return line?.dataset.phase === '{phase}'
                && (document.querySelector('#drawer .badge')?.textContent ?? '{phase}') === '{phase}'"
        )
    };
    browser
        .until("the verdict", &phase("Passed"))
        .await
        .expect("it passes");
    let silent = "return document.getElementById('captions').textContent";
    assert_eq!(browser.run(silent).await.expect("it runs"), json!(""));
    browser.open_drawer("#scenarios a").await.expect("it opens");
    let rows = "return [...document.querySelectorAll('#drawer .scroll tbody tr')].map((row) => row.children[1].textContent + ' ' + row.children[2].textContent)";
    assert_eq!(
        browser.run(rows).await.expect("it runs"),
        json!(["say Passed", "pause Passed", "say Passed"])
    );
    browser.click("act-again").await.expect("it is there");
    browser
        .until("another run", &phase("Running"))
        .await
        .expect("it runs");
    browser
        .until("its verdict", &phase("Passed"))
        .await
        .expect("it passes");
    // The library says what an entry lacks here: the cluster is another one.
    browser.click("library").await.expect("it is there");
    browser.click("drawer-title").await.expect("it is there");
    let entry = "const link = document.querySelector('.library a[href=\"/library/default/quota\"]'); link?.click(); return !!link";
    browser.until("the library", entry).await.expect("it is there");
    let lacks = "return document.querySelectorAll('#drawer .lacks li').length > 0 && document.getElementById('library-run').disabled";
    browser.until("what is missing", lacks).await.expect("it is told");
    let console = browser.console().await.expect("a console");
    assert!(console.is_empty(), "{console:?}");
}
