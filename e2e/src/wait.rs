//! Waiting for a state of the world, with a message that tells what was seen last.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How often a probe is repeated.
const POLL: Duration = Duration::from_millis(100);

/// Repeats `probe` until it succeeds. Its errors say what the state is instead; the last of them is in the error after `within`.
///
/// ```text
/// wait::eventually("three Nodes are Ready", Duration::from_secs(60), async || {
///     let ready = ready_nodes(&client).await?;
///     anyhow::ensure!(ready.len() == 3, "{} are Ready: {ready:?}", ready.len());
///     Ok(ready)
/// })
/// .await?;
/// ```
pub async fn eventually<T>(
    what: &str,
    within: Duration,
    mut probe: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let started = Instant::now();
    loop {
        // A probe that hangs must not outlast the deadline by much.
        let rest = within.saturating_sub(started.elapsed()) + Duration::from_secs(5);
        let last = match tokio::time::timeout(rest, probe()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error,
            Err(_) => anyhow::anyhow!("the probe gave no answer"),
        };
        if started.elapsed() >= within {
            bail!("expected within {:.1} s that {what}; last seen: {last:#}", within.as_secs_f64());
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Repeats `probe` for the whole of `during` and fails at its first error.
pub async fn holds(what: &str, during: Duration, mut probe: impl AsyncFnMut() -> Result<()>) -> Result<()> {
    let started = Instant::now();
    while started.elapsed() < during {
        let after = started.elapsed().as_secs_f64();
        probe().await.with_context(|| {
            format!("expected for {:.1} s that {what}; broken after {after:.1} s", during.as_secs_f64())
        })?;
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use anyhow::ensure;

    use super::*;

    #[tokio::test]
    async fn the_message_tells_what_was_awaited_and_what_was_seen_last() {
        let mut calls = 0;
        let result = eventually("there are nine", Duration::from_millis(250), async || {
            calls += 1;
            ensure!(calls > 9, "there are {}", calls.min(2));
            Ok(())
        })
        .await;
        let message = result.unwrap_err().to_string();
        assert_eq!(message, "expected within 0.2 s that there are nine; last seen: there are 2");
    }

    #[tokio::test]
    async fn a_state_that_breaks_early_is_an_error() {
        let mut calls = 0;
        let result = holds("it stays", Duration::from_secs(5), async || {
            calls += 1;
            ensure!(calls < 3, "it went");
            Ok(())
        })
        .await;
        assert!(format!("{:#}", result.unwrap_err()).ends_with("it went"));
    }
}
