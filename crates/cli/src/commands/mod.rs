//! The commands, one file each.

pub mod bench;
pub mod call;
pub mod codec;
pub mod compare;
pub mod live;
pub mod model;
pub mod output;
pub mod simulate;
pub mod trace;

use std::collections::BTreeMap;

use lockstep_control::Algorithm;
use serde::Serialize;
use serde_json::Value;

/// `lockstep controllers`.
pub fn controllers() {
    let widest = Algorithm::NAMES.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, meaning) in Algorithm::NAMES {
        say!("{name:widest$}   {meaning}");
    }
}

/// The whole-number fields of a structure of counters, by name; those of a structure within it as `outer_inner`.
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
