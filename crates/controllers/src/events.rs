//! Kubernetes Events, each at most once in a while.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use parking_lot::Mutex;
use std::collections::HashMap;

/// The same event about the same object is told again after this long, as upstream does it.
const AGAIN_AFTER: SignedDuration = SignedDuration::from_secs(120);
/// Beyond this many the old ones are forgotten.
const REMEMBERED: usize = 10_000;

/// Tells people what happens to an object, in that object's cluster.
pub(crate) struct Events {
    recorder: Recorder,
    told: Mutex<HashMap<(String, String, String), Timestamp>>,
}

impl Events {
    pub(crate) fn new(client: kube::Client) -> Self {
        let reporter = Reporter { controller: "karpenter-capi".to_owned(), instance: None };
        Self { recorder: Recorder::new(client, reporter), told: Mutex::default() }
    }

    /// Something ordinary.
    pub(crate) async fn normal(&self, about: &ObjectReference, reason: &str, message: String) {
        self.publish(about, EventType::Normal, reason, message).await;
    }

    /// Something that a person may have to look at.
    pub(crate) async fn warning(&self, about: &ObjectReference, reason: &str, message: String) {
        self.publish(about, EventType::Warning, reason, message).await;
    }

    async fn publish(&self, about: &ObjectReference, type_: EventType, reason: &str, message: String) {
        if !self.is_news(about, reason, &message, Timestamp::now()) {
            return;
        }
        // The API server takes at most 1,024 bytes.
        let note: String = message.chars().take(1000).collect();
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note),
            action: reason.to_owned(),
            secondary: None,
        };
        // An event is a courtesy: nothing is held up or undone because it can't be told.
        if let Err(error) = self.recorder.publish(&event, about).await {
            tracing::debug!(reason, error = %crate::error::chain(&error), "event not published");
        }
    }

    fn is_news(&self, about: &ObjectReference, reason: &str, message: &str, now: Timestamp) -> bool {
        let object = format!(
            "{}/{}/{}",
            about.kind.as_deref().unwrap_or_default(),
            about.namespace.as_deref().unwrap_or_default(),
            about.name.as_deref().unwrap_or_default()
        );
        let mut told = self.told.lock();
        if told.len() > REMEMBERED {
            told.retain(|_, at| now.duration_since(*at) < AGAIN_AFTER);
        }
        let key = (object, reason.to_owned(), message.to_owned());
        if told.get(&key).is_some_and(|at| now.duration_since(*at) < AGAIN_AFTER) {
            return false;
        }
        told.insert(key, now);
        true
    }
}
