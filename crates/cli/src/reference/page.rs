//! `docs/CONFIG.md`.

use std::fmt::Write;

use serde_json::Value;
use tamarisk_settings::laws::LawChoice;
use tamarisk_settings::table::{Absent, Form, Key, LawKind, Table};

use super::File;
use super::places::{self, Place};

const INTRODUCTION: &str = "\
# Configuration files
Every key of every file. `cargo xtask config` makes this page of what the readers of the files declare.

An unknown key is a mistake, and so is a value that cannot be; each is shown where it stands, with what was expected there. `tamarisk protect --config FILE --check` \
and `tamarisk serve FILE --check` show [all that would keep the service from starting](OPERATING.md#serving-a-site), and end. Editors that know TOML schemas (taplo, Even Better TOML) complete and check keys if the \
first line names a schema: `#:schema URL-or-path/of/docs/schema/protect.json`.

- A *time* is a number and a unit, `ns`, `us`, `ms`, `s`, `m` or `h`: `\"1.5s\"`. It is longer than 0.
- A *size* is a number and a unit, `B`, `KiB`, `MiB`, `GiB`, `kB`, `MB` or `GB`: `\"64KiB\"`.
- A *target* is a percentile and a time: with `p90 = \"200ms\"`, nine of ten answers come within 200 ms. Any percentile can stand in its place: `p50`, `p95`, `p99`, `p999` (99.9 %).
- A *name* has letters, digits, `-`, `_` and `.`, 64 at most.
- A *law* is the name of one [below](#laws), or a table of its name and constants: `{ law = \"red\", queue_min_count = 10 }`.
- A *path* is relative to the folder of the file.
";

/// The page for all `files`.
pub(super) fn of(files: &[File], stated: &[Place]) -> String {
    let mut headings = Headings::default();
    let mut page = INTRODUCTION.to_owned();
    let told: Vec<Vec<&'static Table>> = files
        .iter()
        .map(|file| {
            let mut tables = places::tables(file.declared);
            tables.retain(|table| headings.add(table));
            tables
        })
        .collect();
    for (file, tables) in files.iter().zip(told) {
        for table in tables {
            let is_file = std::ptr::eq(table, file.declared);
            let level = if is_file { "##" } else { "###" };
            write!(page, "\n{level} {}\n{}\n", heading(table), table.summary).expect("text");
            if is_file {
                let name = file.name;
                writeln!(page, "\nAll of it in one: [examples/{name}.toml](examples/{name}.toml). Schema: [schema/{name}.json](schema/{name}.json).").expect("text");
            }
            page += "\n| key | value | without it | meaning | example |\n| --- | --- | --- | --- | --- |\n";
            for key in table.keys().filter(|key| !matches!(key.form, Form::Never { .. })) {
                page += &row(key, stated, &headings);
            }
        }
    }
    page += "\n## Laws\nWhat the keys of laws may name, and the constants of each. [LAWS.md](LAWS.md) compares them.\n";
    LawKind::ALL.into_iter().for_each(|kind| page += &laws(kind));
    page
}

fn heading(table: &Table) -> String {
    if table.heading.starts_with('[') {
        format!("`{}`", table.heading)
    } else {
        table.heading.to_owned()
    }
}

fn row(key: &'static Key, stated: &[Place], headings: &Headings) -> String {
    let absent = match key.absent {
        Absent::Fault => "required".to_owned(),
        Absent::Value(value) => format!("`{value}`"),
        Absent::Means(words) => words.to_owned(),
    };
    let is_it = |place: &&Place| std::ptr::eq(place.key, key);
    let example = match (&key.form, stated.iter().find(is_it)) {
        (Form::Named(_), _) | (_, None) => String::new(),
        // The example of a table is in its own section.
        (Form::Table(table) | Form::List(Form::Table(table)), _)
            if table.heading.starts_with('[') =>
        {
            String::new()
        }
        (_, Some(place)) => {
            let name = place.pointer.rsplit('/').next().expect("it has a name");
            cell(&format!("`{name} = {}`", inline(&place.value)))
        }
    };
    let form = cell(&form(&key.form, headings));
    format!("| `{}` | {form} | {} | {} | {example} |\n", key.name, cell(&absent), cell(key.summary))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// A value as it stands in a file.
fn inline(value: &Value) -> String {
    let joined = |items: Vec<String>| items.join(", ");
    match value {
        Value::Array(items) => format!("[{}]", joined(items.iter().map(inline).collect())),
        Value::Object(table) => {
            let entry = |(key, value): (&String, &Value)| format!("{key} = {}", inline(value));
            match joined(table.iter().map(entry).collect()) {
                entries if entries.is_empty() => "{}".to_owned(),
                entries => format!("{{ {entries} }}"),
            }
        }
        value => value.to_string(),
    }
}

fn form(of: &'static Form, headings: &Headings) -> String {
    match of {
        Form::Text(what) => (*what).to_owned(),
        Form::Time => "time".to_owned(),
        Form::Size => "size".to_owned(),
        Form::Target => "target".to_owned(),
        Form::Whole(least, most) => format!("whole number, {least} … {most}"),
        Form::Number(least, most) if most.is_infinite() => format!("number, {least} or more"),
        Form::Number(least, most) => format!("number, {least} … {most}"),
        Form::Bool => "`true` or `false`".to_owned(),
        Form::OneOf(names) => {
            names.iter().map(|name| format!("`\"{name}\"`")).collect::<Vec<_>>().join(", ")
        }
        Form::List(Form::Table(table)) => format!("list of tables: {}", headings.link(table)),
        Form::List(item) => format!("list: {}", form(item, headings)),
        Form::Table(table) => format!("table: {}", headings.link(table)),
        Form::Named(table) => format!("tables by name: {}", headings.link(table)),
        Form::Map(keys, value) => format!("table: {keys} = {}", form(value, headings)),
        Form::Either(forms) => {
            forms.iter().map(|of| form(of, headings)).collect::<Vec<_>>().join("; or ")
        }
        Form::Law(kind) => format!("[{0} law](#{0}-laws)", kind.key().name),
        Form::Never { .. } => String::new(),
    }
}

fn laws(kind: LawKind) -> String {
    let mut text =
        format!("\n### {}{} laws\n", kind.key().name[..1].to_uppercase(), &kind.key().name[1..]);
    for LawChoice { name, summary, knobs } in kind.choices() {
        writeln!(text, "- `{name}`: {summary}").expect("text");
        // The constants of droppers stand with the admission laws.
        for knob in knobs.iter().filter(|_| kind != LawKind::Dropping) {
            let (name, default) = (knob.name, knob.default);
            let (least, greatest, summary) = (knob.least, knob.greatest, knob.summary);
            writeln!(text, "  - `{name} = {default}` ({least} … {greatest}): {summary}")
                .expect("text");
        }
    }
    text
}

/// Tables and the anchors of their headings, as GitHub makes them.
#[derive(Default)]
struct Headings(Vec<(&'static Table, String)>);

impl Headings {
    /// Whether `table` is new.
    fn add(&mut self, table: &'static Table) -> bool {
        if self.0.iter().any(|(known, _)| std::ptr::eq(*known, table)) {
            return false;
        }
        let is_kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
        let plain: String = table
            .heading
            .to_lowercase()
            .chars()
            .filter(is_kept)
            .collect::<String>()
            .replace(' ', "-");
        let alike =
            |(known, _): &&(&Table, String)| known.heading.eq_ignore_ascii_case(table.heading);
        let anchor = match self.0.iter().filter(alike).count() {
            0 => plain,
            nth => format!("{plain}-{nth}"),
        };
        self.0.push((table, anchor));
        true
    }

    fn link(&self, table: &Table) -> String {
        let known = self.0.iter().find(|(known, _)| std::ptr::eq(*known, table));
        let anchor = known.map_or("", |(_, anchor)| anchor);
        format!("[{}](#{anchor})", heading(table))
    }
}
