//! Lines on standard output: a table that is redrawn in place on a terminal, and one line after the other elsewhere.

use std::env;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::time::Duration;

use super::picture::Picture;
use super::render::{self, History};

/// Size of a terminal that doesn't tell its own: columns and rows.
const USUAL: (usize, usize) = (100, 40);

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Style {
    /// As the terminal does it.
    #[default]
    Plain,
    /// What matters most.
    Bold,
    /// What is read second.
    Faint,
}

/// A line of text with one look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    text: String,
    style: Style,
}

impl Line {
    pub(super) fn empty() -> Self {
        Self::default()
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::styled(Style::Plain, text)
    }

    pub(super) fn styled(style: Style, text: impl Into<String>) -> Self {
        Self { text: text.into(), style }
    }

    /// The text without its look.
    pub fn content(&self) -> &str {
        &self.text
    }

    /// The same with the time before it.
    pub(super) fn at(mut self, elapsed: Duration) -> Self {
        self.text = format!("{}  {}", render::clock(elapsed), self.text);
        self
    }

    /// The same in at most that many columns.
    pub(super) fn clipped(mut self, width: usize) -> Self {
        if self.text.chars().count() > width {
            self.text = self.text.chars().take(width.saturating_sub(1)).collect();
            self.text.push('…');
        }
        self
    }

    fn painted(&self, colours: bool) -> String {
        match self.style {
            Style::Bold if colours => format!("\x1b[1m{}\x1b[0m", self.text),
            Style::Faint if colours => format!("\x1b[2m{}\x1b[0m", self.text),
            Style::Plain | Style::Bold | Style::Faint => self.text.clone(),
        }
    }
}

/// Standard output.
pub(super) struct Screen {
    terminal: bool,
    colours: bool,
    /// Lines of the table that stand on the terminal now, with the cursor below the last.
    drawn: usize,
    /// The flow that was printed last where nothing is redrawn.
    last_flow: String,
}

impl Screen {
    pub(super) fn on_stdout(plain: bool) -> Self {
        let dumb = env::var("TERM").is_ok_and(|term| term == "dumb");
        let terminal = io::stdout().is_terminal() && !plain && !dumb;
        let no_colour = env::var("NO_COLOR").is_ok_and(|value| !value.is_empty());
        Self { terminal, colours: terminal && !no_colour, drawn: 0, last_flow: String::new() }
    }

    /// Prints a line that stays.
    pub(super) fn say(&mut self, line: &Line) {
        let mut text = self.rewind();
        let _ = writeln!(text, "{}", line.painted(self.colours));
        self.drawn = 0;
        put(&text);
    }

    /// Shows a picture: draws the table anew, or prints what is new in it.
    pub(super) fn show(&mut self, picture: &Picture, history: &History, news: &[String], elapsed: Duration) {
        if self.terminal {
            self.draw(picture, history, elapsed);
            return;
        }
        for text in news {
            self.say(&Line::text(text.clone()).at(elapsed));
        }
        let flow = render::flow(picture);
        if flow != self.last_flow {
            self.say(&Line::text(flow.clone()).at(elapsed));
            self.last_flow = flow;
        }
    }

    fn draw(&mut self, picture: &Picture, history: &History, elapsed: Duration) {
        let (columns, rows) = size();
        let mut lines = render::frame(picture, history, elapsed, columns);
        // What is higher than the terminal can't be redrawn.
        lines.truncate(rows.saturating_sub(1));
        let mut text = self.rewind();
        for line in &lines {
            let _ = writeln!(text, "{}", line.painted(self.colours));
        }
        self.drawn = lines.len();
        put(&text);
    }

    /// Puts the cursor to the beginning of the table and wipes it.
    fn rewind(&self) -> String {
        match self.drawn {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\r\x1b[J"),
        }
    }
}

/// One write, so that no half of a table is seen. A reader that has gone away is no reason to stop.
fn put(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}

/// Columns and rows of the terminal.
fn size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => USUAL,
    }
}
