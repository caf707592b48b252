//! Every interleaving, up to stated bounds, of what people, Cluster API's controllers and the operator do, with crashes and stale
//! plans; and from every state the way to the end when people stop.

use super::model::{Action, People, State};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write as _;

/// More states than any of these searches has.
const LIMIT: usize = 1_000_000;

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
    let mut exploration =
        Exploration { seen: HashSet::new(), trail: vec![(0, Action::Plan)], good: HashSet::new(), initial };
    exploration.seen.insert(exploration.initial.fingerprint());
    let mut queue = VecDeque::from([(0, exploration.initial.clone())]);
    let mut transitions = 0;
    while let Some((index, state)) = queue.pop_front() {
        if let Err(broken) = exploration.ends_well(&state) {
            panic!("{broken}\n{}", exploration.story(index, None));
        }
        for (action, next) in state.successors() {
            transitions += 1;
            let next =
                next.unwrap_or_else(|broken| panic!("{broken}\n{}", exploration.story(index, Some(action))));
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
            let next =
                state.round().map_err(|broken| format!("on the way to the end: {broken}: {state:?}"))?;
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
            let _ =
                writeln!(story, "{action:?} {}", plan.map(|write| format!("{write:?}")).unwrap_or_default());
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

/// Explores all that people may do within their budgets. A search that finds suspiciously few states has not searched.
fn explore_all(rolling_update: bool, floor: u8, people: People, at_least: usize) {
    explore_from(State::new(rolling_update, floor, people), at_least);
}

fn explore_from(initial: State, at_least: usize) {
    let people = initial.people;
    let explored = explore(initial, LIMIT);
    println!("{people:?}: {} states, {} transitions", explored.states, explored.transitions);
    assert!(explored.states < LIMIT, "not all states were looked at");
    assert!(explored.states >= at_least, "only {} states", explored.states);
}

/// What nobody does.
const NOTHING: People = People {
    creates: 0,
    deletes: 0,
    ups: 0,
    downs: 0,
    kills: 0,
    templates: 0,
    pauses: 0,
    lifts: 0,
    vanishes: 0,
    adopts: 0,
    releases: 0,
    removals: 0,
    blocks: 0,
    behind: 0,
};

#[test]
fn claims_come_and_go() {
    explore_all(true, 1, People { creates: 2, deletes: 2, ..NOTHING }, 15_000);
}

#[test]
fn somebody_scales_up_and_down() {
    explore_all(true, 1, People { creates: 1, deletes: 1, ups: 1, downs: 1, ..NOTHING }, 20_000);
}

#[test]
fn somebody_scales_down_and_deletes_a_machine() {
    explore_all(true, 1, People { creates: 1, deletes: 1, downs: 1, kills: 1, ..NOTHING }, 20_000);
}

#[test]
fn somebody_deletes_a_machine_while_two_claims_come_and_one_goes() {
    explore_all(false, 0, People { creates: 2, deletes: 1, kills: 1, ..NOTHING }, 20_000);
}

#[test]
fn somebody_pauses() {
    explore_all(true, 1, People { creates: 1, deletes: 1, pauses: 1, downs: 1, ..NOTHING }, 10_000);
}

#[test]
fn revisions_stand_side_by_side() {
    explore_all(false, 1, People { creates: 2, deletes: 2, templates: 1, ..NOTHING }, 50_000);
}

#[test]
fn revisions_stand_side_by_side_and_somebody_lifts_our_pause() {
    explore_all(
        false,
        1,
        People { creates: 1, deletes: 1, templates: 1, lifts: 1, kills: 1, ..NOTHING },
        10_000,
    );
}

#[test]
fn cluster_api_rolls_out() {
    explore_all(true, 1, People { creates: 1, deletes: 1, templates: 1, ..NOTHING }, 40_000);
}

#[test]
fn machines_can_not_be_made_for_a_while() {
    explore_all(true, 1, People { creates: 1, deletes: 1, blocks: 1, ups: 1, ..NOTHING }, 1_000);
    explore_all(false, 1, People { creates: 1, blocks: 1, templates: 1, ..NOTHING }, 500);
}

#[test]
fn machines_are_adopted_and_released() {
    explore_all(true, 1, People { adopts: 1, releases: 1, kills: 1, downs: 1, ..NOTHING }, 5_000);
    explore_all(true, 1, People { adopts: 1, releases: 1, templates: 1, ..NOTHING }, 5_000);
}

#[test]
fn claims_vanish_and_the_machine_deployment_is_deleted() {
    explore_all(true, 1, People { creates: 1, vanishes: 1, kills: 1, ..NOTHING }, 1_000);
    explore_all(false, 1, People { creates: 2, vanishes: 1, ..NOTHING }, 1_000);
    explore_all(true, 1, People { creates: 1, deletes: 1, removals: 1, kills: 1, ..NOTHING }, 5_000);
}

#[test]
fn hypershift_passes_the_number_on() {
    let hosted = |rolling_update, people| State { hosted: true, ..State::new(rolling_update, 1, people) };
    explore_from(hosted(true, People { creates: 2, deletes: 2, ..NOTHING }), 15_000);
    explore_from(hosted(true, People { creates: 1, deletes: 1, downs: 1, kills: 1, ..NOTHING }), 15_000);
    explore_from(hosted(true, People { creates: 1, deletes: 1, behind: 1, ups: 1, ..NOTHING }), 10_000);
    explore_from(hosted(true, People { creates: 1, deletes: 1, templates: 1, ..NOTHING }), 20_000);
    explore_from(hosted(false, People { creates: 1, deletes: 1, kills: 1, ..NOTHING }), 3_000);
}

/// `EXPLORE="floor=1,creates=2,kills=1,templates=1"` looks further: `on_delete=1` for that strategy, `limit=1000000` for a search that
/// isn't complete.
#[test]
fn whatever_is_asked_for() {
    let Ok(text) = std::env::var("EXPLORE") else {
        return;
    };
    let mut people = NOTHING;
    let (mut rolling, mut hosted, mut floor, mut limit) = (true, false, 0, usize::MAX);
    for part in text.split(',') {
        let (key, value) = part.split_once('=').unwrap();
        let number: usize = value.parse().unwrap();
        let value = u8::try_from(number).unwrap_or(u8::MAX);
        match key {
            "on_delete" => rolling = value == 0,
            "floor" => floor = value,
            "limit" => limit = number,
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
            "blocks" => people.blocks = value,
            "behind" => people.behind = value,
            "hosted" => hosted = value > 0,
            other => panic!("{other} is nothing that people do"),
        }
    }
    let explored = explore(State { hosted, ..State::new(rolling, floor, people) }, limit);
    println!("{text}: {} states, {} transitions", explored.states, explored.transitions);
}
