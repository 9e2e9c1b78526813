//! Reads a decision table: columns parted by `|`, what is given parted by `||` from what is expected.
//!
//! `#` begins a comment line; the first other line names the columns. Must never skip a row, and must never pass a table
//! without rows. Upstream: the `datadriven` tables of raft-rs.

use std::collections::BTreeMap;

/// What a row gives, by column.
#[derive(Debug)]
pub struct Given<'a> {
    place: String,
    cells: BTreeMap<&'a str, &'a str>,
}

impl<'a> Given<'a> {
    /// The text in a column.
    pub fn text(&self, column: &str) -> &'a str {
        match self.cells.get(column) {
            Some(text) => text,
            None => panic!("{}: the table has no column `{column}`", self.place),
        }
    }

    /// The number in a column.
    pub fn number(&self, column: &str) -> i32 {
        self.parsed(column, self.text(column))
    }

    /// The numbers in a column, parted by commas; none where it is empty.
    pub fn numbers(&self, column: &str) -> Vec<i32> {
        self.words(column)
            .map(|word| self.parsed(column, word))
            .collect()
    }

    /// The words in a column, parted by commas.
    pub fn words(&self, column: &str) -> impl Iterator<Item = &'a str> {
        let text = self.text(column);
        text.split(',').filter(|word| !word.is_empty())
    }

    /// Ends the test: the row can't be run.
    pub fn senseless(&self, column: &str) -> ! {
        panic!(
            "{}: `{}` means nothing in column `{column}`",
            self.place,
            self.text(column)
        )
    }

    fn parsed(&self, column: &str, word: &str) -> i32 {
        word.parse().unwrap_or_else(|_| {
            panic!("{}: `{word}` in column `{column}` is no number", self.place)
        })
    }
}

/// What came of a row: column and text. A column that is left out is empty.
pub type Outcome = BTreeMap<&'static str, String>;

/// Ids as a table writes them.
pub fn list(ids: impl IntoIterator<Item = i32>) -> String {
    let ids: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
    ids.join(",")
}

/// The name of an enum's variant, without what it carries.
pub fn variant(value: &impl std::fmt::Debug) -> String {
    let shown = format!("{value:?}");
    let end = shown
        .find(|c: char| !c.is_alphanumeric())
        .unwrap_or(shown.len());
    shown[..end].to_owned()
}

/// Runs every row and fails with all that came out otherwise than the table says.
#[track_caller]
pub fn check(name: &str, text: &str, run: fn(&Given<'_>) -> Outcome) {
    let wrong = differences(name, text, run);
    assert!(
        wrong.is_empty(),
        "{} rows came out otherwise:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// One line for each row that came out otherwise.
fn differences(name: &str, text: &str, run: fn(&Given<'_>) -> Outcome) -> Vec<String> {
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(at, line)| (format!("{name}:{}", at + 1), line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let (place, header) = lines
        .next()
        .unwrap_or_else(|| panic!("{name}: no columns are named"));
    let (given_columns, expected_columns) = halves(&place, header);
    let mut rows = 0;
    let mut wrong = Vec::new();
    for (place, line) in lines {
        rows += 1;
        let (given, expected) = halves(&place, line);
        assert_eq!(given.len(), given_columns.len(), "{place}: columns given");
        assert_eq!(
            expected.len(),
            expected_columns.len(),
            "{place}: columns expected"
        );
        let cells = given_columns.iter().copied().zip(given).collect();
        let outcome = run(&Given {
            place: place.clone(),
            cells,
        });
        for column in outcome.keys() {
            assert!(
                expected_columns.contains(column),
                "{place}: the table has no column `{column}`"
            );
        }
        for (column, expected) in expected_columns.iter().zip(expected) {
            let actual = outcome.get(column).map_or("", String::as_str);
            if actual != expected {
                wrong.push(format!(
                    "{place}: {column} is `{actual}`, the table says `{expected}`"
                ));
            }
        }
    }
    assert!(rows > 0, "{name}: no rows");
    wrong
}

/// The cells on both sides of `||`.
fn halves<'a>(place: &str, line: &'a str) -> (Vec<&'a str>, Vec<&'a str>) {
    let Some((given, expected)) = line.split_once("||") else {
        panic!("{place}: no `||` parts what is given from what is expected");
    };
    let cells = |half: &'a str| half.split('|').map(str::trim).collect();
    (cells(given), cells(expected))
}

fn doubled(given: &Given<'_>) -> Outcome {
    Outcome::from([("twice", (given.number("n") * 2).to_string())])
}

#[test]
fn a_row_that_comes_out_otherwise_is_named_with_its_place() {
    let text = "# doubling\nn || twice\n1 || 2\n\n2 || 5\n";
    assert_eq!(
        differences("t.txt", text, doubled),
        ["t.txt:5: twice is `4`, the table says `5`"]
    );
}

#[test]
#[should_panic(expected = "t.txt: no rows")]
fn a_table_without_rows_does_not_pass() {
    differences("t.txt", "n || twice\n# 1 || 2\n", doubled);
}

#[test]
#[should_panic(expected = "t.txt:2: columns given")]
fn a_row_with_a_cell_too_many_does_not_pass() {
    differences("t.txt", "n || twice\n1 | 1 || 2\n", doubled);
}

#[test]
#[should_panic(expected = "the table has no column `twice`")]
fn an_outcome_that_the_table_does_not_mention_does_not_pass() {
    differences("t.txt", "n || other\n1 || 2\n", doubled);
}
