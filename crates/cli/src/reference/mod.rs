//! The reference pages, made of what the readers of files and of the command line declare:
//! `docs/CONFIG.md`, `docs/schema/` and `docs/CLI.md`. `cargo xtask config` writes them.
//!
//! Tests hold them to the readers: each declared key stands in an example and is read there, has
//! the default that is declared, and is what the schema says. That what is read is declared,
//! `Section::value` asserts.

mod page;
mod places;
mod schema;
mod validation;

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use serde_json::{Value, json};
use tamarisk_settings::table::{Absent, Form, LawKind, Table};

use self::places::Place;
use super::Tamarisk;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

/// A kind of file that users write.
struct File {
    /// What its schema is called.
    name: &'static str,
    declared: &'static Table,
    /// Where all its keys stand.
    example: &'static str,
    /// Where the keys stand that exclude those of the example.
    alternatives: &'static [&'static str],
    /// What a text is read as, for comparison, or what is wrong with it.
    read: fn(&str) -> Result<String, String>,
}

const FILES: [File; 4] = [
    File {
        name: "protect",
        declared: &tamarisk_protect::config::FILE,
        example: include_str!("../../../../docs/examples/protect.toml"),
        alternatives: &["listen = \":80\"\np90 = \"1s\"\nstatus_token.env = \"TOKEN\"\n\
             upstreams.app = { url = \"http://localhost\", client.cookie = \"session\" }"],
        read: |text| {
            let read = tamarisk_protect::config::parse("protect.toml", text);
            read.map(|options| format!("{options:?}")).map_err(|error| error.to_string())
        },
    },
    File {
        name: "site",
        declared: &tamarisk_haboob::config::FILE,
        example: include_str!("../../../../docs/examples/site.toml"),
        alternatives: &["listen = \":80\"\nstatus_token.env = \"TOKEN\"\n[[host]]\n\
             route = [{ path = \"/\", proxy = \"http://localhost\", client.cookie = \"session\" }]"],
        read: |text| {
            let read = tamarisk_haboob::config::parse("site.toml", text, Path::new("/srv"));
            read.map(|options| format!("{options:?}")).map_err(|error| error.to_string())
        },
    },
    File {
        name: "scenario",
        declared: &tamarisk_model::scenario::FILE,
        example: include_str!("../../../../docs/examples/scenario.toml"),
        alternatives: &[
            include_str!("times.toml"),
            "duration = \"60s\"\np90 = \"1s\"\nstages.web = { workers = 1, service = \"1ms\" }\n\
             clients.recorded.trace = \"live.trace\"",
        ],
        read: |text| {
            let read = tamarisk_model::scenario::parse("scenario.toml", text);
            read.map(|file| format!("{:?}{:?}", file.scenario, file.laws))
                .map_err(|error| error.to_string())
        },
    },
    File {
        name: "mail",
        declared: &crate::mail::FILE,
        example: include_str!("../../../../docs/examples/mail.toml"),
        alternatives: &["mail.database = \"postgres://mail@127.0.0.1:5432/mail\""],
        read: |text| {
            let read = crate::mail::parse("mail.toml", text, Path::new("/srv"));
            read.map(|settings| format!("{settings:?}")).map_err(|error| error.to_string())
        },
    },
];

impl File {
    fn documents(&self) -> Vec<Value> {
        let texts = [self.example].into_iter().chain(self.alternatives.iter().copied());
        texts.map(parsed).collect()
    }

    fn read(&self, document: &Value) -> Result<String, String> {
        (self.read)(&toml::to_string(document).unwrap())
    }
}

fn parsed(text: &str) -> Value {
    serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap()
}

fn each_place(mut check: impl FnMut(&File, &Value, &Place)) {
    for file in &FILES {
        for document in file.documents() {
            for place in places::stated(file.declared, &document) {
                check(file, &document, &place);
            }
        }
    }
}

/// Every key that an example states; those that tables share may be stated in one of them.
fn stated() -> Vec<Place> {
    let mut places = Vec::new();
    each_place(|_, _, place| places.push(place.clone()));
    places
}

#[test]
fn every_declared_key_stands_in_an_example() {
    let stated = stated();
    for table in FILES.iter().flat_map(|file| places::tables(file.declared)) {
        for key in table.keys().filter(|key| !matches!(key.form, Form::Never { .. })) {
            let is_stated = stated.iter().any(|place| std::ptr::eq(place.key, key));
            assert!(is_stated, "{} of {}", key.name, table.heading);
        }
    }
}

#[test]
fn every_declared_key_is_read() {
    each_place(|file, document, place| {
        // A value that no key of its form can have.
        let wrong = if matches!(place.key.form, Form::Bool) { json!(0.5) } else { json!(true) };
        let mut document = document.clone();
        *document.pointer_mut(&place.pointer).unwrap() = wrong;
        let error = file.read(&document).expect_err(&place.pointer);
        assert!(error.starts_with("wrong type: "), "{}: {error}", place.pointer);
    });
}

#[test]
fn what_is_declared_as_default_is_the_default() {
    let mut known = 0;
    each_place(|file, document, place| {
        let Absent::Value(default) = place.key.absent else { return };
        let mut stated = document.clone();
        *stated.pointer_mut(&place.pointer).unwrap() =
            parsed(&format!("it = {default}"))["it"].clone();
        let mut absent = document.clone();
        let (parent, key) = place.pointer.rsplit_once('/').unwrap();
        absent.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key);
        let (stated, absent) = (file.read(&stated), file.read(&absent));
        if absent.is_ok() {
            assert!(stated == absent, "{}: {} without it", file.name, place.pointer);
            known += 1;
        }
    });
    assert!(known > 40, "only {known} defaults could be compared");
}

