//! Every interleaving, up to stated bounds, of what people, Cluster API's controllers and the operator do, with crashes and stale
//! plans; and from every state the way to the end when people stop.

use super::model::{Action, People, State};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write as _;

/// What was found.
struct Explored {
    states: usize,
    transitions: usize,
}

struct Exploration {
    initial: State,
    seen: HashSet<u64>,
    trail: Vec<(usize, Action)>,
    /// States from which the good end is reached.
    good: HashSet<u64>,
}

/// Looks at every reachable state, at most `limit` of them.
fn explore(initial: State, limit: usize) -> Explored {
    let mut exploration = Exploration { seen: HashSet::new(), trail: vec![(0, Action::Plan)], good: HashSet::new(), initial };
    exploration.seen.insert(exploration.initial.fingerprint());
    let mut queue = VecDeque::from([(0, exploration.initial.clone())]);
    let mut transitions = 0;
    while let Some((index, state)) = queue.pop_front() {
        if let Err(broken) = exploration.ends_well(&state) {
            panic!("{broken}\n{}", exploration.story(index, None));
        }
        for (action, next) in state.successors() {
            transitions += 1;
            let next = next.unwrap_or_else(|broken| panic!("{broken}\n{}", exploration.story(index, Some(action))));
            if exploration.seen.len() < limit && exploration.seen.insert(next.fingerprint()) {
                exploration.trail.push((index, action));
                queue.push_back((exploration.trail.len() - 1, next));
            }
        }
    }
    Explored { states: exploration.seen.len(), transitions }
}

impl Exploration {
    /// Follows the fair schedule until everything is at rest, or until a state from which that is known to end well.
    fn ends_well(&mut self, state: &State) -> Result<(), String> {
        let mut path = Vec::new();
        let mut on_path = HashMap::new();
        let mut state = state.clone();
        loop {
            let fingerprint = state.fingerprint();
            if self.good.contains(&fingerprint) {
                break;
            }
            if on_path.insert(fingerprint, path.len()).is_some() {
                return Err(format!("it goes round in circles: {state:#?}"));
            }
            path.push(fingerprint);
            let next = state.round().map_err(|broken| format!("on the way to the end: {broken}: {state:?}"))?;
            if next == state {
                state.check_end().map_err(|broken| format!("{broken}: {state:?}"))?;
                break;
            }
            state = next;
        }
        self.good.extend(path);
        Ok(())
    }

    /// What led to the state, step by step.
    fn story(&self, mut index: usize, last: Option<Action>) -> String {
        let mut actions = Vec::from_iter(last);
        while index > 0 {
            actions.push(self.trail[index].1);
            index = self.trail[index].0;
        }
        let mut state = self.initial.clone();
        let mut story = String::new();
        for action in actions.into_iter().rev() {
            let plan = if action == Action::Write { state.plan.first().copied() } else { None };
            let _ = writeln!(story, "{action:?} {}", plan.map(|write| format!("{write:?}")).unwrap_or_default());
            match state.after(action) {
                Ok(next) => state = next,
                Err(broken) => {
                    let _ = writeln!(story, "{broken}");
                }
            }
        }
        let _ = writeln!(story, "{state:#?}");
        story
    }
}

fn run(name: &str, initial: State) {
    let limit = std::env::var("LIMIT").ok().and_then(|v| v.parse().ok()).unwrap_or(200_000);
    let start = std::time::Instant::now();
    let explored = explore(initial, limit);
    println!("{name}: {} states, {} transitions, {:?}", explored.states, explored.transitions, start.elapsed());
}

#[test]
fn x_env() {
    let Ok(text) = std::env::var("MODEL") else { return };
    let mut people = People::default();
    let (mut rolling, mut floor) = (true, 0);
    for part in text.split(',') {
        let (key, value) = part.split_once('=').unwrap();
        let value: u8 = value.parse().unwrap();
        match key {
            "rolling" => rolling = value == 1,
            "floor" => floor = value,
            "creates" => people.creates = value,
            "deletes" => people.deletes = value,
            "ups" => people.ups = value,
            "downs" => people.downs = value,
            "kills" => people.kills = value,
            "templates" => people.templates = value,
            "pauses" => people.pauses = value,
            "lifts" => people.lifts = value,
            "vanishes" => people.vanishes = value,
            "adopts" => people.adopts = value,
            "releases" => people.releases = value,
            "removals" => people.removals = value,
            other => panic!("{other}"),
        }
    }
    run(&text, State::new(rolling, floor, people));
}
