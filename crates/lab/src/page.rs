//! HTML pages of tables, for readers without JavaScript; light and dark.

use std::fmt::Write;

/// A page: a title, paragraphs and tables.
pub struct Page<'a> {
    /// Title and first heading.
    pub title: &'a str,
    /// Paragraphs below the title.
    pub paragraphs: Vec<String>,
    /// Tables, in order.
    pub tables: Vec<Table<'a>>,
}

/// A table of a page.
pub struct Table<'a> {
    /// Heading above the table.
    pub heading: &'a str,
    /// Names of the columns.
    pub columns: &'a [&'a str],
    /// Number of columns at the beginning with text. The others have numbers.
    pub words: usize,
    /// Rows, from top to bottom.
    pub rows: Vec<Row>,
}

/// A row of a table.
pub struct Row {
    /// One text per column.
    pub cells: Vec<String>,
    /// Whether the row is red.
    pub fails: bool,
}

/// `text` without characters that have a meaning in HTML.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            character => escaped.push(character),
        }
    }
    escaped
}

impl Table<'_> {
    fn html(&self) -> String {
        let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
            let cells = cells.enumerate().map(|(column, cell)| {
                let class = if column < self.words { "" } else { " class=\"number\"" };
                format!("<{tag}{class}>{}</{tag}>", escaped(cell))
            });
            cells.collect::<String>()
        };
        let mut html = format!("<section>\n<h2>{}</h2>\n<table>\n", escaped(self.heading));
        // Writing to a string cannot fail.
        let _ = writeln!(html, "<thead><tr>{}</tr></thead>\n<tbody>", cells("th", &mut self.columns.iter().copied()));
        for row in &self.rows {
            let class = if row.fails { " class=\"fails\"" } else { "" };
            let _ = writeln!(html, "<tr{class}>{}</tr>", cells("td", &mut row.cells.iter().map(String::as_str)));
        }
        html + "</tbody>\n</table>\n</section>\n"
    }
}

impl Page<'_> {
    /// The page as one HTML file. Texts are escaped.
    pub fn html(&self) -> String {
        let title = escaped(self.title);
        let paragraphs = self.paragraphs.iter().map(|text| format!("<p>{}</p>\n", escaped(text)));
        let tables = self.tables.iter().map(Table::html);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
             <style>\n{}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{}{}\
             <footer>lockstep {}</footer>\n</main>\n</body>\n</html>\n",
            include_str!("page.css"),
            paragraphs.collect::<String>(),
            tables.collect::<String>(),
            env!("CARGO_PKG_VERSION"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_escapes_texts_and_marks_failing_rows() {
        let rows = vec![
            Row { cells: vec!["<script>".to_owned(), "1".to_owned()], fails: true },
            Row { cells: vec!["a & b".to_owned(), "2".to_owned()], fails: false },
        ];
        let table = Table { heading: "\"x\"", columns: &["name", "value"], words: 1, rows };
        let html = Page { title: "it's", paragraphs: vec!["1 < 2".to_owned()], tables: vec![table] }.html();
        assert!(html.contains("<tr class=\"fails\"><td>&lt;script&gt;</td><td class=\"number\">1</td></tr>"), "{html}");
        assert!(html.contains("<tr><td>a &amp; b</td>") && html.contains("<title>it&#39;s</title>"), "{html}");
        assert!(html.contains("<p>1 &lt; 2</p>") && !html.contains("<script"), "{html}");
        assert!(html.contains("prefers-color-scheme: dark"), "{html}");
    }
}
