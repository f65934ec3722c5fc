//! Counters by name, for reports.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// Whole-number fields of a structure, by name; fields of a nested structure are named `outer_inner`.
pub fn counters(counters: &impl Serialize) -> BTreeMap<String, u64> {
    fn collect(prefix: &str, value: Value, into: &mut BTreeMap<String, u64>) {
        if let Value::Object(fields) = value {
            for (name, value) in fields {
                let name = if prefix.is_empty() { name } else { format!("{prefix}_{name}") };
                collect(&name, value, into);
            }
        } else if let Some(count) = value.as_u64() {
            into.insert(prefix.to_owned(), count);
        }
    }
    let mut named = BTreeMap::new();
    if let Ok(value) = serde_json::to_value(counters) {
        collect("", value, &mut named);
    }
    named
}
