//! Circles in a graph: nodes each of which leads to each other one. Files in a circle cannot be read, tested or moved
//! alone.

use std::collections::{BTreeMap, BTreeSet};

/// From where to where an edge leads.
pub(super) type Edge = (usize, usize);

/// The circles of two or more nodes, the largest first.
pub(super) fn circles(edges: &BTreeSet<Edge>) -> Vec<BTreeSet<usize>> {
    let reached: BTreeMap<usize, BTreeSet<usize>> = edges
        .iter()
        .map(|(from, _)| (*from, reached(*from, edges)))
        .collect();
    let leads = |from: usize, to: usize| reached.get(&from).is_some_and(|reached| reached.contains(&to));
    let mut circles = BTreeSet::new();
    for (node, reached) in &reached {
        let circle: BTreeSet<_> = reached
            .iter()
            .copied()
            .filter(|other| leads(*other, *node))
            .collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    let mut circles: Vec<_> = circles.into_iter().collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// The nodes to which a node leads.
fn reached(node: usize, edges: &BTreeSet<Edge>) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        let next = edges.range((node, 0)..=(node, usize::MAX)).map(|(_, to)| *to);
        open.extend(next.filter(|to| reached.insert(*to)));
    }
    reached
}

/// The nodes of a graph by floors, the lowest first. A node leads only to floors below its own, and to nodes of its
/// circle, which stands on one floor.
pub(super) fn floors(nodes: usize, edges: &BTreeSet<Edge>) -> Vec<Vec<BTreeSet<usize>>> {
    let mut groups = circles(edges);
    let alone = (0..nodes).filter(|node| !groups.iter().any(|group| group.contains(node)));
    groups.extend(alone.map(|node| BTreeSet::from([node])).collect::<Vec<_>>());
    let mut floors: Vec<usize> = vec![0; groups.len()];
    let group_of = |node: usize| groups.iter().position(|group| group.contains(&node));
    let between: BTreeSet<Edge> = edges
        .iter()
        .filter_map(|(from, to)| Some((group_of(*from)?, group_of(*to)?)))
        .filter(|(from, to)| from != to)
        .collect();
    // Between groups there are no circles, so this ends.
    while let Some((from, to)) = between.iter().find(|(from, to)| floors[*from] <= floors[*to]) {
        floors[*from] = floors[*to] + 1;
    }
    let mut by_floor = vec![Vec::new(); floors.iter().max().map_or(0, |highest| highest + 1)];
    for (group, floor) in groups.into_iter().zip(floors) {
        by_floor[floor].push(group);
    }
    by_floor
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(groups: Vec<BTreeSet<usize>>) -> Vec<Vec<usize>> {
        groups
            .into_iter()
            .map(|group| group.into_iter().collect())
            .collect()
    }

    #[test]
    fn nodes_that_lead_to_each_other_are_a_circle() {
        for (edges, expected) in [
            (vec![], vec![]),
            (vec![(0, 0)], vec![]),
            (vec![(0, 1), (1, 2), (0, 2)], vec![]),
            (vec![(0, 1), (1, 0)], vec![vec![0, 1]]),
            (vec![(0, 1), (1, 2), (2, 0), (2, 3)], vec![vec![0, 1, 2]]),
            // Two circles that have a node in common are one.
            (vec![(0, 1), (1, 0), (1, 2), (2, 1)], vec![vec![0, 1, 2]]),
            // One circle that leads to another one.
            (
                vec![(0, 1), (1, 0), (1, 2), (2, 3), (3, 4), (4, 2)],
                vec![vec![2, 3, 4], vec![0, 1]],
            ),
        ] {
            let edges: BTreeSet<_> = edges.into_iter().collect();
            assert_eq!(numbers(circles(&edges)), expected, "{edges:?}");
        }
    }

    #[test]
    fn a_node_is_above_all_that_it_leads_to() {
        for (nodes, edges, expected) in [
            (0, vec![], vec![]),
            (2, vec![], vec![vec![vec![0], vec![1]]]),
            (
                3,
                vec![(0, 1), (1, 2), (0, 2)],
                vec![vec![vec![2]], vec![vec![1]], vec![vec![0]]],
            ),
            (
                5,
                vec![(0, 1), (1, 2), (2, 1), (2, 3)],
                vec![vec![vec![3], vec![4]], vec![vec![1, 2]], vec![vec![0]]],
            ),
        ] {
            let edges: BTreeSet<_> = edges.into_iter().collect();
            let found: Vec<_> = floors(nodes, &edges).into_iter().map(numbers).collect();
            assert_eq!(found, expected, "{edges:?}");
        }
    }
}
