//! A form of a page, and how it is filled in and sent.

use bytes::Bytes;
use form_urlencoded::Serializer;
use http::Method;

/// A form.
#[derive(Debug)]
pub(crate) struct Form {
    /// What it is for, as its mark says.
    go: String,
    pub(crate) method: Method,
    action: String,
    controls: Vec<Control>,
    buttons: Vec<MarkedButton>,
}

/// A button that sends its form elsewhere.
#[derive(Debug)]
struct MarkedButton {
    go: String,
    action: String,
}

/// What a form is filled in with.
#[derive(Debug)]
pub(crate) struct Control {
    name: String,
    value: String,
    kind: ControlKind,
}

#[derive(Debug, PartialEq, Eq)]
enum ControlKind {
    /// Sent as it is.
    Hidden,
    /// Sent as it is, or not at all if it is not ticked.
    Box {
        is_ticked: bool,
    },
    Text,
    Password,
    /// One of these values; the value is the one chosen in the page.
    Select(Vec<String>),
    /// A button, which is not pressed.
    Button,
}

/// What a user writes into a form.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filling<'f> {
    /// Into all fields for text.
    pub(crate) text: &'f str,
    pub(crate) password: &'f str,
    /// The message that is ticked.
    pub(crate) message: Option<&'f str>,
    /// From `0.0..1.0`: what is chosen in lists of values, instead of what the page chooses.
    pub(crate) choice: Option<f64>,
}

/// A form on its way.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) path: String,
    pub(crate) body: Bytes,
}

/// Controls of a form, and values of a list, at most.
const CONTROLS_MAX: usize = 10_000;

impl Form {
    pub(crate) fn new(go: String, method: &str, action: String) -> Self {
        let is_post = method.eq_ignore_ascii_case("post");
        let method = if is_post { Method::POST } else { Method::GET };
        Self { go, method, action, controls: Vec::new(), buttons: Vec::new() }
    }

    pub(crate) fn add(&mut self, control: Control) {
        if self.controls.len() < CONTROLS_MAX {
            self.controls.push(control);
        }
    }

    /// Adds a button with a mark of its own, which sends the form to `action`.
    pub(crate) fn add_button(&mut self, go: String, action: String) {
        if self.buttons.len() < CONTROLS_MAX {
            self.buttons.push(MarkedButton { go, action });
        }
    }

    /// Where it leads, if it is for this, or has a button for it.
    pub(crate) fn action_for(&self, go: &str) -> Option<&str> {
        if self.go == go {
            return Some(&self.action);
        }
        self.buttons.iter().find(|button| button.go == go).map(|button| &*button.action)
    }

    /// Adds a value to the last list of them.
    pub(crate) fn add_choice(&mut self, value: String, is_chosen: bool) {
        let Some(select) = self.controls.last_mut() else { return };
        let ControlKind::Select(choices) = &mut select.kind else { return };
        if choices.is_empty() || is_chosen {
            select.value.clone_from(&value);
        }
        if choices.len() < CONTROLS_MAX {
            choices.push(value);
        }
    }

    /// Whether it has a list with a value to choose.
    pub(crate) fn has_choice(&self) -> bool {
        let has_choice = |control: &Control| matches!(&control.kind, ControlKind::Select(choices) if !choices.is_empty());
        self.controls.iter().any(has_choice)
    }

    /// Whether it says itself which message it is about.
    pub(crate) fn has_message(&self) -> bool {
        self.controls.iter().any(|control| control.name == "message")
    }

    /// The form as a browser sends it to `action`.
    pub(crate) fn fill_in(&self, action: &str, filling: Filling<'_>) -> Sent {
        let mut fields = Serializer::new(String::new());
        for control in self.controls.iter().filter(|control| !control.name.is_empty()) {
            let value = match &control.kind {
                ControlKind::Hidden | ControlKind::Box { is_ticked: true } => &control.value,
                ControlKind::Text => filling.text,
                ControlKind::Password => filling.password,
                ControlKind::Select(choices) => match filling.choice {
                    Some(draw) => choices
                        .get((draw * choices.len() as f64) as usize)
                        .unwrap_or(&control.value),
                    None => &control.value,
                },
                ControlKind::Box { is_ticked: false } | ControlKind::Button => continue,
            };
            fields.append_pair(&control.name, value);
        }
        if let Some(message) = filling.message {
            fields.append_pair("message", message);
        }
        let fields = fields.finish();
        if self.method == Method::POST {
            return Sent { path: action.to_owned(), body: fields.into() };
        }
        // What the action asks for already gives way to the form [HTML, form submission].
        let path = action.split('?').next().unwrap_or_default();
        Sent { path: format!("{path}?{fields}"), body: Bytes::new() }
    }
}

impl Control {
    pub(crate) fn input(name: String, kind: &str, value: String, is_ticked: bool) -> Self {
        let kind = match kind.to_ascii_lowercase().as_str() {
            "hidden" => ControlKind::Hidden,
            "checkbox" | "radio" => ControlKind::Box { is_ticked },
            "password" => ControlKind::Password,
            "submit" | "button" | "reset" | "image" | "file" => ControlKind::Button,
            _ => ControlKind::Text,
        };
        Self { name, value, kind }
    }

    pub(crate) fn select(name: String) -> Self {
        Self { name, value: String::new(), kind: ControlKind::Select(Vec::new()) }
    }
}
