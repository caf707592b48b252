//! What goes wrong between deciding and having it done; the class alone says what happens next.

use std::time::Duration;

/// An error of a reconcile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request to an API server failed.
    #[error("could not {action}")]
    Request {
        /// What was attempted, with the object: `patch Machine default/m1`.
        action: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// An object can't be turned into what is written.
    #[error("could not write {what} as JSON")]
    Serialize {
        /// The object.
        what: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A task ended by itself.
    #[error("task {0} ended unexpectedly")]
    TaskEnded(String),
}

/// What an error means for the next try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Class {
    /// The object changed meanwhile: look again soon, this is ordinary.
    Conflict,
    /// It may go better later: back off.
    Retry,
    /// The request itself is refused; only a person can change that. Backs off as well, and is told loudly.
    Refused,
}

impl Error {
    /// The class.
    pub fn class(&self) -> Class {
        match self {
            Self::Request { source, .. } => match source.as_ref() {
                kube::Error::Api(status) if status.code == 409 => Class::Conflict,
                kube::Error::Api(status) if matches!(status.code, 400 | 401 | 403 | 405 | 422) => {
                    Class::Refused
                }
                _ => Class::Retry,
            },
            Self::Serialize { .. } => Class::Refused,
            Self::TaskEnded(_) => Class::Retry,
        }
    }

    /// How long to wait after so many failures in a row (the first is 1): doubling from a fifth of a second.
    pub fn backoff(&self, failures: u32) -> Duration {
        let first = Duration::from_millis(200);
        let longest = match self.class() {
            // Somebody writes the object all the time; we only have to be quick once.
            Class::Conflict => Duration::from_secs(5),
            // An API server that comes back is to be noticed within seconds.
            Class::Retry => Duration::from_secs(10),
            Class::Refused => Duration::from_mins(1),
        };
        first.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(longest)
    }
}

/// Adds what was attempted.
pub(crate) trait Attempt<T> {
    /// `action` names verb and object.
    fn attempt(self, action: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Attempt<T> for Result<T, kube::Error> {
    fn attempt(self, action: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::Request { action: action(), source: Box::new(source) })
    }
}

/// Whether the API server says that there is no such object.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// An API server's answer in its own words, without the structure that carries them.
fn brief(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({} {})", status.message, status.code, status.reason),
        other => other.to_string(),
    }
}

/// A watch's error in a few words.
pub(crate) fn of_watch(error: &kube::runtime::watcher::Error) -> String {
    use kube::runtime::watcher::Error as Watch;
    match error {
        Watch::InitialListFailed(source) => format!("list: {}", brief(source)),
        Watch::WatchStartFailed(source) | Watch::WatchFailed(source) => format!("watch: {}", brief(source)),
        Watch::WatchError(status) => format!("watch: {} ({} {})", status.message, status.code, status.reason),
        Watch::NoResourceVersion => error.to_string(),
    }
}

/// Whether an API server asks to come back a little later, as it does for a moment after a CRD was installed.
pub(crate) fn is_passing(error: &kube::runtime::watcher::Error) -> bool {
    use kube::runtime::watcher::Error as Watch;
    let code = match error {
        Watch::InitialListFailed(kube::Error::Api(status))
        | Watch::WatchStartFailed(kube::Error::Api(status))
        | Watch::WatchFailed(kube::Error::Api(status))
        | Watch::WatchError(status) => status.code,
        _ => 0,
    };
    // 410: the watch begins anew from a list, which is how watches work.
    matches!(code, 410 | 429)
}

/// The error with everything that caused it, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.downcast_ref::<kube::Error>().map_or_else(|| cause.to_string(), brief);
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16) -> Error {
        let status = kube::core::Status { code, ..kube::core::Status::default() };
        Error::Request {
            action: "patch Machine a/b".into(),
            source: Box::new(kube::Error::Api(Box::new(status))),
        }
    }

    #[test]
    fn the_status_code_gives_the_class() {
        let classes = [409, 403, 422, 404, 429, 500].map(|code| refused(code).class());
        assert_eq!(
            classes,
            [Class::Conflict, Class::Refused, Class::Refused, Class::Retry, Class::Retry, Class::Retry]
        );
    }

    #[test]
    fn the_wait_doubles_up_to_a_limit() {
        let error = refused(500);
        let waits: Vec<_> = [1, 2, 3, 20].map(|failures| error.backoff(failures).as_millis()).into();
        assert_eq!(waits, [200, 400, 800, 10_000]);
        assert_eq!(refused(403).backoff(20), Duration::from_mins(1));
        assert_eq!(refused(409).backoff(20), Duration::from_secs(5));
    }
}
