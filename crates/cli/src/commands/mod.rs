//! The commands, one file each.

pub mod call;
pub mod codec;
pub mod compare;
pub mod live;
pub mod simulate;
pub mod trace;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// The whole-number fields of a structure of counters, by name.
pub fn counters(counters: &impl Serialize) -> BTreeMap<String, u64> {
    match serde_json::to_value(counters) {
        Ok(Value::Object(fields)) => {
            fields.into_iter().filter_map(|(name, value)| Some((name, value.as_u64()?))).collect()
        }
        _ => BTreeMap::new(),
    }
}
