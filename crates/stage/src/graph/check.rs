//! Checks of a graph: what would keep it from working, and the order of its stages.

use super::GraphError;
use super::topology::{Edge, EdgeKind, Topology};

/// Every stage has a handler.
pub(super) fn handlers(topology: &Topology) -> Result<(), GraphError> {
    let Some(unhandled) = topology.nodes.iter().position(|node| !node.has_handler()) else {
        return Ok(());
    };
    let name = |index: usize| topology.nodes[index].name().to_owned();
    let from =
        topology.edges.iter().filter(|edge| edge.to == unhandled).map(|edge| name(edge.from));
    Err(GraphError::NoHandler { stage: name(unhandled), from: from.collect() })
}

/// No stage may wait for itself, by whatever way round.
pub(super) fn cycles(topology: &Topology) -> Result<(), GraphError> {
    let mut seen = vec![Mark::New; topology.nodes.len()];
    for node in 0..topology.nodes.len() {
        let mut path = Vec::new();
        if let Some(cycle) = cycle_from(topology, node, &mut seen, &mut path) {
            let name = |&index: &usize| topology.nodes[index].name().to_owned();
            return Err(GraphError::BlockingCycle { stages: cycle.iter().map(name).collect() });
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    OnPath,
    Done,
}

/// Depth first along the edges that wait. A service has tens of stages, so the
/// recursion is shallow.
fn cycle_from(
    topology: &Topology,
    node: usize,
    seen: &mut [Mark],
    path: &mut Vec<usize>,
) -> Option<Vec<usize>> {
    path.push(node);
    match seen[node] {
        Mark::Done => {}
        Mark::OnPath => {
            let start = path.iter().position(|&other| other == node)?;
            return Some(path[start..].to_vec());
        }
        Mark::New => {
            seen[node] = Mark::OnPath;
            for edge in waiting(&topology.edges).filter(|edge| edge.from == node) {
                if let Some(cycle) = cycle_from(topology, edge.to, seen, path) {
                    return Some(cycle);
                }
            }
            seen[node] = Mark::Done;
        }
    }
    path.pop();
    None
}

fn waiting(edges: &[Edge]) -> impl Iterator<Item = &Edge> {
    edges.iter().filter(|edge| edge.kind == EdgeKind::Blocking)
}

/// The stages in an order in which each comes after those that send to it, as far
/// as there is one; stages on a cycle come in the order of their declaration.
pub(super) fn senders_first(topology: &Topology) -> Vec<usize> {
    let mut left: Vec<usize> = (0..topology.nodes.len()).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let is_fed = |node: usize| {
            let mut senders = topology.edges.iter().filter(|edge| edge.to == node);
            senders.any(|edge| edge.from != node && left.contains(&edge.from))
        };
        let next = left.iter().position(|&node| !is_fed(node)).unwrap_or(0);
        order.push(left.remove(next));
    }
    order
}
