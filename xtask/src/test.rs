//! `cargo xtask test`: every check of the project in stages, a line when a stage starts and one when it ends.

mod examples;
mod log;
mod prerequisites;
mod purity;
mod stage;
mod tally;

use std::fs;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;

use self::log::Log;
use self::stage::{STAGES, Stage};
use self::tally::Tally;
use crate::workspace::Workspace;

/// Lines of a failed stage's log that the console shows; in CI, where the log file is lost, many more.
const TAIL_LINES: usize = 200;
const TAIL_LINES_IN_CI: usize = 4000;

#[derive(Args)]
pub(crate) struct Options {
    /// Run all stages, also after one that failed, and all tests of a stage.
    #[arg(long)]
    keep_going: bool,
    /// Run only these stages, in their usual order.
    #[arg(long, value_name = "STAGE", value_delimiter = ',', value_parser = stage::find)]
    only: Vec<&'static Stage>,
    /// Print the stages and what each does.
    #[arg(long)]
    list: bool,
    /// Show the output of the stages as it comes.
    #[arg(short, long)]
    verbose: bool,
    /// How many end-to-end tests run at once; each keeps a core or more busy.
    #[arg(long, default_value_t = 2, env = "KARPENTER_CAPI_E2E_THREADS", value_name = "N")]
    e2e_threads: u16,
}

impl Options {
    fn selects(&self, stage: &Stage) -> bool {
        self.only.is_empty() || self.only.iter().any(|chosen| chosen.name == stage.name)
    }
}

struct Outcome {
    stage: &'static Stage,
    result: StageResult,
    took: Duration,
    tally: Tally,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StageResult {
    Ok,
    Failed,
    NotRun,
}

impl StageResult {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "FAILED",
            Self::NotRun => "not run",
        }
    }
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    if options.list {
        for stage in &STAGES {
            println!("{:<14} {}", stage.name, stage.summary);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let logs = workspace.target.join("xtask/logs");
    fs::create_dir_all(&logs).with_context(|| format!("creating {}", logs.display()))?;

    let mut outcomes = Vec::new();
    let mut stopped = false;
    for stage in STAGES.iter().filter(|stage| options.selects(stage)) {
        let outcome = if stopped {
            Outcome { stage, result: StageResult::NotRun, took: Duration::ZERO, tally: Tally::default() }
        } else {
            let log = Log::create(stage.name, logs.join(format!("{}.log", stage.name)), options.verbose)?;
            run_stage(workspace, options, stage, log)?
        };
        stopped |= outcome.result == StageResult::Failed && !options.keep_going;
        outcomes.push(outcome);
    }
    say(&closing(&outcomes));
    let all_ok = outcomes.iter().all(|outcome| outcome.result == StageResult::Ok);
    Ok(if all_ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_stage(
    workspace: &Workspace,
    options: &Options,
    stage: &'static Stage,
    mut log: Log,
) -> Result<Outcome> {
    say(&format!("==> {:<14} {}", stage.name, stage.summary));
    let started = Instant::now();
    let mut result = (stage.run)(workspace, options, &mut log);
    let took = started.elapsed();
    let tally = Tally::of(&log.text()?);
    if result.is_ok() && stage.has_tests && tally.executed() == 0 {
        result = Err(anyhow::anyhow!("no test was executed"));
    }
    if let Err(error) = &result {
        let lines = if std::env::var_os("CI").is_some() { TAIL_LINES_IN_CI } else { TAIL_LINES };
        say(&log.tail(lines)?);
        say(&format!("    {}: {error:#}", stage.name));
        say(&format!("    the whole log: {}", log.path().display()));
    }
    let result = if result.is_ok() { StageResult::Ok } else { StageResult::Failed };
    say(&format!("<== {:<14} {} in {:.1} s", stage.name, result.word(), took.as_secs_f64()));
    Ok(Outcome { stage, result, took, tally })
}

/// Tells the console; that nobody listens any more (`cargo xtask test | head`) is no reason to leave a stage half done.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// The table of stages and, last and alone on its line, the count that test reports are read by.
fn closing(outcomes: &[Outcome]) -> String {
    let row = |name: &str, word: &str, took: Duration, tally: Tally| {
        let tests = if tally.executed() == 0 { String::new() } else { tally.executed().to_string() };
        format!("{name:<14} {word:>8} {:>9.1} {tests:>7}", took.as_secs_f64()).trim_end().to_owned()
    };
    let mut lines =
        vec![String::new(), format!("{:<14} {:>8} {:>9} {:>7}", "stage", "result", "seconds", "tests")];
    let (mut took, mut tally) = (Duration::ZERO, Tally::default());
    for outcome in outcomes {
        lines.push(row(outcome.stage.name, outcome.result.word(), outcome.took, outcome.tally));
        took += outcome.took;
        tally += outcome.tally;
    }
    lines.push(row("total", "", took, tally));
    lines.extend([String::new(), tally.to_string()]);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_sums_the_tests_of_all_stages_and_stands_alone() {
        let outcome = |stage, result, passed, failed| Outcome {
            stage,
            result,
            took: Duration::from_millis(1500),
            tally: Tally { passed, failed, skipped: 0 },
        };
        let outcomes = [
            outcome(&STAGES[0], StageResult::Ok, 0, 0),
            outcome(&STAGES[1], StageResult::Failed, 30, 2),
            outcome(&STAGES[2], StageResult::Ok, 10, 0),
            outcome(&STAGES[3], StageResult::NotRun, 0, 0),
        ];
        let text = closing(&outcomes);
        assert_eq!(text.lines().last(), Some("40 passed, 2 failed"), "{text}");
        assert!(text.contains("FAILED"), "{text}");
        assert!(text.contains("not run"), "{text}");
        assert!(text.lines().any(|line| line.starts_with("total") && line.contains("6.0")), "{text}");
    }
}
