//! A page of Arashi, read for its marks: `data-page` on the body, `data-go` on links and forms.
//!
//! The pages are tokenized by html5gum, by the rules of browsers; nothing is kept of a page but
//! what is marked. A list page of ten messages takes some tens of microseconds.

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};

use crate::form::{Control, Form};

/// The marked parts of a page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// What kind of page it is; empty if it has no mark.
    pub(crate) kind: String,
    pub(crate) links: Vec<Link>,
    pub(crate) forms: Vec<Form>,
    /// The messages that can be ticked.
    pub(crate) messages: Vec<String>,
}

/// A marked link.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// Where it leads, as its mark says.
    pub(crate) go: String,
    pub(crate) href: String,
    /// The text between its tags.
    pub(crate) text: String,
}

/// Marked links and forms that a page may have, at most: what comes after them is not read.
const MARKS_MAX: usize = 10_000;

impl Page {
    /// Reads a page, whatever it is.
    pub(crate) fn read(html: &[u8]) -> Self {
        let mut reader = Reader::default();
        let emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| -> Option<()> {
            reader.on_event(&event);
            None
        });
        // The tokens go to the reader, and there are no errors: bytes in memory can be read.
        Tokenizer::new_with_emitter(html, emitter).for_each(drop);
        reader.page
    }

    /// The links that lead there.
    pub(crate) fn links_to(&self, go: &str) -> impl Iterator<Item = &Link> {
        self.links.iter().filter(move |link| link.go == go)
    }

    /// The first form that is for this or has a button for it, and where it is sent to then.
    pub(crate) fn form(&self, go: &str) -> Option<(&Form, &str)> {
        self.forms.iter().find_map(|form| Some((form, form.action_for(go)?)))
    }
}

#[derive(Default)]
struct Reader {
    page: Page,
    tag: Tag,
    /// The name of the attribute whose value comes next.
    attribute: Attribute,
    /// Whether the text that comes belongs to the last link.
    is_in_link: bool,
    /// Whether the controls that come belong to the last form.
    is_in_form: bool,
}

/// A start tag, as far as it has been read.
#[derive(Default)]
struct Tag {
    element: Element,
    go: String,
    page: String,
    /// Where a link leads, or a form is sent to.
    target: String,
    name: String,
    value: String,
    /// Of a form its method, of an input its type.
    kind: String,
    is_chosen: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Element {
    Body,
    Link,
    Form,
    Input,
    Select,
    Choice,
    Button,
    #[default]
    Other,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Attribute {
    Go,
    Page,
    Target,
    Name,
    Value,
    Kind,
    #[default]
    Other,
}

impl Element {
    fn of(name: &[u8]) -> Self {
        match name {
            b"body" => Self::Body,
            b"a" => Self::Link,
            b"form" => Self::Form,
            b"input" | b"textarea" => Self::Input,
            b"select" => Self::Select,
            b"option" => Self::Choice,
            b"button" => Self::Button,
            _ => Self::Other,
        }
    }
}

impl Reader {
    fn on_event(&mut self, event: &CallbackEvent<'_>) {
        match event {
            CallbackEvent::OpenStartTag { name } => {
                let element = Element::of(name);
                self.tag = Tag { element, ..Tag::default() };
            }
            CallbackEvent::AttributeName { name } if self.tag.element != Element::Other => {
                self.attribute = match *name {
                    b"data-go" => Attribute::Go,
                    b"data-page" => Attribute::Page,
                    b"href" | b"action" | b"formaction" => Attribute::Target,
                    b"name" => Attribute::Name,
                    b"value" => Attribute::Value,
                    b"method" | b"type" => Attribute::Kind,
                    _ => Attribute::Other,
                };
                self.tag.is_chosen |= matches!(*name, b"checked" | b"selected");
            }
            CallbackEvent::AttributeValue { value } if self.tag.element != Element::Other => {
                let into = match self.attribute {
                    Attribute::Go => &mut self.tag.go,
                    Attribute::Page => &mut self.tag.page,
                    Attribute::Target => &mut self.tag.target,
                    Attribute::Name => &mut self.tag.name,
                    Attribute::Value => &mut self.tag.value,
                    Attribute::Kind => &mut self.tag.kind,
                    Attribute::Other => return,
                };
                into.push_str(&String::from_utf8_lossy(value));
            }
            CallbackEvent::CloseStartTag { .. } => self.on_tag(),
            CallbackEvent::EndTag { name } => match Element::of(name) {
                Element::Link => self.is_in_link = false,
                Element::Form => self.is_in_form = false,
                _ => {}
            },
            CallbackEvent::String { value } if self.is_in_link => {
                if let Some(link) = self.page.links.last_mut() {
                    link.text.push_str(&String::from_utf8_lossy(value));
                }
            }
            _ => {}
        }
    }

    fn on_tag(&mut self) {
        let tag = std::mem::take(&mut self.tag);
        let has_room = self.page.links.len() + self.page.forms.len() < MARKS_MAX;
        match tag.element {
            Element::Body => self.page.kind = tag.page,
            Element::Link => {
                self.is_in_link = !tag.go.is_empty() && has_room;
                if self.is_in_link {
                    let link = Link { go: tag.go, href: tag.target, text: String::new() };
                    self.page.links.push(link);
                }
            }
            Element::Form => {
                self.is_in_form = has_room;
                if has_room {
                    self.page.forms.push(Form::new(tag.go, &tag.kind, tag.target));
                }
            }
            Element::Input if tag.name == "message" && tag.kind == "checkbox" => {
                if self.page.messages.len() < MARKS_MAX {
                    self.page.messages.push(tag.value);
                }
            }
            Element::Input | Element::Select | Element::Choice => self.on_control(tag),
            Element::Button if tag.go.is_empty() => {}
            Element::Button => {
                if let Some(form) = self.form() {
                    form.add_button(tag.go, tag.target);
                }
            }
            Element::Other => {}
        }
    }

    /// The form that is open.
    fn form(&mut self) -> Option<&mut Form> {
        self.page.forms.last_mut().filter(|_| self.is_in_form)
    }

    fn on_control(&mut self, tag: Tag) {
        let Some(form) = self.form() else { return };
        match tag.element {
            Element::Choice => form.add_choice(tag.value, tag.is_chosen),
            Element::Select => form.add(Control::select(tag.name)),
            _ => form.add(Control::input(tag.name, &tag.kind, tag.value, tag.is_chosen)),
        }
    }
}
