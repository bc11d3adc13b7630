//! The HTML of the screen Pools. Pure.

use maud::{Markup, html};

use crate::{
    html::{Live, Whose, shell},
    pool_grid::{Grid, Grids, Holder, Slot, Waiting},
    screen::Screen,
};

/// The whole page.
pub(crate) fn page(grids: &Grids, namespace: Option<&str>, whose: Whose) -> Markup {
    let content = html! {
        main #main .pools data-part=(Screen::Pools.part(namespace)) {
            h1 { "Pools" }
            div #part { (part(grids)) }
        }
    };
    shell("Pools - Nephele", &content, Some(&Live::part(namespace, whose)))
}

/// What changes.
pub(crate) fn part(grids: &Grids) -> Markup {
    html! {
        @if grids.grids.is_empty() {
            p .none { "No pools of addresses. " code { "kubectl apply" } " an InClusterIPPool." }
        } @else if !grids.is_complete {
            p .none { "The page cannot list IPAddresses and IPAddressClaims, so it does not know who has which address." }
        }
        @for grid in &grids.grids { (pool(grid)) }
        @if grids.left_out > 0 { p .none { "and " (grids.left_out) " more pools" } }
    }
}

fn pool(grid: &Grid) -> Markup {
    let name = match grid.kind.is_namespaced() {
        true => grid.key.to_string(),
        false => grid.key.name.clone(),
    };
    let id = format!("pool:{}:{}", grid.kind, grid.key);
    let counts = grid
        .counts
        .iter()
        .map(|(slot, count)| format!("{count} {}", slot.words()));
    let counts = counts.collect::<Vec<_>>().join(", ");
    let whole = format!("Pool {name}: {counts}");
    html! {
        section .panel .pool aria-labelledby=(id) {
            h2 #(id) { span .kind { (grid.kind) } " " (name) }
            p .facts { code { (grid.ranges) } }
            p .counts { (counts)
                @if grid.out_of_range > 0 { ", " (grid.out_of_range) " in use out of range" }
                @if grid.per_cell > 1 { ". A cell stands for " (grid.per_cell) "." }
            }
            @for trouble in &grid.troubles { p .trouble { (trouble) } }
            div .addresses role="img" aria-label=(whole) {
                @for cell in &grid.cells {
                    i data-slot=(cell.slot.words()) data-quarters=[(grid.per_cell > 1).then_some(cell.quarters)] title=(cell.says) {}
                }
            }
            @if grid.is_cut { p .none { "and more addresses, which are not shown" } }
            (legend(grid))
            (waiting(grid))
            (holders(grid))
        }
    }
}

/// What the marks mean of those that the pool has.
fn legend(grid: &Grid) -> Markup {
    html! {
        p .legend {
            @for slot in Slot::ALL.into_iter().filter(|slot| grid.counts.contains_key(slot)) {
                span { i data-slot=(slot.words()) aria-hidden="true" {} (slot.words()) }
            }
        }
    }
}

fn waiting(grid: &Grid) -> Markup {
    html! {
        @if !grid.waiting.is_empty() {
            h3 { "Claims that wait: " (grid.waiting.len() + grid.waiting_left_out) }
            ul { @for Waiting { claim, reason, message } in &grid.waiting {
                li .line { b { (reason) } " " span { (claim) } " " span { (message) } }
            } }
        }
    }
}

fn holders(grid: &Grid) -> Markup {
    html! {
        @if !grid.holders.is_empty() {
            details id={ "holders:" (grid.kind) ":" (grid.key) } {
                summary { "Who has which: " (grid.holders.len() + grid.holders_left_out) }
                table .list {
                    thead { tr {
                        th scope="col" { "Address" } th scope="col" { "Claim" } th scope="col" { "Cluster" } th scope="col" { "State" }
                    } }
                    tbody { @for Holder { address, slot, claim, cluster } in &grid.holders {
                        tr { th scope="row" { (address) } td { (claim) } td { (cluster) } td { (slot.words()) } }
                    } }
                }
                @if grid.holders_left_out > 0 { p .none { "and " (grid.holders_left_out) " more" } }
            }
        }
    }
}
