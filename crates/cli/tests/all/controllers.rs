//! `lockstep controllers`.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

fn printed(words: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_lockstep")).arg("controllers").args(words).output().expect("it starts");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn constants_are_listed_with_value_range_and_meaning() {
    let rows: Vec<Value> = serde_json::from_str(&printed(&["--constants", "--json", "-"])).expect("a list");
    let table = printed(&["--constants"]);
    for row in &rows {
        let name = row["name"].as_str().expect("a name");
        let line = table.lines().find(|line| line.split_whitespace().next() == Some(name)).expect(name);
        for key in ["unit", "about", "lab"] {
            assert!(line.contains(row[key].as_str().expect("text")), "{name}: {line}");
        }
        let number = |key: &str| row[key].as_f64().expect("a number");
        assert!((number("least")..=number("most")).contains(&number("value")), "{name}");
        assert!(line.contains(&format!("{} to {}", number("least"), number("most"))), "{line}");
    }
    assert!(table.ends_with(&format!("{} tuned constants\n", rows.len())), "{table}");
    assert!(rows.iter().any(|row| row["name"] == "silence.margin" && row["value"] == 0.15));
}

#[test]
fn the_page_on_rate_control_has_every_group_of_constants() {
    let rows: Vec<Value> = serde_json::from_str(&printed(&["--constants", "--json", "-"])).expect("a list");
    let groups = rows.iter().map(|row| row["name"].as_str().and_then(|name| name.split('.').next()).expect("a group"));
    let page = include_str!("../../../../docs/concepts/rate-control.md");
    let table = page.split("| group | code |").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("the table");
    let listed =
        table.lines().skip(2).flat_map(|row| row.split('|').nth(1).unwrap_or_default().split('`').skip(1).step_by(2));
    assert_eq!(groups.collect::<BTreeSet<_>>(), listed.collect::<BTreeSet<_>>());
}

#[test]
fn controllers_are_listed_with_their_meaning() {
    let rows: Vec<Value> = serde_json::from_str(&printed(&["--json", "-"])).expect("a list");
    let table = printed(&[]);
    assert_eq!(rows.len(), table.lines().count());
    assert!(rows.iter().any(|row| row["name"] == "lockstep") && table.contains("\nlockstep "));
}
