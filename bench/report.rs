//! The result of a measurement: tables and charts, independent of the measured values.

use std::fmt::Write as _;

use crate::chart::Chart;

/// One line of a table that has a promise beside each figure.
pub struct Row {
    /// What was measured.
    pub what: String,
    /// The figures.
    pub found: String,
    /// What is promised, if anything is.
    pub bar: &'static str,
}

/// Columns of text with a title.
pub struct Table {
    /// What all of it is about; may be empty.
    pub title: String,
    /// The heads of the columns.
    pub columns: Vec<&'static str>,
    /// As many cells a line as there are columns.
    pub lines: Vec<Vec<String>>,
    /// What must be known to read it, one sentence each.
    pub notes: Vec<String>,
}

impl Table {
    /// A table without lines.
    pub fn new(title: impl Into<String>, columns: &[&'static str]) -> Self {
        Table { title: title.into(), columns: columns.to_vec(), lines: Vec::new(), notes: Vec::new() }
    }

    /// Columns as wide as their widest cell. The first is aligned to the left, and the others where they hold words.
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

/// What one name of `ROWS` found.
#[derive(Default)]
pub struct Findings {
    /// In the order of the report.
    pub tables: Vec<Table>,
    /// Each with the name of its file.
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

/// Of several measurements of the same line, in each column the cell in the middle, by its first figure; the
/// number of a percentile is none.
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

/// Half, 99 in 100, and all of the values are at most this.
pub fn quantiles(mut values: Vec<i64>) -> String {
    values.sort_unstable();
    format!("p50 {} ms, p99 {} ms, max {} ms", at(&values, 0.5), at(&values, 0.99), at(&values, 1.0))
}

/// What this share of the values does not exceed; they must be sorted.
pub fn at(sorted: &[i64], share: f64) -> i64 {
    sorted.get(((sorted.len() as f64 - 1.0) * share).round() as usize).copied().unwrap_or(0)
}
