//! The result of a measurement: tables and charts, independent of the measured values.

use std::fmt::Write as _;

use crate::chart::Chart;

/// One line of a table that has a promise beside each figure.
pub struct Row {
    /// The measured quantity.
    pub what: String,
    pub found: String,
    /// The promise; empty without one.
    pub bar: &'static str,
}

/// Columns of text with a title.
pub struct Table {
    /// The title; may be empty.
    pub title: String,
    /// The heads of the columns.
    pub columns: Vec<&'static str>,
    /// The lines, each with one cell per column.
    pub lines: Vec<Vec<String>>,
    /// The notes below the table, one sentence each.
    pub notes: Vec<String>,
}

impl Table {
    /// A table without lines.
    pub fn new(title: impl Into<String>, columns: &[&'static str]) -> Self {
        Table { title: title.into(), columns: columns.to_vec(), lines: Vec::new(), notes: Vec::new() }
    }

    /// Formats the table. Columns are as wide as their widest cell; the first, and those with words, are aligned to the
    /// left.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|n| self.lines.iter().map(|line| line[n].chars().count()).chain([self.columns[n].len()]).max())
            .map(Option::unwrap_or_default)
            .collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| -> String {
            let cells: Vec<String> = cells
                .zip(&widths)
                .enumerate()
                .map(|(n, (cell, &width))| {
                    let figure = n > 0 && cell.starts_with(|c: char| c.is_ascii_digit()) && cell.len() < 16;
                    if figure { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
                })
                .collect();
            cells.join("  ").trim_end().to_owned()
        };
        // Writing to a String cannot fail.
        if !self.title.is_empty() {
            let _ = writeln!(text, "== {}\n", self.title);
        }
        let _ = writeln!(text, "{}", line(&mut self.columns.iter().copied()));
        for cells in &self.lines {
            let _ = writeln!(text, "{}", line(&mut cells.iter().map(String::as_str)));
        }
        for note in &self.notes {
            let _ = writeln!(text, "  {note}");
        }
        text
    }
}

/// The results of one name of `ROWS`.
#[derive(Default)]
pub struct Findings {
    pub tables: Vec<Table>,
    /// The charts, each with the name of its file.
    pub charts: Vec<(&'static str, Chart)>,
}

impl From<Vec<Row>> for Findings {
    fn from(rows: Vec<Row>) -> Self {
        let mut table = Table::new("", &["measured", "found", "bar"]);
        table.lines = rows.into_iter().map(|Row { what, found, bar }| vec![what, found, bar.to_owned()]).collect();
        Findings { tables: vec![table], charts: Vec::new() }
    }
}

impl From<Table> for Findings {
    fn from(table: Table) -> Self {
        Findings { tables: vec![table], charts: Vec::new() }
    }
}

/// The median cell of each column over several measurements of the same line, by its first figure; the number of a
/// percentile does not count.
pub fn middle(lines: &[Vec<String>]) -> Vec<String> {
    let figure = |cell: &str| -> f64 {
        let numbers = cell.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
        numbers.filter_map(|word| word.parse().ok()).next().unwrap_or(0.0)
    };
    let columns = lines.first().map_or(0, Vec::len);
    (0..columns)
        .map(|n| {
            let mut cells: Vec<&String> = lines.iter().map(|line| &line[n]).collect();
            cells.sort_by(|a, b| figure(a).total_cmp(&figure(b)));
            cells[(cells.len() - 1) / 2].clone()
        })
        .collect()
}

/// The median, the 99th percentile and the maximum, for the table.
pub fn quantiles(mut values: Vec<i64>) -> String {
    values.sort_unstable();
    format!("p50 {} ms, p99 {} ms, max {} ms", at(&values, 0.5), at(&values, 0.99), at(&values, 1.0))
}

/// A quantile of sorted values.
pub fn at(sorted: &[i64], share: f64) -> i64 {
    sorted.get(((sorted.len() as f64 - 1.0) * share).round() as usize).copied().unwrap_or(0)
}
