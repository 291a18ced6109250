//! Columns for a person. Pure text, independent of the content.

/// A table that is as wide as its content.
pub struct TextTable {
    /// The names of the columns, and whether a column is of numbers.
    columns: Vec<(String, bool)>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// Creates an empty table. `|` separates the names of the columns; the name of a column of numbers begins with `>`.
    pub fn new(columns: &str) -> Self {
        let column = |name: &str| match name.strip_prefix('>') {
            Some(name) => (name.to_owned(), true),
            None => (name.to_owned(), false),
        };
        TextTable { columns: columns.split('|').map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row; cells that are missing stay empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The lines, header first, without blanks at their ends.
    pub fn render(&self) -> String {
        let cell = |row: &'_ [String], column: usize| row.get(column).cloned().unwrap_or_default();
        let width = |text: &str| text.chars().count();
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(i, (name, _))| self.rows.iter().map(|row| width(&cell(row, i))).max().unwrap_or(0).max(width(name)))
            .collect();
        let header: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let mut text = String::new();
        for row in std::iter::once(&header).chain(&self.rows) {
            let mut line = String::new();
            for (i, (_, right)) in self.columns.iter().enumerate() {
                let content = cell(row, i);
                let fill = " ".repeat(widths[i] - width(&content));
                line.extend(if *right { [fill, content] } else { [content, fill] });
                line.push_str("  ");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_content() {
        let mut table = TextTable::new("QUEUE|>DUE|NOTE");
        table.row(["a".to_owned(), "1234".to_owned(), String::new()]);
        table.row(["grün".to_owned(), "5".to_owned()]);
        table.row(["longer name".to_owned(), String::new(), "x".to_owned()]);
        assert_eq!(
            table.render(),
            "QUEUE         DUE  NOTE\na            1234\ngrün            5\nlonger name        x\n"
        );
    }
}
