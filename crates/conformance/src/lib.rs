//! Whether plans are as good as those that upstream Karpenter made of the same clusters. A tool of developers: no product crate
//! depends on it.
//!
//! * [`document`]: a cluster and what is to be scheduled in it, as one JSON document, to the input of `solve`.
//! * [`answer`]: what was recorded for it, and what a plan says in the same words.
//! * [`verdict`]: equal, better, listed or worse.
//! * [`listed`]: the answers that may differ, and why ours is right.
//! * [`case`]: documents with their answers from a folder or an archive, judged one by one.

pub mod answer;
pub mod case;
pub mod document;
mod explain;
pub mod listed;
pub mod recorded;
pub mod verdict;

#[cfg(test)]
mod tests;
