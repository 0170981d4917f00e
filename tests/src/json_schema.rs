//! Whether a document is what a JSON Schema says, and nothing besides: what the schemas of the command use
//! of draft 2020-12, and no more. A keyword that is not known here fails, so that none is passed over.

use serde_json::{Map, Value};

/// Keywords that say nothing of a document.
const REMARKS: [&str; 4] = ["$schema", "$defs", "title", "description"];

/// Everything in which `document` is not what `schema` says; fields that it does not name are told, too.
pub fn faults(schema: &Value, document: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    Checker { root: schema }.check(schema, document, "", &mut faults);
    faults
}

struct Checker<'a> {
    root: &'a Value,
}

impl Checker<'_> {
    fn check(&self, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
        let schema = schema.as_object().expect("a schema is an object");
        for (keyword, wanted) in schema {
            match keyword.as_str() {
                "$ref" => self.check(self.find(wanted), value, at, faults),
                "type" if !is_type(wanted, value) => {
                    faults.push(format!("{at}: {} is not {wanted}", short(value)));
                }
                "const" if wanted != value => {
                    faults.push(format!("{at}: {} is not {wanted}", short(value)));
                }
                "enum" if !list(wanted).contains(value) => {
                    faults.push(format!("{at}: {} is none of {wanted}", short(value)));
                }
                "anyOf" | "oneOf" => self.check_one(list(wanted), keyword, value, at, faults),
                "required" => {
                    for name in list(wanted).iter().filter_map(Value::as_str) {
                        if value.as_object().is_some_and(|fields| !fields.contains_key(name)) {
                            faults.push(format!("{at}: {name} is not there"));
                        }
                    }
                }
                "items" => {
                    for (number, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(wanted, item, &format!("{at}/{number}"), faults);
                    }
                }
                "minItems" | "maxItems" | "minimum" | "maximum" => {
                    if is_beyond(keyword, wanted, value) {
                        faults
                            .push(format!("{at}: {} is against {keyword} {wanted}", short(value)));
                    }
                }
                "type" | "const" | "enum" | "properties" | "additionalProperties" => {}
                remark => assert!(REMARKS.contains(&remark), "{remark} is not known"),
            }
        }
        if let Some(fields) = value.as_object() {
            self.check_fields(schema, fields, at, faults);
        }
    }

    fn check_fields(
        &self,
        schema: &Map<String, Value>,
        fields: &Map<String, Value>,
        at: &str,
        faults: &mut Vec<String>,
    ) {
        let (named, others) = (schema.get("properties"), schema.get("additionalProperties"));
        if named.is_none() && others.is_none() {
            return;
        }
        for (name, value) in fields {
            // `false` allows no others.
            let others = others.filter(|others| others.is_object());
            match named.and_then(|named| named.get(name)).or(others) {
                Some(schema) => self.check(schema, value, &format!("{at}/{name}"), faults),
                None => faults.push(format!("{at}/{name} is in no schema")),
            }
        }
    }

    /// One must fit; which one was meant is told by its faults, where it can be known.
    fn check_one(
        &self,
        schemas: &[Value],
        keyword: &str,
        value: &Value,
        at: &str,
        faults: &mut Vec<String>,
    ) {
        let tries = schemas.iter().map(|schema| {
            let mut faults = Vec::new();
            self.check(schema, value, at, &mut faults);
            faults
        });
        let tries: Vec<_> = tries.collect();
        let fitting = tries.iter().filter(|faults| faults.is_empty()).count();
        if fitting == 0 {
            faults.extend(tries.into_iter().min_by_key(Vec::len).unwrap_or_default());
        } else if keyword == "oneOf" && fitting > 1 {
            faults.push(format!("{at}: {fitting} of the schemas fit"));
        }
    }

    fn find(&self, reference: &Value) -> &Value {
        let path =
            reference.as_str().and_then(|path| path.strip_prefix('#')).expect("a place here");
        self.root.pointer(path).unwrap_or_else(|| panic!("{path} is nowhere"))
    }
}

fn is_type(wanted: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str().expect("the name of a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("{other} is no type"),
    };
    wanted.as_array().map_or_else(|| is(wanted), |all| all.iter().any(is))
}

fn is_beyond(keyword: &str, bound: &Value, value: &Value) -> bool {
    let bound = bound.as_f64().expect("a number");
    let items = value.as_array().map(|items| items.len() as f64);
    match keyword {
        "minItems" => items.is_some_and(|items| items < bound),
        "maxItems" => items.is_some_and(|items| items > bound),
        "minimum" => value.as_f64().is_some_and(|number| number < bound),
        _ => value.as_f64().is_some_and(|number| number > bound),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_differs_from_a_schema_is_told_with_its_place() {
        let schema = json!({
            "type": "object",
            "required": ["a"],
            "properties": {
                "a": { "type": "array", "items": { "$ref": "#/$defs/N" }, "maxItems": 2 },
                "b": { "anyOf": [{ "enum": ["x", "y"] }, { "type": "null" }] },
            },
            "$defs": { "N": { "type": "integer", "minimum": 0 } },
        });
        assert_eq!(faults(&schema, &json!({ "a": [1, 2], "b": null })), [""; 0]);
        for (document, told) in [
            (json!([]), ": [] is not \"object\""),
            (json!({ "b": "x" }), ": a is not there"),
            (json!({ "a": [1, "2"] }), "/a/1: \"2\" is not \"integer\""),
            (json!({ "a": [-1] }), "/a/0: -1 is against minimum 0"),
            (json!({ "a": [1, 2, 3] }), "/a: [1,2,3] is against maxItems 2"),
            (json!({ "a": [], "b": "z" }), "/b: \"z\" is none of [\"x\",\"y\"]"),
            (json!({ "a": [], "c": 1 }), "/c is in no schema"),
        ] {
            assert_eq!(faults(&schema, &document), [told]);
        }
    }
}
