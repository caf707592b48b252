//! Which of the nodes that exist takes a pod.

use super::existing::Verdict;
use super::place::Errand;
use super::query::{NodePart, Query};
use super::world::World;

impl World<'_> {
    /// The first node that takes the pod.
    pub(super) fn find_node(&mut self, errand: Errand, query: &mut Query) -> Option<usize> {
        let (shape, pod) = (&self.shapes[errand.shape], self.pods[errand.pod]);
        let level = &shape.levels[errand.level];
        let parts = query.nodes.get_or_insert_with(|| self.node_parts(errand));
        let mut found: Option<usize> = None;
        for part in parts {
            let class = &self.classes[part.class];
            if !self.domains_allow(level, &class.domains) {
                continue;
            }
            let mut never = true;
            for index in part.head..class.nodes.len() {
                let node = class.nodes[index];
                if found.is_some_and(|found| found < node) {
                    break;
                }
                let existing = &self.nodes[node];
                let called = part.any_host || existing.is_called(&part.met, level);
                let verdict = match existing.has_room(self.input, pod, shape) {
                    Verdict::Yes if called => self.host_allows(level, node),
                    Verdict::Yes => Verdict::Never,
                    other => other,
                };
                match verdict {
                    Verdict::Yes => {
                        found = Some(node);
                        break;
                    }
                    Verdict::Never if never => part.head = index + 1,
                    Verdict::Never => {}
                    Verdict::NotNow => never = false,
                }
            }
        }
        found
    }

    fn node_parts(&self, errand: Errand) -> Vec<NodePart> {
        let (level, pod) = (&self.shapes[errand.shape].levels[errand.level], self.pods[errand.pod]);
        let parts = self.classes.iter().enumerate().map(|(class, of_class)| {
            let met = of_class.met(level, pod, &self.states);
            let any_host = met.iter().any(|index| level.alternatives[*index].hostname.is_none());
            NodePart { class, met, any_host, head: 0 }
        });
        parts.filter(|part| !part.met.is_empty()).collect()
    }

    /// Whether the pod, with one of its sets of wishes, may go to a certain node.
    pub(super) fn node_takes(&self, pod: usize, level: usize, node: usize) -> bool {
        let shape = &self.shapes[self.shape_of[pod]];
        let level = &shape.levels[level];
        let class = &self.classes[self.nodes[node].class];
        let met = class.met(level, self.pods[pod], &self.states);
        self.nodes[node].is_called(&met, level)
            && self.domains_allow(level, &class.domains)
            && self.nodes[node].has_room(self.input, self.pods[pod], shape) == Verdict::Yes
            && self.host_allows(level, node) == Verdict::Yes
    }
}
