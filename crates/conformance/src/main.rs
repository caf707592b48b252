//! `cargo xtask vectors DIR`: judges every document of a folder.
#![expect(clippy::print_stdout, reason = "a command line tool: its report goes to standard output")]

use anyhow::{Context, Result, bail};
use clap::Parser;
use karpenter_capi_conformance::case::{Case, folder};
use karpenter_capi_conformance::listed::List;
use karpenter_capi_conformance::verdict::Verdict;
use std::path::PathBuf;
use std::process::ExitCode;

/// Nothing could be judged.
const NOT_EVALUATED: u8 = 2;

/// Solves every document of a folder and compares with the answer that is recorded beside it.
#[derive(Parser)]
#[command(name = "cargo xtask vectors", max_term_width = 120)]
struct Options {
    /// Folder of `x.in.json` and `x.out.json`
    folder: PathBuf,
    /// Only documents whose names contain this
    #[arg(long)]
    only: Option<String>,
    /// For each document that is worse, tell what differs
    #[arg(long, short)]
    verbose: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<ExitCode> {
    let mut cases = folder(&options.folder).context("reading the documents")?;
    let wanted = options.only.as_deref().unwrap_or_default();
    cases.retain(|case| case.name.contains(wanted));
    if cases.is_empty() {
        bail!("no document `*.in.json` in {}", options.folder.display());
    }
    let (disrupt, solve): (Vec<Case>, Vec<Case>) = cases.into_iter().partition(Case::is_of_disruption);
    if !disrupt.is_empty() {
        println!("{} documents about disruption: not evaluated by this version", disrupt.len());
        if solve.is_empty() {
            return Ok(ExitCode::from(NOT_EVALUATED));
        }
    }
    judge(&solve, options.verbose)
}

fn judge(cases: &[Case], verbose: bool) -> Result<ExitCode> {
    let mut list = List::kept().context("reading the list of wrong answers")?;
    let (mut equal, mut better, mut listed, mut worse) = (0, 0, 0, 0);
    for case in cases {
        let judged = case.judge(&mut list);
        let count = match judged.verdict {
            Verdict::Equal => &mut equal,
            Verdict::Better(_) => &mut better,
            Verdict::Listed(_) => &mut listed,
            Verdict::Worse(_) => &mut worse,
        };
        *count += 1;
        if judged.verdict != Verdict::Equal {
            println!("{} {}: {}", judged.name, judged.verdict.word(), judged.verdict.words());
        }
        if verbose && matches!(judged.verdict, Verdict::Worse(_)) {
            println!("{}", judged.explanation);
        }
    }
    let needless: Vec<&str> = list.needless().map(|entry| entry.document.as_str()).collect();
    if !needless.is_empty() {
        println!("listed without need, remove: {}", needless.join(" "));
    }
    println!("{equal} equal, {better} better, {listed} listed, {worse} worse");
    Ok(if worse == 0 && needless.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
