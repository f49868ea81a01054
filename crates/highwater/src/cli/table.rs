//! Tables for people: columns as wide as their widest cell.

/// A table with a header; columns named in `right` are aligned to the right.
pub fn table(header: &[&str], right: &[&str], rows: &[Vec<String>]) -> String {
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.chain([header[at].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let mut text = String::new();
    let head = header.iter().map(|name| name.to_string()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate().take(header.len()) {
            if right.contains(&header[at]) {
                line += &format!("{cell:>width$}  ", width = widths[at]);
            } else {
                line += &format!("{cell:<width$}  ", width = widths[at]);
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let rows = [vec!["1".into(), "müsli".into(), "x".into()], vec!["1,000".into(), "a".into(), String::new()]];
        let drawn = table(&["#", "name", "end"], &["#"], &rows);
        assert_eq!(drawn, "    #  name   end\n    1  müsli  x\n1,000  a\n");
    }
}
