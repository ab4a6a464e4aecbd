//! Reading of tables with known keys, and errors at their position.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::Document;
use crate::mistakes::{Mistakes, Several};
use crate::table::{Form, Key, Table};

/// A mistake in the text.
#[derive(Debug)]
pub struct Fault {
    /// Where: in bytes.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What was expected instead, shown at the place.
    pub expected: String,
    /// What to do, if that is not obvious.
    pub help: Option<String>,
    /// Other mistakes that were found with it.
    others: Vec<Self>,
}

impl Fault {
    /// A mistake at `span`, and what was `expected` there.
    pub fn new(
        span: Range<usize>,
        message: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self {
            span,
            message: message.into(),
            expected: expected.into(),
            help: None,
            others: Vec::new(),
        }
    }

    /// With what to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// It and all others that were found with it, in the order of the text.
    pub(crate) fn all(mut self) -> Vec<Self> {
        let others = std::mem::take(&mut self.others);
        let mut all = vec![self];
        all.extend(others.into_iter().flat_map(Self::all));
        all.sort_by_key(|fault| fault.span.start);
        all
    }

    pub(crate) fn of_syntax(error: &toml::de::Error) -> Self {
        let span = error.span().unwrap_or(0..0);
        Self::new(span, "invalid TOML", error.message())
    }
}

impl Several for Fault {
    fn several(mut mistakes: Vec<Self>) -> Self {
        let mut first = mistakes.remove(0);
        first.others.append(&mut mistakes);
        first
    }
}

/// A value, and where it stands.
pub type Value<'a> = Spanned<DeValue<'a>>;

/// A table and the keys that it may have.
#[derive(Clone)]
pub struct Section<'a> {
    table: &'a DeTable<'a>,
    span: Range<usize>,
    keys: Keys,
}

/// The keys that a section may have.
#[derive(Clone)]
enum Keys {
    Declared(&'static Table),
    Names(Vec<&'static str>),
}

impl Keys {
    fn contains(&self, key: &str) -> bool {
        match self {
            Self::Declared(table) => table.key(key).is_some(),
            Self::Names(names) => names.contains(&key),
        }
    }

    fn names(&self) -> Vec<&'static str> {
        match self {
            Self::Declared(table) => {
                let keys = table.keys().filter(|key| !matches!(key.form, Form::Never { .. }));
                keys.map(|key| key.name).collect()
            }
            Self::Names(names) => names.clone(),
        }
    }
}

impl<'a> Section<'a> {
    /// The table `value`, unless it has a key that is not `declared`.
    ///
    /// # Errors
    /// A [`Fault`] at the key.
    pub fn new(value: &'a Value<'a>, declared: &'static Table) -> Result<Self, Fault> {
        let (section, mistakes) = Self::collecting(value, declared)?;
        mistakes.done(|| Some(section))
    }

    /// A whole file, unless it has a key that is not `declared`.
    ///
    /// # Errors
    /// A [`Fault`] at the key.
    pub fn of(document: &'a Document<'a>, declared: &'static Table) -> Result<Self, Fault> {
        let (section, mistakes) = Self::of_collecting(document, declared);
        mistakes.done(|| Some(section))
    }

    /// The table `value`, and a list for its mistakes; keys that are not `declared` are in it.
    ///
    /// # Errors
    /// A [`Fault`] if it is no table.
    pub fn collecting(
        value: &'a Value<'a>,
        declared: &'static Table,
    ) -> Result<(Self, Mistakes<Fault>), Fault> {
        Ok(Self::known(table(value)?, value.span(), Keys::Declared(declared)))
    }

    /// A whole file, and a list for its mistakes; keys that are not `declared` are in it.
    pub fn of_collecting(
        document: &'a Document<'a>,
        declared: &'static Table,
    ) -> (Self, Mistakes<Fault>) {
        Self::known(document.get_ref(), 0..0, Keys::Declared(declared))
    }

    /// The table of a law, whose constants the catalogue declares.
    pub(crate) fn of_law(value: &'a Value<'a>, names: Vec<&'static str>) -> Result<Self, Fault> {
        let (section, mistakes) = Self::known(table(value)?, value.span(), Keys::Names(names));
        mistakes.done(|| Some(section))
    }

