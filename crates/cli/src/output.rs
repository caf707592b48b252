//! Formats that every command offers.

use clap::ValueEnum;
use serde::Serialize;

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For scripts.
    Json,
    /// For scripts and people.
    Yaml,
}

/// The answer in that format, with a line's end; `table` makes the one for people.
pub(crate) fn render<T: Serialize>(
    format: Format,
    answer: &T,
    table: impl FnOnce() -> String,
) -> anyhow::Result<String> {
    Ok(match format {
        Format::Table => table(),
        Format::Json => serde_json::to_string_pretty(answer)? + "\n",
        Format::Yaml => serde_saphyr::to_string(answer)?,
    })
}

/// `1 pod`, `2 pods`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
