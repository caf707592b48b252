//! When to look at pending pods: a window that ends when no new pod has come for a while, or after a longest time.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Collects what asks for a pass.
#[derive(Debug, Default)]
pub(crate) struct Trigger {
    pending: Mutex<Pending>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    /// Pods of this window and when they were first seen in it: asking again for one of them doesn't lengthen it.
    pods: HashMap<String, Instant>,
    anything: bool,
    /// A pass is due then even if nobody asks.
    due: Option<Instant>,
}

impl Trigger {
    /// A pod wants a place.
    pub(crate) fn pod(&self, uid: &str) {
        let mut pending = self.pending.lock();
        if !pending.pods.contains_key(uid) {
            pending.pods.insert(uid.to_owned(), Instant::now());
            self.changed.notify_one();
        }
    }

    /// Something changed that may help pods which are pending already.
    pub(crate) fn anything(&self) {
        let first = !std::mem::replace(&mut self.pending.lock().anything, true);
        if first {
            self.changed.notify_one();
        }
    }

    /// A pass is due after this long at the latest.
    pub(crate) fn anything_after(&self, wait: Duration) {
        let due = Instant::now() + wait;
        let mut pending = self.pending.lock();
        pending.due = Some(pending.due.map_or(due, |other| other.min(due)));
    }

    /// Waits for a reason to look, then for the end of the window; what has come is taken, and its pods are returned with the time
    /// at which they were seen.
    pub(crate) async fn batch(&self, idle: Duration, longest: Duration) -> HashMap<String, Instant> {
        self.reason().await;
        let started = Instant::now();
        loop {
            let left = longest.saturating_sub(started.elapsed());
            tokio::select! {
                () = tokio::time::sleep(idle.min(left)) => break,
                () = self.changed.notified(), if left > idle => {}
            }
        }
        std::mem::take(&mut *self.pending.lock()).pods
    }

    async fn reason(&self) {
        loop {
            let due = {
                let pending = self.pending.lock();
                if pending.anything || !pending.pods.is_empty() {
                    return;
                }
                pending.due
            };
            match due {
                None => self.changed.notified().await,
                Some(due) => tokio::select! {
                    () = tokio::time::sleep_until(due) => return,
                    () = self.changed.notified() => {}
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const IDLE: Duration = Duration::from_secs(1);
    const LONGEST: Duration = Duration::from_secs(10);

    async fn window(trigger: Arc<Trigger>) -> Duration {
        let started = Instant::now();
        trigger.batch(IDLE, LONGEST).await;
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn the_window_ends_one_second_after_the_last_new_pod() {
        let trigger = Arc::new(Trigger::default());
        let waiting = tokio::spawn(window(Arc::clone(&trigger)));
        for pod in ["a", "b", "c"] {
            tokio::time::sleep(Duration::from_millis(600)).await;
            trigger.pod(pod);
        }
        assert_eq!(waiting.await.unwrap(), Duration::from_millis(3 * 600 + 1000));
    }

    #[tokio::test(start_paused = true)]
    async fn a_known_pod_does_not_lengthen_the_window() {
        let trigger = Arc::new(Trigger::default());
        trigger.pod("a");
        let waiting = tokio::spawn(window(Arc::clone(&trigger)));
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(150)).await;
            trigger.pod("a");
        }
        assert_eq!(waiting.await.unwrap(), IDLE);
    }

    #[tokio::test(start_paused = true)]
    async fn endless_pods_end_the_window_after_ten_seconds() {
        let trigger = Arc::new(Trigger::default());
        let waiting = tokio::spawn(window(Arc::clone(&trigger)));
        let feeding = tokio::spawn(async move {
            for pod in 0..100 {
                trigger.pod(&pod.to_string());
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
        let took = waiting.await.unwrap();
        assert!(took >= LONGEST && took < LONGEST + IDLE, "{took:?}");
        feeding.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_pass_that_is_due_comes_by_itself() {
        let trigger = Arc::new(Trigger::default());
        trigger.anything_after(Duration::from_secs(10));
        assert_eq!(window(trigger).await, Duration::from_secs(11));
    }
}
