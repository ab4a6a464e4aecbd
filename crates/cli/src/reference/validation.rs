//! Whether a document fits a schema, as far as our schemas go.

use regex_lite::Regex;
use serde_json::{Map, Value};

/// What does not fit, and where.
pub(super) fn check(schema: &Value, document: &Value) -> Result<(), String> {
    fits(schema, schema, document)
}

/// The same, of a document that need not be complete.
pub(super) fn part(schema: &Value, document: &Value) -> Result<(), String> {
    let mut schema = schema.clone();
    let file =
        schema["$ref"].as_str().expect("a file is a table").trim_start_matches('#').to_owned();
    schema.pointer_mut(&file).expect("it is defined")["required"] = Value::Array(Vec::new());
    check(&schema, document)
}

fn fits(schema: &Value, root: &Value, value: &Value) -> Result<(), String> {
    let wrong = || Err(format!("{value} is not {schema}"));
    for (keyword, said) in schema.as_object().expect("a schema is an object") {
        let is_so = match (&**keyword, value) {
            ("$ref", _) => {
                let path = said.as_str().expect("a path").trim_start_matches('#');
                fits(root.pointer(path).expect("it is defined"), root, value)?;
                true
            }
            ("type", _) => match said.as_str().expect("a type") {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_i64() || value.is_u64(),
                _ => value.is_number(),
            },
            ("enum", _) => said.as_array().expect("a list").contains(value),
            ("const", _) => said == value,
            ("anyOf", _) => {
                let forms = said.as_array().expect("a list");
                forms.iter().any(|form| fits(form, root, value).is_ok())
            }
            ("minimum", Value::Number(_)) => value.as_f64() >= said.as_f64(),
            ("maximum", Value::Number(_)) => value.as_f64() <= said.as_f64(),
            ("pattern", Value::String(text)) => matches(said.as_str().expect("a pattern"), text),
            ("items", Value::Array(items)) => {
                items.iter().try_for_each(|item| fits(said, root, item))?;
                true
            }
            ("required", Value::Object(table)) => {
                let keys = said.as_array().expect("a list");
                keys.iter().all(|key| table.contains_key(key.as_str().expect("a key")))
            }
            ("additionalProperties", Value::Object(table)) => {
                properties(schema, root, table)?;
                true
            }
            _ => true,
        };
        if !is_so {
            return wrong();
        }
    }
    Ok(())
}

fn properties(schema: &Value, root: &Value, table: &Map<String, Value>) -> Result<(), String> {
    let patterns = schema["patternProperties"].as_object();
    for (key, value) in table {
        let by_pattern = || {
            let mut patterns = patterns.into_iter().flatten();
            patterns.find(|(pattern, _)| matches(pattern, key)).map(|(_, schema)| schema)
        };
        let named = schema["properties"].get(key).or_else(by_pattern);
        let property = named.unwrap_or_else(|| &schema["additionalProperties"]);
        if property == &Value::Bool(false) {
            return Err(format!("unknown key {key:?}"));
        }
        fits(property, root, value)?;
    }
    Ok(())
}

fn matches(pattern: &str, text: &str) -> bool {
    Regex::new(pattern).expect("a pattern").is_match(text)
}
