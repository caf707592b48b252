//! `cargo xtask bench scheduling`: how long a solve takes and what it costs, beside upstream's on the same documents; and how both
//! time and memory grow.
//!
//! [bench/README.md](../../README.md) says what each figure means.
#![expect(clippy::print_stdout, reason = "a command line tool: its report goes to standard output")]

mod documents;
mod generator;
mod growth;
mod measure;
mod ours;
mod peer;
mod report;
mod table;

use anyhow::{Context, Result};
use cap::Cap;
use clap::{Parser, ValueEnum};
use documents::Document;
use peer::Peer;
use report::{Compared, Report};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::path::PathBuf;
use std::process::ExitCode;

/// Counts allocations and knows the largest heap: `stats_alloc` does the one, `cap` the other.
#[global_allocator]
static HEAP: Cap<&StatsAlloc<System>> = Cap::new(&INSTRUMENTED_SYSTEM, usize::MAX);

/// Measures solves: of documents beside upstream's solver, and of growing clusters.
#[derive(Parser)]
#[command(name = "cargo xtask bench scheduling", max_term_width = 120)]
struct Options {
    /// Only documents whose names begin with one of these, up to a hyphen or the end; `--list` names them
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    documents: Vec<String>,
    /// Name the documents and end
    #[arg(long)]
    list: bool,
    /// Runs of each document by our solver
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Runs of each document by upstream's solver; one where it is slow
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    peer_runs: u32,
    /// Which documents upstream's solver is given, too
    #[arg(long, value_enum, default_value_t = PeerDocuments::All)]
    peer: PeerDocuments,
    /// Leave growing clusters out
    #[arg(long)]
    no_growth: bool,
    /// Most pods in growing clusters
    #[arg(long, default_value_t = 100_000)]
    most_pods: usize,
    /// The report on standard output
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Write the report as JSON to this file, too
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PeerDocuments {
    /// All of them.
    All,
    /// Those that it doesn't need half a minute or more for.
    Quick,
    /// None: neither Go nor the module cache is needed.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Markdown, for people.
    Table,
    /// For programs.
    Json,
}

impl Options {
    /// `diverse` means all of them, `diverse-500` not `diverse-5000`.
    fn wants(&self, name: &str) -> bool {
        let begins = |part: &String| {
            name.strip_prefix(part.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.documents.is_empty() || self.documents.iter().any(begins)
    }
}

fn main() -> ExitCode {
    match bench(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(options: &Options) -> Result<()> {
    let mut documents = documents::all()?;
    if options.list {
        for document in &documents {
            println!("{}", document.name);
        }
        return Ok(());
    }
    documents.retain(|document| options.wants(&document.name));
    let peer = if options.peer == PeerDocuments::None || documents.is_empty() {
        None
    } else {
        Some(Peer::ensure()?)
    };
    let compared = documents.iter().map(|document| compare(document, peer.as_ref(), options));
    let compared = compared.collect::<Result<_>>()?;
    let growth = if options.no_growth { Vec::new() } else { growth::measure(options.most_pods)? };
    tell(&Report { compared, growth }, options)
}

fn compare(document: &Document, peer: Option<&Peer>, options: &Options) -> Result<Compared> {
    let name = &document.name;
    eprintln!("{name}: our solver");
    let ours = ours::measure(&document.value, options.runs).with_context(|| format!("document {name}"))?;
    let peer = peer.filter(|_| options.peer == PeerDocuments::All || !document.slow_for_peer);
    if peer.is_some() {
        eprintln!("{name}: upstream's solver");
    }
    let runs = if document.slow_for_peer { 1 } else { options.peer_runs };
    let theirs = peer.map(|peer| peer.measure(&document.value, runs)).transpose()?;
    Ok(Compared { document: name.clone(), ours, theirs })
}

fn tell(report: &Report, options: &Options) -> Result<()> {
    let json = serde_json::to_string_pretty(report).context("writing the report as JSON")?;
    if let Some(file) = &options.report {
        std::fs::write(file, format!("{json}\n")).with_context(|| format!("writing {}", file.display()))?;
    }
    match options.output {
        Output::Table => println!("{}", table::render(report)),
        Output::Json => println!("{json}"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_document_means_it_alone_and_a_part_means_all_that_begin_so() {
        let options = Options::parse_from(["bench", "--documents", "diverse-500,mixed", "--peer", "quick"]);
        let wanted = ["diverse-500", "diverse-5000", "mixed-500", "mixed-5000", "preference-ignore-4000"]
            .map(|name| options.wants(name));
        assert_eq!(wanted, [true, false, true, true, false]);
    }
}
