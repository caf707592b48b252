//! One copy of the labels that many pods have.

use rustc_hash::FxBuildHasher;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;

type Labels = BTreeMap<String, String>;

/// Label sets that are remembered. Bounded, so that labels that no pod has any more are let go of sooner or later.
const SLOTS: usize = 1024;

thread_local! {
    /// The last label set that was seen for each slot; by thread, so that nobody waits.
    static RECENT: RefCell<Vec<Option<Arc<Labels>>>> = const { RefCell::new(Vec::new()) };
}

/// The same labels, and the same allocation as that of an earlier pod where it is remembered.
pub(super) fn shared(labels: Option<&Labels>) -> Arc<Labels> {
    let none = Labels::new();
    let labels = labels.unwrap_or(&none);
    RECENT.with_borrow_mut(|recent| {
        recent.resize(SLOTS, None);
        let slot = usize::try_from(FxBuildHasher.hash_one(labels)).unwrap_or_default() % SLOTS;
        let Some(slot) = recent.get_mut(slot) else {
            return Arc::new(labels.clone());
        };
        match slot {
            Some(known) if **known == *labels => Arc::clone(known),
            _ => Arc::clone(slot.insert(Arc::new(labels.clone()))),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(number: usize) -> Labels {
        [("app".to_owned(), format!("a{number}")), ("tier".to_owned(), "web".to_owned())].into()
    }

    #[test]
    fn equal_labels_are_one_allocation() {
        let (first, second) = (shared(Some(&labels(1))), shared(Some(&labels(1))));
        assert!(Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&shared(None), &shared(Some(&Labels::new()))));
    }

    #[test]
    fn labels_that_fall_on_the_same_slot_are_not_mixed_up() {
        for _ in 0..2 {
            for number in 0..3 * SLOTS {
                assert_eq!(*shared(Some(&labels(number))), labels(number));
            }
        }
    }
}
