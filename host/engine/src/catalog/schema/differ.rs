//! The cost of `uniqueItems`: the evaluator compares each item with earlier ones of the same hash. Hashes collide for
//! nested arrays (`[]`, `[[]]`, `[[], []]`), booleans and numbers (`[0, false]`, `[false, 0]`), and integers that round
//! to the same floating-point number.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

use serde_json::Value;

use super::graph::TEXT_BYTES_PER_UNIT;

const COMPARED_PER_UNIT: u64 = 8;
/// The evaluator's hash input for `null`.
const NULL: u64 = 3_221_225_473;

/// Stops counting above `max`.
pub(super) fn work(items: &[Value], max: u64) -> u64 {
    let mut hashing = CollisionHasher { values: 0, max };
    let mut compared: u64 = 0;
    // By hash: the first item, and the number of items.
    let mut alike: HashMap<u64, (&Value, u64)> = HashMap::new();
    for item in items {
        let before = hashing.values;
        let mut hasher = DefaultHasher::new();
        hashing.value(item, &mut hasher);
        let (first, count) = alike.entry(hasher.finish()).or_insert((item, 0));
        if *count > 0 && *first == item {
            // The evaluator stops at a duplicate.
            break;
        }
        compared = compared.saturating_add(count.saturating_mul(hashing.values - before));
        *count += 1;
        if hashing.values.saturating_add(compared / COMPARED_PER_UNIT) > max {
            break;
        }
    }
    hashing.values.saturating_add(compared / COMPARED_PER_UNIT)
}

/// Hashes as the evaluator does, so that the same values collide.
struct CollisionHasher {
    values: u64,
    max: u64,
}

impl CollisionHasher {
    fn value(&mut self, value: &Value, into: &mut DefaultHasher) {
        self.values = self.values.saturating_add(1);
        if self.values > self.max {
            return;
        }
        match value {
            Value::Null => into.write_u64(NULL),
            Value::Bool(truth) => into.write_u64(u64::from(*truth)),
            // `-0.0` hashes as `0`.
            Value::Number(number) => {
                into.write_u64(number.as_f64().map_or(0, |number| (number + 0.0).to_bits()))
            }
            Value::String(text) => self.text(text, into),
            Value::Array(items) => items.iter().for_each(|item| self.value(item, into)),
            Value::Object(fields) => {
                let mut all = 0;
                for (name, value) in fields {
                    let mut one = DefaultHasher::new();
                    self.text(name, &mut one);
                    self.value(value, &mut one);
                    all ^= one.finish();
                }
                into.write_u64(all);
            }
        }
    }

    fn text(&mut self, text: &str, into: &mut DefaultHasher) {
        self.values = self
            .values
            .saturating_add((text.len() / TEXT_BYTES_PER_UNIT) as u64);
        if self.values <= self.max {
            into.write(text.as_bytes());
            into.write_u8(0xff);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::work;

    fn compared(items: &[Value]) -> u64 {
        work(items, u64::MAX) - items.iter().map(size).sum::<u64>()
    }

    fn size(value: &Value) -> u64 {
        1 + match value {
            Value::Array(items) => items.iter().map(size).sum::<u64>(),
            Value::Object(fields) => fields.values().map(size).sum::<u64>(),
            _ => 0,
        }
    }

    /// All lists of ten values, each `zero` or `one`.
    fn lists(zero: &Value, one: &Value) -> Vec<Value> {
        let value = |n: u32, bit: u32| {
            if (n >> bit) & 1 == 0 {
                zero.clone()
            } else {
                one.clone()
            }
        };
        (0..1_024)
            .map(|n| Value::Array((0..10).map(|bit| value(n, bit)).collect()))
            .collect()
    }

    #[test]
    fn what_has_the_same_hash_is_compared_with_each_other() {
        for (zero, one) in [
            (json!([]), json!([[]])),
            (json!(0), json!(false)),
            (json!(0), json!({})),
            (json!(u64::MAX), json!(u64::MAX - 1)),
            (json!({ "a": [] }), json!({ "a": [[]] })),
        ] {
            assert!(compared(&lists(&zero, &one)) > 500_000, "{zero} {one}");
        }
    }

    #[test]
    fn what_people_list_is_not() {
        for (zero, one) in [
            (json!(0), json!(1)),
            (json!("a"), json!("b")),
            (json!({ "a": 1 }), json!({ "a": 2 })),
        ] {
            assert_eq!(compared(&lists(&zero, &one)), 0, "{zero} {one}");
        }
        let points: Vec<Value> = (0..10_000)
            .map(|n| json!([n, { "on": n % 2 == 0, "at": n }]))
            .collect();
        assert_eq!(compared(&points), 0);
    }

    #[test]
    fn the_first_item_that_is_there_already_ends_it() {
        assert!(work(&vec![json!("a"); 100_000], u64::MAX) < 10);
    }
}
