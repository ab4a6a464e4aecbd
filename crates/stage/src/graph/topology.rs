//! The stages of a graph and the edges between them, at one instant.

use std::sync::Arc;

use super::GraphError;
use super::node::{ErasedNode, NodeId};
use crate::observe::EdgeCounters;

/// Stages by their position, and edges between positions. Positions change when a stage is removed;
/// identities ([`NodeId`]) never do.
#[derive(Clone, Default)]
pub(super) struct Topology {
    pub(super) nodes: Vec<Arc<dyn ErasedNode>>,
    pub(super) edges: Vec<Edge>,
}

#[derive(Clone)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) kind: EdgeKind,
    pub(super) counters: Arc<EdgeCounters>,
}

/// Whether the sender of an edge may wait for its receiver.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EdgeKind {
    NonBlocking,
    Blocking,
}

impl Topology {
    /// The stage of this name.
    pub(super) fn named(&self, name: &str) -> Result<&Arc<dyn ErasedNode>, GraphError> {
        self.nodes.iter().find(|node| node.name() == name).ok_or_else(|| GraphError::NotFound {
            stage: name.to_owned(),
            stages: self.nodes.iter().map(|node| node.name().to_owned()).collect(),
        })
    }

    /// Takes in a stage, whose name must be free.
    pub(super) fn insert(&mut self, node: Arc<dyn ErasedNode>) -> Result<(), GraphError> {
        if self.named(node.name()).is_ok() {
            return Err(GraphError::Duplicate { stage: node.name().to_owned() });
        }
        self.nodes.push(node);
        Ok(())
    }

    /// The counters of the edge from one stage to another; it is made if there is none of this kind.
    pub(super) fn connect(
        &mut self,
        from: &dyn ErasedNode,
        to: &dyn ErasedNode,
        kind: EdgeKind,
    ) -> Result<Arc<EdgeCounters>, GraphError> {
        let (from, to) = (self.position(from)?, self.position(to)?);
        let same = |edge: &&Edge| (edge.from, edge.to, edge.kind) == (from, to, kind);
        if let Some(edge) = self.edges.iter().find(same) {
            return Ok(Arc::clone(&edge.counters));
        }
        let counters = Arc::<EdgeCounters>::default();
        self.edges.push(Edge { from, to, kind, counters: Arc::clone(&counters) });
        Ok(counters)
    }

    /// Takes out a stage and its edges, if it is still there. What it returns may own the last
    /// handlers, whose destructors must not run under the lock.
    pub(super) fn remove(&mut self, id: NodeId) -> Option<Arc<dyn ErasedNode>> {
        let removed = self.nodes.iter().position(|node| node.id() == id)?;
        let node = self.nodes.remove(removed);
        self.edges.retain(|edge| edge.from != removed && edge.to != removed);
        for edge in &mut self.edges {
            edge.from -= usize::from(edge.from > removed);
            edge.to -= usize::from(edge.to > removed);
        }
        self.nodes.iter().for_each(|other| other.forget_sender(node.name()));
        Some(node)
    }

    fn position(&self, node: &dyn ErasedNode) -> Result<usize, GraphError> {
        let found = self.nodes.iter().position(|other| other.id() == node.id());
        found.ok_or_else(|| GraphError::NotMember { stage: node.name().to_owned() })
    }
}