    fn known(table: &'a DeTable<'a>, span: Range<usize>, keys: Keys) -> (Self, Mistakes<Fault>) {
        let mut mistakes = Mistakes::default();
        for (key, value) in in_order(table) {
            if !keys.contains(key.get_ref()) {
                mistakes.add(unknown_key(key, &keys.names()));
            } else if let Keys::Declared(table) = keys
                && let Some(Key { form: Form::Never { message, expected }, .. }) =
                    table.key(key.get_ref())
            {
                mistakes.add(Fault::new(value.span(), *message, *expected));
            }
        }
        (Self { table, span, keys }, mistakes)
    }

    /// Where the section begins.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Where the value of `key` stands; where the section begins if there is none.
    pub fn span_of(&self, key: &str) -> Range<usize> {
        self.value(key).map_or_else(|| self.span(), Spanned::span)
    }

    /// The value of `key`, if it is there.
    ///
    /// # Panics
    /// If the key is not declared, in builds with debug assertions.
    pub fn value(&self, key: &str) -> Option<&'a Value<'a>> {
        debug_assert!(self.keys.contains(key), "{key:?} is read and not declared");
        self.table.get(key)
    }

    /// What `key` says, if anything.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn read<T>(
        &self,
        key: &str,
        read: impl FnOnce(&'a Value<'a>) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        self.value(key).map(read).transpose()
    }

    /// What `key` says, which it must; `example` is shown if it does not.
    ///
    /// # Errors
    /// Those of `read`, and a [`Fault`] if `key` is missing.
    pub fn require<T>(
        &self,
        key: &str,
        example: &str,
        read: impl FnOnce(&'a Value<'a>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let missing = || {
            Fault::new(
                self.span(),
                format!("{key:?} is missing"),
                format!("needs `{key} = {example}`"),
            )
        };
        self.read(key, read)?.ok_or_else(missing)
    }

    /// The names of the things in the table `key`, whatever is said of them; none if there is no such table.
    pub fn names(&self, key: &str) -> Vec<&'a str> {
        let table = self.value(key).and_then(|value| value.get_ref().as_table());
        table.into_iter().flat_map(in_order).map(|(name, _)| &**name.get_ref()).collect()
    }

    /// Its keys and values in the order of the text.
    pub fn entries(&self) -> Vec<(&'a Spanned<DeString<'a>>, &'a Value<'a>)> {
        in_order(self.table)
    }

    /// The tables that it holds, by name, in the order of the text.
    ///
    /// # Errors
    /// A [`Fault`] if it is no table.
    pub fn tables(
        value: &'a Value<'a>,
    ) -> Result<Vec<(&'a Spanned<DeString<'a>>, &'a Value<'a>)>, Fault> {
        table(value).map(in_order)
    }
}

fn table<'a>(value: &'a Value<'a>) -> Result<&'a DeTable<'a>, Fault> {
    value.get_ref().as_table().ok_or_else(|| wrong_type(value, "a table"))
}

fn in_order<'a>(table: &'a DeTable<'a>) -> Vec<(&'a Spanned<DeString<'a>>, &'a Value<'a>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn unknown_key(key: &Spanned<DeString<'_>>, known: &[&str]) -> Fault {
    let name: &str = key.get_ref();
    let fault = Fault::new(
        key.span(),
        format!("unknown key {name:?}"),
        format!("expected one of: {}", known.join(", ")),
    );
    match nearest(name, known) {
        Some(similar) => fault.help(format!("did you mean {similar:?}?")),
        None => fault,
    }
}

/// The known name that was probably meant: at least 70 % alike.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let alike = |candidate: &&'a str| (strsim::jaro_winkler(name, candidate), *candidate);
    let best = known.iter().map(alike).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= 0.7).then_some(best.1)
}

/// That `value` is of another type than `expected`.
pub fn wrong_type(value: &Value<'_>, expected: &str) -> Fault {
    let found = value.get_ref().type_str();
    Fault::new(value.span(), format!("wrong type: {found}"), format!("expected {expected}"))
}
