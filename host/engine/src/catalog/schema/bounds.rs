//! Size and depth of a schema with expanded references, measured before any check: a small text can be a huge schema,
//! as `allOf` of two references, forty times in a row, is 10^12 checks.

use anyhow::{bail, ensure};
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::graph::{NodeId, SchemaGraph, SchemaNode};

/// Weighted subschemas with expanded references; recursion is expanded once.
const EXPANDED_MAX: u64 = 200_000;
/// Each level takes stack, when a value is checked and when the compiled schema is dropped.
const DEPTH_MAX: usize = 256;

pub(super) fn measure(graph: &SchemaGraph) -> anyhow::Result<()> {
    let in_place = components(graph, &|node| node.in_place.clone());
    if let Some(cycle) = in_place.iter().find(|component| component.cyclic) {
        let at = cycle
            .nodes
            .first()
            .map(|id| graph.place(*id))
            .unwrap_or_default();
        bail!(
            "{at} refers to itself without going into the value, so that checking it would never end"
        );
    }
    let edges = |node: &SchemaNode| {
        let in_place = node.in_place.iter().copied();
        in_place.chain(node.children()).collect()
    };
    let components = components(graph, &edges);
    let whole = depths(graph, &components, &edges);
    let chain = depths(graph, &in_place, &|node| node.in_place.clone());
    for (id, (all, chain)) in whole.iter().zip(&chain).enumerate() {
        ensure!(
            *all.max(chain) <= DEPTH_MAX,
            "{} is more than {DEPTH_MAX} subschemas deep with every reference written out; refer to fewer in a row",
            graph.place(id)
        );
    }
    let weights = expanded(graph, &components);
    if let Some(id) = weights.iter().position(|weight| *weight > EXPANDED_MAX) {
        bail!(
            "{} is larger than {EXPANDED_MAX} subschemas with every reference written out; refer to less from one place",
            graph.place(id)
        );
    }
    Ok(())
}

/// Nodes that can reach each other.
struct NodeComponent {
    nodes: Vec<NodeId>,
    cyclic: bool,
}

#[derive(Clone, Copy, Default)]
struct NodeWork {
    check: u64,
    mark: u64,
}

/// Weights with all references; a cycle counts once.
fn expanded(graph: &SchemaGraph, components: &[NodeComponent]) -> Vec<u64> {
    let mut works = vec![NodeWork::default(); graph.nodes.len()];
    for NodeComponent { nodes, .. } in components {
        let mut whole = NodeWork::default();
        for node in nodes.iter().filter_map(|id| graph.get(*id)) {
            let of = |id: NodeId| works.get(id).copied().unwrap_or_default();
            let mut work = NodeWork {
                check: node.weight,
                mark: 0,
            };
            for inner in node.in_place.iter().map(|id| of(*id)) {
                work.check = work.check.saturating_add(inner.check);
                work.mark = work
                    .mark
                    .saturating_add(inner.check)
                    .saturating_add(inner.mark);
            }
            for inner in node.children().map(of) {
                work.check = work.check.saturating_add(inner.check);
                if node.contains || node.unevaluated {
                    work.mark = work.mark.saturating_add(inner.check);
                }
            }
            if node.unevaluated {
                work.check = work.check.saturating_add(work.mark);
            }
            whole.check = whole.check.saturating_add(work.check);
            whole.mark = whole.mark.saturating_add(work.mark);
        }
        for id in nodes {
            if let Some(slot) = works.get_mut(*id) {
                *slot = whole;
            }
        }
    }
    works.into_iter().map(|work| work.check).collect()
}

/// A cycle is one level: the value's own depth, which JSON bounds, limits the recursion.
fn depths(
    graph: &SchemaGraph,
    components: &[NodeComponent],
    edges: &dyn Fn(&SchemaNode) -> Vec<NodeId>,
) -> Vec<usize> {
    let mut depths = vec![0; graph.nodes.len()];
    for NodeComponent { nodes, .. } in components {
        let inner = nodes.iter().filter_map(|id| graph.get(*id)).flat_map(edges);
        let deepest = inner
            .filter_map(|id| depths.get(id).copied())
            .max()
            .unwrap_or(0);
        for id in nodes {
            if let Some(slot) = depths.get_mut(*id) {
                *slot = deepest + 1;
            }
        }
    }
    depths
}

/// Each component follows all that it refers to.
fn components(
    graph: &SchemaGraph,
    edges: &dyn Fn(&SchemaNode) -> Vec<NodeId>,
) -> Vec<NodeComponent> {
    let mut directed = DiGraph::<(), (), usize>::default();
    graph.nodes.iter().for_each(|_| _ = directed.add_node(()));
    for (id, node) in graph.nodes.iter().enumerate() {
        for to in edges(node) {
            directed.add_edge(id.into(), to.into(), ());
        }
    }
    let component = |nodes: Vec<NodeIndex<usize>>| NodeComponent {
        cyclic: nodes.len() > 1 || nodes.iter().any(|id| directed.contains_edge(*id, *id)),
        nodes: nodes.into_iter().map(NodeIndex::index).collect(),
    };
    // It does not recurse: the graph may be a chain of thousands of nodes.
    kosaraju_scc(&directed).into_iter().map(component).collect()
}