#[test]
fn numbers_are_bounded_as_declared() {
    each_place(|file, document, place| {
        let Form::Whole(least, most) = place.key.form else { return };
        for beyond in least.checked_sub(1).into_iter().chain([most + 1]) {
            let mut document = document.clone();
            *document.pointer_mut(&place.pointer).unwrap() = json!(beyond);
            assert!(file.read(&document).is_err(), "{}: {beyond}", place.pointer);
        }
    });
}

#[test]
fn a_schema_takes_what_the_reader_takes() {
    for file in &FILES {
        let schema = schema::of(file.declared);
        (file.read)(file.example).unwrap();
        for document in file.documents() {
            validation::check(&schema, &document).unwrap();
        }
    }
    each_place(|file, document, place| {
        let schema = schema::of(file.declared);
        let mut document = document.clone();
        *document.pointer_mut(&place.pointer).unwrap() = Value::Null;
        assert!(validation::check(&schema, &document).is_err(), "{}", place.pointer);
        let (parent, _) = place.pointer.rsplit_once('/').unwrap();
        let parent = document.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        parent.insert("unknown_key".to_owned(), json!(1));
        assert!(validation::check(&schema, &document).is_err(), "{}", place.pointer);
    });
}

#[test]
fn scenarios_and_examples_of_the_pages_fit_the_schemas() {
    let schemas: Vec<_> = FILES.iter().map(|file| schema::of(file.declared)).collect();
    let scenarios = Path::new(DOCS).join("../scenarios");
    let folders = [scenarios.join("papers"), scenarios].map(|folder| fs::read_dir(folder).unwrap());
    let paths = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    for path in paths.filter(|path| path.is_file()) {
        let scenario = parsed(&fs::read_to_string(&path).unwrap());
        let checked = validation::check(&schemas[2], &scenario);
        assert!(checked.is_ok(), "{}: {checked:?}", path.display());
    }
    for page in ["../README.md", "OPERATING.md", "GUIDE.md"] {
        let text = fs::read_to_string(Path::new(DOCS).join(page)).unwrap();
        for block in text.split("```toml\n").skip(1) {
            let block = block.split("```").next().unwrap();
            let document = parsed(block);
            let faults: Vec<_> = schemas
                .iter()
                .filter_map(|schema| validation::part(schema, &document).err())
                .collect();
            assert!(faults.len() < schemas.len(), "{page}: {block}: {faults:?}");
        }
    }
}

/// A row names a constant as `law: constant` or `[table]: key` in brackets, its default in the next cell.
#[test]
fn the_page_of_defaults_says_what_the_code_does() {
    let page = fs::read_to_string(Path::new(DOCS).join("DEFAULTS.md")).unwrap();
    let mut compared = 0;
    for row in page.lines() {
        let Some((name, rest)) = row.split_once("(`").and_then(|(_, row)| row.split_once("`) | "))
        else {
            continue;
        };
        let (owner, name) = name.split_once(": ").expect(row);
        let stated = rest.split('|').next().unwrap().replace(' ', "");
        let default = default_of(owner, name).expect(row);
        let rest = stated.strip_prefix(&default);
        let is_so = rest.is_some_and(|rest| {
            !rest.starts_with(|next: char| next.is_ascii_digit() || next == '.')
        });
        assert!(is_so, "{row}: it is {default}");
        compared += 1;
    }
    assert!(compared >= 24, "only {compared} defaults could be compared");
}

fn default_of(owner: &str, name: &str) -> Option<String> {
    let mut laws = LawKind::ALL.into_iter().flat_map(LawKind::choices);
    let tables = FILES.iter().flat_map(|file| places::tables(file.declared));
    let of_law = laws.find(|law| law.name == owner).and_then(|law| {
        let knob = law.knobs.iter().find(|knob| knob.name == name)?;
        Some(knob.default.to_string())
    });
    let of_key = || {
        let key =
            tables.filter(|table| table.heading == owner).find_map(|table| table.key(name))?;
        match key.absent {
            Absent::Value(value) => Some(value.trim_matches('"').to_owned()),
            Absent::Fault | Absent::Means(_) => None,
        }
    };
    of_law.or_else(of_key)
}

#[test]
fn the_pages_are_current() {
    let mut pages = vec![
        ("CONFIG.md".to_owned(), page::of(&FILES, &stated())),
        ("CLI.md".to_owned(), command_line()),
    ];
    for file in &FILES {
        let schema = serde_json::to_string_pretty(&schema::of(file.declared)).unwrap();
        pages.push((format!("schema/{}.json", file.name), schema + "\n"));
    }
    for (name, text) in pages {
        let path = Path::new(DOCS).join(&name);
        if std::env::var_os("TAMARISK_WRITE_REFERENCE").is_some() {
            fs::write(path, text).unwrap();
        } else {
            let current = fs::read_to_string(path).unwrap_or_default() == text;
            assert!(current, "docs/{name} is not current: run `cargo xtask config`");
        }
    }
}

fn command_line() -> String {
    let options =
        clap_markdown::MarkdownOptions::new().title("Command line".to_owned()).show_footer(false);
    clap_markdown::help_markdown_command_custom(&Tamarisk::command(), &options)
}
