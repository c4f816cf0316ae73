//! Builds the smallest value that a JSON Schema accepts, for the parts of it that authors use most.

use serde_json::{Map, Value, json};

const LEVELS: u8 = 16;

pub fn instance_of(schema: &Value) -> Value {
    instance(schema, LEVELS)
}

fn instance(schema: &Value, levels: u8) -> Value {
    if levels == 0 {
        return Value::Null;
    }
    for key in ["const", "default"] {
        if let Some(value) = schema.get(key) {
            return value.clone();
        }
    }
    for key in ["enum", "examples"] {
        if let Some(value) = schema.get(key).and_then(|values| values.get(0)) {
            return value.clone();
        }
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema.get(key).and_then(|all| all.get(0)) {
            return instance(first, levels - 1);
        }
    }
    let named = match schema.get("type") {
        Some(Value::Array(types)) => types.first().and_then(Value::as_str),
        Some(one) => one.as_str(),
        None if schema.get("properties").is_some() => Some("object"),
        None => None,
    };
    let least = |key: &str| schema.get(key).and_then(Value::as_u64).unwrap_or(0);
    match named {
        Some("object") => Value::Object(required(schema, levels)),
        Some("array") => {
            let item = instance(schema.get("items").unwrap_or(&Value::Null), levels - 1);
            (0..least("minItems").min(64))
                .map(|_| item.clone())
                .collect()
        }
        Some("string") => {
            let length = usize::try_from(least("minLength").min(4096)).unwrap_or(0);
            json!(format!("{:_<length$}", "mock"))
        }
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(true),
        _ => Value::Null,
    }
}

fn required(schema: &Value, levels: u8) -> Map<String, Value> {
    let names = schema.get("required").and_then(Value::as_array);
    names
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|name| {
            let of = schema.get("properties").and_then(|all| all.get(name));
            (
                name.into(),
                instance(of.unwrap_or(&Value::Null), levels - 1),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::instance_of;
    use serde_json::json;

    #[test]
    fn required_members_have_the_least_value_of_their_type() {
        let schema = json!({"type": "object", "required": ["ok", "list", "name", "kind"], "properties": {
            "ok": {"type": "boolean"}, "list": {"type": "array", "minItems": 2, "items": {"type": "integer", "minimum": 3}},
            "name": {"type": "string", "minLength": 6}, "kind": {"enum": ["bug", "chore"]}, "more": {"type": "string"}}});
        assert_eq!(
            instance_of(&schema),
            json!({"ok": true, "list": [3, 3], "name": "mock__", "kind": "bug"})
        );
    }

    #[test]
    fn a_schema_without_an_end_has_an_instance() {
        let mut schema = json!({"type": "string"});
        for _ in 0..100 {
            schema = json!({"type": "object", "required": ["a"], "properties": {"a": schema}});
        }
        assert!(instance_of(&schema).is_object());
    }
}
