//! JSON schemas of the files, for editors.

use serde_json::{Map, Value, json};
use tamarisk_settings::laws::LawChoice;
use tamarisk_settings::table::{Absent, Form, Key, LawKind, Table};

use super::places;

/// The schema of a whole file.
pub(super) fn of(file: &'static Table) -> Value {
    let tables = places::tables(file);
    let mut definitions: Map<String, Value> =
        tables.iter().map(|declared| (name(declared), table(declared))).collect();
    for kind in LawKind::ALL {
        definitions.insert(law_name(kind), law(kind));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": file.heading,
        "$ref": format!("#/$defs/{}", name(file)),
        "$defs": definitions,
    })
}

fn name(table: &Table) -> String {
    table.heading.replace(['[', ']'], "").replace(' ', "-")
}

fn law_name(kind: LawKind) -> String {
    format!("{}-law", kind.key().name)
}

fn table(table: &'static Table) -> Value {
    let mut properties = Map::new();
    let mut patterns = Map::new();
    let mut required = Vec::new();
    for key in table.keys() {
        match key.form {
            Form::Never { .. } => continue,
            Form::Target => {
                patterns.insert("^p([0-9]{2}|9[0-9]{2,4})$".to_owned(), property(key));
            }
            _ => {
                properties.insert(key.name.to_owned(), property(key));
            }
        }
        if key.absent == Absent::Fault {
            required.push(key.name);
        }
    }
    let mut schema = json!({
        "type": "object",
        "description": table.summary,
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    if !patterns.is_empty() {
        schema["patternProperties"] = Value::Object(patterns);
    }
    schema
}

fn property(key: &'static Key) -> Value {
    let mut property = form(&key.form);
    let about = property.as_object_mut().expect("every form is an object");
    about.insert("description".to_owned(), json!(key.summary));
    if let Absent::Value(default) = key.absent {
        about.insert("default".to_owned(), super::parsed(&format!("it = {default}"))["it"].clone());
    }
    property
}

fn form(of: &'static Form) -> Value {
    match of {
        Form::Text(_) => json!({ "type": "string" }),
        Form::Time | Form::Target => {
            json!({ "type": "string", "pattern": "^[0-9.]+ *(ns|us|µs|ms|s|m|min|h)$" })
        }
        Form::Size => {
            json!({ "type": "string", "pattern": "^[0-9.]+ *(B|KiB|MiB|GiB|kB|MB|GB)$" })
        }
        Form::Whole(least, most) => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Form::Number(least, most) if most.is_infinite() => {
            json!({ "type": "number", "minimum": least })
        }
        Form::Number(least, most) => {
            json!({ "type": "number", "minimum": least, "maximum": most })
        }
        Form::Bool => json!({ "type": "boolean" }),
        Form::OneOf(names) => json!({ "enum": names }),
        Form::List(item) => json!({ "type": "array", "items": form(item) }),
        Form::Table(table) => json!({ "$ref": format!("#/$defs/{}", name(table)) }),
        Form::Named(table) => json!({
            "type": "object",
            "additionalProperties": { "$ref": format!("#/$defs/{}", name(table)) },
        }),
        Form::Map(_, value) => json!({ "type": "object", "additionalProperties": form(value) }),
        Form::Either(forms) => json!({ "anyOf": forms.iter().map(form).collect::<Vec<_>>() }),
        Form::Law(kind) => json!({ "$ref": format!("#/$defs/{}", law_name(*kind)) }),
        Form::Never { .. } => json!({ "not": {} }),
    }
}

/// A law's name, or a table of its name and constants.
fn law(kind: LawKind) -> Value {
    let choices = kind.choices();
    let names: Vec<_> = choices.iter().map(|law| law.name).collect();
    let tables = choices.iter().map(|LawChoice { name, summary, knobs }| {
        let mut properties = Map::new();
        properties.insert("law".to_owned(), json!({ "const": name }));
        for knob in *knobs {
            let about = json!({
                "type": "number",
                "description": knob.summary,
                "default": knob.default,
                "minimum": knob.least,
                "maximum": knob.greatest,
            });
            properties.insert(knob.name.to_owned(), about);
        }
        json!({
            "type": "object",
            "description": summary,
            "properties": properties,
            "required": ["law"],
            "additionalProperties": false,
        })
    });
    let forms: Vec<_> = std::iter::once(json!({ "enum": names })).chain(tables).collect();
    json!({ "anyOf": forms })
}
