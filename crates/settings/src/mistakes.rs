//! All mistakes of a configuration, not the first alone.

/// The mistakes found so far. A reader [notes](Self::note) what each part comes to, reads on, and makes its value
/// [in the end](Self::done), if there were none.
///
/// # Examples
/// ```
/// use tamarisk_settings::table::{Form, Table, key};
/// use tamarisk_settings::{Section, parse, values};
///
/// static FILE: Table = Table {
///     heading: "pause.toml",
///     summary: "When to go on.",
///     groups: &[&[
///         key("pause", Form::Time, "how long to wait").required(),
///         key("again", Form::Bool, "whether to wait again").default("false"),
///     ]],
/// };
/// let pause = parse("pause.toml", "pose = 1\npause = 2\nagain = 3", |document| {
///     let (file, mut mistakes) = Section::of_collecting(document, &FILE);
///     let pause = mistakes.note(file.require("pause", "\"1s\"", values::duration));
///     let again = mistakes.note(file.read("again", values::yes));
///     mistakes.done(|| Some((pause?, again?.unwrap_or_default())))
/// });
/// assert_eq!(pause.unwrap_err().mistakes(), 3);
/// ```
#[derive(Debug)]
pub struct Mistakes<E>(Vec<E>);

/// A mistake that can stand for several.
pub trait Several: Sized {
    /// All of them as one: two at least.
    fn several(mistakes: Vec<Self>) -> Self;
}

impl<E> Default for Mistakes<E> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<E: Several> Mistakes<E> {
    /// One more.
    pub fn add(&mut self, mistake: impl Into<E>) {
        self.0.push(mistake.into());
    }

    /// What was `read`; `None` if that is one more mistake.
    pub fn note<T>(&mut self, read: Result<T, impl Into<E>>) -> Option<T> {
        read.map_err(|mistake| self.add(mistake)).ok()
    }

    /// What `make` makes of the parts that were noted, if all of them are there.
    ///
    /// # Errors
    /// All mistakes, as one.
    ///
    /// # Panics
    /// If there were none and `make` makes nothing.
    pub fn done<T>(self, make: impl FnOnce() -> Option<T>) -> Result<T, E> {
        let Self(mut mistakes) = self;
        match mistakes.len() {
            0 => Ok(make().expect("a part is missing only where a mistake was noted")),
            1 => Err(mistakes.remove(0)),
            _ => Err(E::several(mistakes)),
        }
    }
}

/// All of these, or all of their mistakes.
///
/// # Errors
/// The mistakes, as one.
pub fn all<T, E: Several>(read: impl IntoIterator<Item = Result<T, E>>) -> Result<Vec<T>, E> {
    let mut mistakes = Mistakes::default();
    let all: Vec<T> = read.into_iter().filter_map(|read| mistakes.note(read)).collect();
    mistakes.done(|| Some(all))
}
