//! Where a document states the keys of its tables.

use serde_json::Value;
use tamarisk_settings::table::{Form, Key, Table};

/// A key that a document states.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) key: &'static Key,
    /// JSON pointer of its value.
    pub(super) pointer: String,
    pub(super) value: Value,
}

/// All tables that `file` has or may have, itself first.
pub(super) fn tables(file: &'static Table) -> Vec<&'static Table> {
    let mut found = vec![file];
    let mut next = 0;
    while let Some(table) = found.get(next).copied() {
        next += 1;
        for table in table.keys().flat_map(|key| of_form(&key.form)) {
            if !found.iter().any(|known| std::ptr::eq(*known, table)) {
                found.push(table);
            }
        }
    }
    found
}

fn of_form(form: &'static Form) -> Vec<&'static Table> {
    match form {
        Form::Table(table) | Form::Named(table) => vec![table],
        Form::List(form) | Form::Map(_, form) => of_form(form),
        Form::Either(forms) => forms.iter().flat_map(of_form).collect(),
        _ => Vec::new(),
    }
}

/// All keys that `document` states.
pub(super) fn stated(file: &'static Table, document: &Value) -> Vec<Place> {
    let mut places = Vec::new();
    in_table(file, document, "", &mut places);
    places
}

fn in_table(table: &'static Table, value: &Value, pointer: &str, places: &mut Vec<Place>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let key = table.key(name).unwrap_or_else(|| panic!("{pointer} has no key {name:?}"));
        let pointer = format!("{pointer}/{name}");
        in_form(&key.form, value, &pointer, places);
        places.push(Place { key, pointer, value: value.clone() });
    }
}

fn in_form(form: &'static Form, value: &Value, pointer: &str, places: &mut Vec<Place>) {
    let below = |name: &dyn std::fmt::Display| format!("{pointer}/{name}");
    match (form, value) {
        (Form::Table(table), Value::Object(_)) => in_table(table, value, pointer, places),
        (Form::Named(table), Value::Object(named)) => {
            named.iter().for_each(|(name, value)| in_table(table, value, &below(name), places));
        }
        (Form::List(form), Value::Array(items)) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, value)| in_form(form, value, &below(&index), places));
        }
        (Form::Either(forms), _) => {
            forms.iter().for_each(|form| in_form(form, value, pointer, places));
        }
        _ => {}
    }
}
