//! Columns that fit a width.

use crate::demo::screen::{Line, Style};

/// Blanks between two columns.
const GAP: usize = 2;

/// A column's head and how it is set.
pub(super) struct Column {
    head: &'static str,
    right: bool,
    always: bool,
}

impl Column {
    /// Text.
    pub(super) fn left(head: &'static str) -> Self {
        Self { head, right: false, always: false }
    }

    /// Numbers.
    pub(super) fn right(head: &'static str) -> Self {
        Self { head, right: true, always: false }
    }

    /// Stays on a narrow terminal.
    pub(super) fn always(mut self) -> Self {
        self.always = true;
        self
    }
}

/// Head and rows. Where the width doesn't suffice, columns that needn't be there go, the last of them first.
pub(super) fn table(columns: &[Column], rows: &[Vec<String>], width: usize) -> Vec<Line> {
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(index, column)| {
            let cells = rows.iter().filter_map(|row| row.get(index)).map(|cell| length(cell));
            cells.chain([length(column.head)]).max().unwrap_or_default()
        })
        .collect();
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let total = |shown: &[usize]| {
        let cells: usize = shown.iter().filter_map(|index| widths.get(*index)).sum();
        cells + GAP * shown.len().saturating_sub(1)
    };
    while total(&shown) > width {
        let dispensable = |index: &usize| columns.get(*index).is_some_and(|column| !column.always);
        let Some(position) = shown.iter().rposition(dispensable) else {
            break;
        };
        shown.remove(position);
    }
    let heads: Vec<String> = columns.iter().map(|column| column.head.to_owned()).collect();
    let line = |cells: &[String]| {
        let cells: Vec<String> = shown
            .iter()
            .filter_map(|index| Some((columns.get(*index)?, cells.get(*index)?, *widths.get(*index)?)))
            .map(|(column, cell, width)| padded(cell, width, column.right))
            .collect();
        cells.join(&" ".repeat(GAP)).trim_end().to_owned()
    };
    let mut lines = vec![Line::styled(Style::Faint, line(&heads))];
    lines.extend(rows.iter().map(|row| Line::text(line(row))));
    lines
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn padded(cell: &str, width: usize, right: bool) -> String {
    let blanks = " ".repeat(width.saturating_sub(length(cell)));
    if right { format!("{blanks}{cell}") } else { format!("{cell}{blanks}") }
}
