//! Where log lines go and how they look.

use std::io::{self, IsTerminal};

use anyhow::Context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::{BoxMakeWriter, MakeWriterExt};

use crate::options::{LogFormat, LogLevel, LogOutput, LogOutputs, LoggingOptions};

/// Starts logging; a `RUST_LOG` that can't be read is an error.
pub(crate) fn start(options: &LoggingOptions) -> anyhow::Result<()> {
    let refinement = std::env::var("RUST_LOG").unwrap_or_default();
    let filter = filter(options.level, &refinement)?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer(&options.outputs))
        .with_ansi(is_for_a_terminal(&options.outputs));
    match options.format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).with_current_span(false).init(),
    }
    Ok(())
}

/// Ours at `level`; libraries no lower than `info`, for their debug lines are about every request. The client's own line about
/// each failed request is left out, since whoever asked tells of it with its object.
fn filter(level: LogLevel, refinement: &str) -> anyhow::Result<EnvFilter> {
    let base = match level {
        LogLevel::Debug => "info,karpenter_capi=debug,kube_client=warn",
        LogLevel::Info => "info,kube_client::client::builder=off",
        LogLevel::Warn => "warn,kube_client::client::builder=off",
        LogLevel::Error => "error,kube_client::client::builder=off",
    };
    EnvFilter::builder().parse(format!("{base},{refinement}")).with_context(|| {
        format!("RUST_LOG={refinement:?} can't be read; write it like karpenter_capi_manager=debug,kube=info")
    })
}

fn writer(LogOutputs(outputs): &LogOutputs) -> BoxMakeWriter {
    let stdout = outputs.contains(&LogOutput::Stdout);
    let stderr = outputs.contains(&LogOutput::Stderr);
    match (stdout, stderr) {
        (true, true) => BoxMakeWriter::new(io::stdout.and(io::stderr)),
        (false, true) => BoxMakeWriter::new(io::stderr),
        (_, false) => BoxMakeWriter::new(io::stdout),
    }
}

fn is_for_a_terminal(LogOutputs(outputs): &LogOutputs) -> bool {
    outputs.iter().all(|output| match output {
        LogOutput::Stdout => io::stdout().is_terminal(),
        LogOutput::Stderr => io::stderr().is_terminal(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refinement_is_stronger_than_the_level() {
        let text = filter(LogLevel::Info, "karpenter_capi_manager=trace").unwrap().to_string();
        assert!(text.contains("karpenter_capi_manager=trace"), "{text}");
        assert!(text.contains("info"), "{text}");
    }

    #[test]
    fn a_refinement_that_cannot_be_read_is_named() {
        let error = filter(LogLevel::Info, "karpenter=loud").unwrap_err().to_string();
        assert!(error.contains("RUST_LOG") && error.contains("karpenter=loud"), "{error}");
    }

    #[test]
    fn debug_lines_are_of_ours_only() {
        let text = filter(LogLevel::Debug, "").unwrap().to_string();
        assert!(text.contains("karpenter_capi=debug") && !text.contains("kube_client=debug"), "{text}");
    }
}
