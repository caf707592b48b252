//! `karpenter-capi-manager`: the operator as a process.
//!
//! Flags, clients, leader election, health, metrics, starting and ending the controllers. It decides nothing about nodes, and it
//! never reads or writes an object of Karpenter or Cluster API itself, apart from asking whether they are there.

mod clients;
#[cfg(feature = "crash-points")]
mod crash;
mod election;
mod fence;
mod logging;
mod metrics;
mod options;
mod preflight;
mod reload;
mod run;
mod serve;
mod session;
mod supervisor;

use std::process::ExitCode;

use options::Options;

fn main() -> ExitCode {
    let options = match Options::from_arguments(std::env::args_os()) {
        Ok(options) => options,
        Err(error) => {
            // Help and version go to standard output and end with 0, a wrong flag ends with 2. Nobody can be told if this fails.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    if let Err(error) = logging::start(&options.logging) {
        eprintln!("error: {error:#}");
        return ExitCode::from(2);
    }
    match start(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(options: &Options) -> anyhow::Result<()> {
    // One cryptography library for everything that talks TLS. It fails only where one is installed already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(run::run(options));
    // A thread that is stuck in a computation must not keep the process alive.
    runtime.shutdown_background();
    result
}
