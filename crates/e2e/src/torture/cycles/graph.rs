//! A graph of transactions, and the shortest cycle in it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Kind;

/// Why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Edge {
    WriteWrite,
    WriteRead,
    ReadWrite,
    Time,
}

/// A transaction, or a moment at which one was answered: those that began later come after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Transaction(usize),
    Moment(usize),
}

/// Transactions and what comes before what.
#[derive(Debug, Default)]
pub(super) struct Graph {
    edges: BTreeMap<Node, BTreeSet<(Node, Edge)>>,
}

impl Graph {
    /// The first comes before the second, if there are both and they are not the same.
    pub(super) fn add(&mut self, from: Option<usize>, to: Option<usize>, edge: Edge) {
        if let (Some(from), Some(to)) = (from, to)
            && from != to
        {
            self.link(Node::Transaction(from), Node::Transaction(to), edge);
        }
    }

    fn link(&mut self, from: Node, to: Node, edge: Edge) {
        self.edges.entry(from).or_default().insert((to, edge));
    }

    /// How many edges there are.
    pub(super) fn len(&self) -> usize {
        self.edges.values().map(BTreeSet::len).sum()
    }

    /// A cycle that needs as few kinds of edges as possible. `times` says of each transaction when it began and, if it
    /// was, when it was answered.
    pub(super) fn cycle(
        mut self,
        times: Vec<(usize, u64, Option<u64>)>,
    ) -> Option<(Kind, Vec<usize>)> {
        for most in [Edge::WriteWrite, Edge::WriteRead, Edge::ReadWrite] {
            if let Some(cycle) = self.shortest(most) {
                let kind = match most {
                    Edge::WriteWrite => Kind::Write,
                    Edge::WriteRead => Kind::Information,
                    _ if cycle.1 == 1 => Kind::Single,
                    _ => Kind::AntiDependency,
                };
                return Some((kind, cycle.0));
            }
        }
        self.add_time(times);
        self.shortest(Edge::Time).map(|(cycle, _)| (Kind::RealTime, cycle))
    }

    /// Moments form a chain, so that there are as many edges as transactions, not as many as pairs of them.
    fn add_time(&mut self, times: Vec<(usize, u64, Option<u64>)>) {
        let answered =
            times.iter().filter_map(|(number, _, answered)| Some(((*answered)?, *number)));
        let mut moments: Vec<(u64, usize)> = answered.collect();
        moments.sort_unstable();
        for (at, (_, number)) in moments.iter().enumerate() {
            self.link(Node::Transaction(*number), Node::Moment(at), Edge::Time);
            if at > 0 {
                self.link(Node::Moment(at - 1), Node::Moment(at), Edge::Time);
            }
        }
        for (number, asked, _) in times {
            let before = moments.partition_point(|(answered, _)| *answered < asked);
            if let Some(last) = before.checked_sub(1) {
                self.link(Node::Moment(last), Node::Transaction(number), Edge::Time);
            }
        }
    }

    /// The shortest cycle of edges up to this kind, and how many read-write edges it has. Nodes without a way in or out are
    /// cut off first, again and again; what is left lies on cycles or between them.
    fn shortest(&self, most: Edge) -> Option<(Vec<usize>, usize)> {
        let left = self.core(most);
        let mut best: Option<(Vec<usize>, usize)> = None;
        for start in left.iter().filter(|node| matches!(node, Node::Transaction(_))) {
            let Some(found) = self.back_to(*start, most, &left) else { continue };
            if best.as_ref().is_none_or(|best| found.0.len() < best.0.len()) {
                best = Some(found);
            }
            if best.as_ref().is_some_and(|best| best.0.len() == 2) {
                break;
            }
        }
        best
    }

    /// Nodes that have a way in and a way out among themselves.
    fn core(&self, most: Edge) -> BTreeSet<Node> {
        let (mut out, mut into) = (BTreeMap::<Node, usize>::new(), BTreeMap::<Node, usize>::new());
        let mut back: BTreeMap<Node, Vec<Node>> = BTreeMap::new();
        for (from, edges) in &self.edges {
            for (to, _) in edges.iter().filter(|(_, edge)| *edge <= most) {
                *out.entry(*from).or_default() += 1;
                *into.entry(*to).or_default() += 1;
                back.entry(*to).or_default().push(*from);
            }
        }
        let nodes: BTreeSet<Node> = out.keys().chain(into.keys()).copied().collect();
        let mut left = nodes.clone();
        let mut ends: Vec<Node> = nodes
            .into_iter()
            .filter(|node| !out.contains_key(node) || !into.contains_key(node))
            .collect();
        while let Some(node) = ends.pop() {
            if !left.remove(&node) {
                continue;
            }
            let after = self.edges.get(&node).into_iter().flatten();
            for (to, _) in after.filter(|(_, edge)| *edge <= most) {
                if let Some(count) = into.get_mut(to) {
                    *count = count.saturating_sub(1);
                    if *count == 0 {
                        ends.push(*to);
                    }
                }
            }
            for from in back.get(&node).into_iter().flatten() {
                if let Some(count) = out.get_mut(from) {
                    *count = count.saturating_sub(1);
                    if *count == 0 {
                        ends.push(*from);
                    }
                }
            }
        }
        left
    }

    /// The shortest way from a transaction back to itself.
    fn back_to(
        &self,
        start: Node,
        most: Edge,
        left: &BTreeSet<Node>,
    ) -> Option<(Vec<usize>, usize)> {
        let mut from: BTreeMap<Node, (Node, Edge)> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for (to, edge) in self.edges.get(&node).into_iter().flatten() {
                if *edge > most || !left.contains(to) || from.contains_key(to) {
                    continue;
                }
                from.insert(*to, (node, *edge));
                if *to == start {
                    return Some(way(start, &from));
                }
                queue.push_back(*to);
            }
        }
        None
    }
}

fn way(start: Node, from: &BTreeMap<Node, (Node, Edge)>) -> (Vec<usize>, usize) {
    let (mut cycle, mut missed, mut node) = (Vec::new(), 0, start);
    loop {
        let (before, edge) = from[&node];
        missed += usize::from(edge == Edge::ReadWrite);
        if let Node::Transaction(number) = before {
            cycle.push(number);
        }
        node = before;
        if node == start {
            cycle.reverse();
            return (cycle, missed);
        }
    }
}
