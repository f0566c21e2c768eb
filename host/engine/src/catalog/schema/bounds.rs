//! The size and the depth of a schema with every reference expanded, measured before any value is checked. A small text
//! can be a huge schema: `allOf` of two references, forty times in a row, is 10^12 checks.

use anyhow::{bail, ensure};

use super::graph::{NodeId, SchemaGraph, SchemaNode};

/// Maximum weighted number of subschemas of one schema with every reference expanded; recursion is expanded once.
const EXPANDED_MAX: u64 = 200_000;
/// Maximum nesting depth of subschemas with every reference expanded. Each level takes stack, when a value is checked
/// and when the compiled schema is dropped.
const DEPTH_MAX: usize = 256;

/// The bounds of an accepted schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkBounds {
    /// Maximum units of work for each value; `None` if the schema is recursive or has `uniqueItems`, so that the work
    /// depends on the value.
    pub(super) per_value: Option<u64>,
    /// Units of work for each byte.
    pub(super) per_byte: u64,
    /// Units of work for each [`TEXT_BYTES_PER_UNIT`](super::graph::TEXT_BYTES_PER_UNIT) of text.
    pub(super) per_text: u64,
    pub(super) depth: usize,
}

/// Measures `graph`. An error says which bound it exceeds, and where.
pub(super) fn measure(graph: &SchemaGraph) -> anyhow::Result<WorkBounds> {
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
        node.in_place
            .iter()
            .copied()
            .chain(node.children())
            .collect()
    };
    let components = components(graph, &edges);
    let recursive = components.iter().any(|component| component.cyclic);
    let depths = depths(graph, &components);
    let chain = depths_of(graph, &in_place, &|node| node.in_place.clone());
    for (id, depth) in depths
        .iter()
        .zip(&chain)
        .map(|(all, chain)| (*all).max(*chain))
        .enumerate()
    {
        ensure!(
            depth <= DEPTH_MAX,
            "{} is more than {DEPTH_MAX} subschemas deep with every reference written out; refer to fewer in a row",
            graph.place(id)
        );
    }
    let weights = expanded(graph, &components, &|node| node.weight);
    if let Some(id) = weights.iter().position(|weight| *weight > EXPANDED_MAX) {
        bail!(
            "{} is larger than {EXPANDED_MAX} subschemas with every reference written out; refer to less from one place",
            graph.place(id)
        );
    }
    let bytes = expanded(graph, &components, &|node| {
        node.per_byte.saturating_add(node.per_name_byte)
    });
    let texts = expanded(graph, &components, &|node| {
        node.text_words.saturating_add(node.name_words())
    });
    let root = |list: &[u64]| list.first().copied().unwrap_or_default();
    Ok(WorkBounds {
        per_value: (!recursive && !graph.nodes.iter().any(|node| node.unique_items))
            .then(|| root(&weights)),
        per_byte: root(&bytes),
        per_text: root(&texts),
        depth: depths.first().copied().unwrap_or_default(),
    })
}

/// A strongly connected component: nodes that can reach each other.
struct NodeComponent {
    nodes: Vec<NodeId>,
    cyclic: bool,
}

/// The work for one value: of a check, and of finding out what the check evaluated.
#[derive(Clone, Copy, Default)]
struct NodeWork {
    check: u64,
    mark: u64,
}

/// The weight of every node with all that it refers to; a cycle counts once.
fn expanded(
    graph: &SchemaGraph,
    components: &[NodeComponent],
    weight: &dyn Fn(&SchemaNode) -> u64,
) -> Vec<u64> {
    let mut works = vec![NodeWork::default(); graph.nodes.len()];
    for NodeComponent { nodes, .. } in components {
        let mut whole = NodeWork::default();
        for node in nodes.iter().filter_map(|id| graph.get(*id)) {
            let of = |id: NodeId| works.get(id).copied().unwrap_or_default();
            let mut work = NodeWork {
                check: weight(node),
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

/// The depth of every node with all that it refers to. A cycle counts as one level: JSON itself bounds how deep its
/// text is nested, and the value decides how deep the recursion goes.
fn depths(graph: &SchemaGraph, components: &[NodeComponent]) -> Vec<usize> {
    depths_of(graph, components, &|node| {
        node.in_place
            .iter()
            .copied()
            .chain(node.children())
            .collect()
    })
}

fn depths_of(
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

/// The strongly connected components, each after all that it refers to. This is Tarjan's algorithm without recursion,
/// because the graph may be a chain of thousands of nodes.
fn components(
    graph: &SchemaGraph,
    edges: &dyn Fn(&SchemaNode) -> Vec<NodeId>,
) -> Vec<NodeComponent> {
    const NEW: usize = usize::MAX;
    let count = graph.nodes.len();
    let mut order = vec![NEW; count];
    let mut low = vec![NEW; count];
    let mut on_stack = vec![false; count];
    let mut stack = Vec::new();
    let mut found = Vec::new();
    let mut next = 0;
    let get = |list: &[usize], id: NodeId| list.get(id).copied().unwrap_or(NEW);
    for root in 0..count {
        if get(&order, root) != NEW {
            continue;
        }
        // A node, its edges, and how many of them were visited.
        let mut open: Vec<(NodeId, Vec<NodeId>, usize)> = Vec::new();
        let mut enter = Some(root);
        loop {
            if let Some(id) = enter.take() {
                if let (Some(order), Some(low), Some(on)) =
                    (order.get_mut(id), low.get_mut(id), on_stack.get_mut(id))
                {
                    (*order, *low, *on) = (next, next, true);
                }
                next += 1;
                stack.push(id);
                open.push((id, graph.get(id).map(edges).unwrap_or_default(), 0));
            }
            let Some((id, inner, at)) = open.last_mut() else {
                break;
            };
            let id = *id;
            if let Some(to) = inner.get(*at).copied() {
                *at += 1;
                if get(&order, to) == NEW {
                    enter = Some(to);
                } else if on_stack.get(to).copied().unwrap_or(false) {
                    lower(&mut low, id, get(&order, to));
                }
                continue;
            }
            open.pop();
            let own = get(&low, id);
            if let Some((parent, ..)) = open.last() {
                lower(&mut low, *parent, own);
            }
            if own == get(&order, id) {
                found.push(close(graph, edges, &mut stack, &mut on_stack, id));
            }
        }
    }
    found
}

fn lower(low: &mut [usize], id: NodeId, to: usize) {
    if let Some(low) = low.get_mut(id) {
        *low = (*low).min(to);
    }
}

/// Pops the component that `id` began off the stack.
fn close(
    graph: &SchemaGraph,
    edges: &dyn Fn(&SchemaNode) -> Vec<NodeId>,
    stack: &mut Vec<NodeId>,
    on_stack: &mut [bool],
    id: NodeId,
) -> NodeComponent {
    let mut nodes = Vec::new();
    while let Some(top) = stack.pop() {
        if let Some(on) = on_stack.get_mut(top) {
            *on = false;
        }
        nodes.push(top);
        if top == id {
            break;
        }
    }
    let cyclic = nodes.len() > 1 || graph.get(id).is_some_and(|node| edges(node).contains(&id));
    NodeComponent { nodes, cyclic }
}
