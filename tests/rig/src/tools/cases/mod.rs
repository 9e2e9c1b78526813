//! The cases of the suite, in the order of one story: topics are made and filled, looked at, configured, moved and led,
//! and all of it is taken away again. Every pass tells the whole of it under names of its own.

mod configs;
mod moves;
mod records;
mod topics;

use anyhow::{Result, ensure};

use super::case::Case;

/// All of them, in their order.
pub fn all() -> Vec<Case> {
    let parts = [
        topics::MADE,
        records::PRODUCED,
        records::LOOKED_AT,
        configs::CONFIGS,
        moves::MOVES,
        moves::ELECTIONS,
        records::GROUPS,
        topics::DELETED,
    ];
    parts.concat()
}

/// A handful that touches the controller in every way that matters: for the tests of the workspace.
pub const QUICK: [&str; 15] = [
    "topics-create",
    "topics-create-given",
    "topics-create-config",
    "topics-create-existing",
    "topics-create-too-many-replicas",
    "topics-describe",
    "topics-grow",
    "topics-shrink",
    "topic-config-alter",
    "reassign-swap",
    "reassign-swap-verify",
    "elect-preferred",
    "topics-delete",
    "topics-delete-missing",
    "topics-delete-rest",
];

/// The cases of these names, in the order of the story.
///
/// # Errors
/// Names one that there is not.
pub fn named(names: &[String]) -> Result<Vec<Case>> {
    let all = all();
    for name in names {
        ensure!(
            all.iter().any(|case| case.name == name),
            "there is no case `{name}`; there are {}",
            all.iter()
                .map(|case| case.name)
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    Ok(all
        .into_iter()
        .filter(|case| names.iter().any(|name| name == case.name))
        .collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tools::Tool;

    #[test]
    fn every_case_has_a_name_of_its_own_and_every_tool_has_a_case() {
        let all = all();
        let names: BTreeSet<&str> = all.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), all.len());
        let tools: BTreeSet<Tool> = all.iter().map(|case| case.tool).collect();
        assert_eq!(tools.len(), 14, "{tools:?}");
    }

    #[test]
    fn a_file_is_named_where_there_is_one_and_nowhere_else() {
        for case in all() {
            assert_eq!(
                case.file.is_some(),
                case.arguments.contains("{file}"),
                "{}",
                case.name
            );
        }
    }

    #[test]
    fn the_quick_ones_are_there() {
        let names = QUICK.map(str::to_owned);
        assert_eq!(named(&names).unwrap().len(), QUICK.len());
        assert!(named(&["no-such-case".to_owned()]).is_err());
    }
}
