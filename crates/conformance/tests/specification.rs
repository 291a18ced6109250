//! The kit beside the specification: every statement that it calls checked is one of the kit's.

use std::collections::BTreeSet;

use delaybridge_conformance::STATEMENTS;

#[test]
fn the_kit_has_every_statement_that_the_specification_calls_checked() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/spec/redisson-delayed-queue.md");
    let page = std::fs::read_to_string(path).unwrap();
    // A statement is one item of a list: `- **K1** *(checked)* A producer ...`.
    let items = page.split("\n- **").skip(1).map(|item| item.split("\n\n").next().unwrap_or(item));
    let mut checked = BTreeSet::new();
    let mut all = BTreeSet::new();
    for item in items {
        let number = item.split("**").next().unwrap();
        all.insert(number);
        if item.contains("*(checked)*") {
            checked.insert(number);
        }
    }
    let ours: BTreeSet<_> = STATEMENTS.iter().map(|statement| statement.number).collect();
    assert!(checked.len() > 30, "{checked:?}");
    assert_eq!(checked.difference(&ours).collect::<Vec<_>>(), Vec::<&&str>::new(), "not in the kit");
    assert_eq!(ours.difference(&all).collect::<Vec<_>>(), Vec::<&&str>::new(), "not in the specification");
}
