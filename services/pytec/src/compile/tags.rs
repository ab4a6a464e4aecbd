//! The tags of a page: literal HTML, `<%pytec … %>`, `<%= … %>` and `<%include … >`.

use super::indentation::dedented;

/// A stretch of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stretch {
    /// Sent as it is.
    Html(String),
    /// Statements, with the indentation of the page taken away; their first line is that of the tag.
    Block(String),
    /// An expression whose value is written, escaped.
    Value(String),
    /// The name of a file that stands in this place.
    Include(String),
}

/// What is wrong with the tags of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TagError {
    pub(super) line: u32,
    pub(super) message: String,
}

/// The stretches of a page, each with its first line, counted from 1.
pub(super) fn stretches(text: &str) -> Result<Vec<(u32, Stretch)>, TagError> {
    let mut found = Vec::new();
    let mut html = Html::at(1);
    let (mut rest, mut line) = (text, 1);
    while let Some((before, tag)) = rest.split_once("<%") {
        html.text.push_str(before);
        line += lines_in(before);
        if let Some(after) = tag.strip_prefix('%') {
            html.text.push_str("<%");
            rest = after;
            continue;
        }
        html.end(&mut found);
        let (stretch, after) = parsed(tag).map_err(|message| TagError { line, message })?;
        found.push((line, stretch));
        line += lines_in(&tag[..tag.len() - after.len()]);
        html = Html::at(line);
        rest = after;
    }
    html.text.push_str(rest);
    html.end(&mut found);
    Ok(found)
}

/// Literal HTML that is being gathered.
struct Html {
    line: u32,
    text: String,
}

impl Html {
    fn at(line: u32) -> Self {
        Self { line, text: String::new() }
    }

    fn end(&mut self, found: &mut Vec<(u32, Stretch)>) {
        if !self.text.is_empty() {
            found.push((self.line, Stretch::Html(std::mem::take(&mut self.text))));
        }
    }
}

fn lines_in(text: &str) -> u32 {
    u32::try_from(text.matches('\n').count()).unwrap_or(u32::MAX)
}

/// The tag that stands behind `<%`, and what follows it.
fn parsed(tag: &str) -> Result<(Stretch, &str), String> {
    if let Some(value) = tag.strip_prefix('=') {
        let (value, after) = closed(value, "<%=")?;
        return match value.trim() {
            "" => Err("<%= %> is empty: write an expression in it".to_owned()),
            _ => Ok((Stretch::Value(aligned(value)), after)),
        };
    }
    let name_length = tag.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(tag.len());
    let (name, inside) = tag.split_at(name_length);
    match name {
        "pytec" => {
            let (block, after) = closed(inside, "<%pytec")?;
            Ok((Stretch::Block(dedented(block)), after))
        }
        "include" => {
            let unclosed = || "<%include is not closed: write <%include FILE %>".to_owned();
            let (file, after) = inside.split_once('>').ok_or_else(unclosed)?;
            let file = file.strip_suffix('%').unwrap_or(file).trim();
            let file = file.trim_matches(['"', '\'']);
            if file.is_empty() || file.contains(char::is_control) {
                return Err("<%include names no file: write <%include FILE %>".to_owned());
            }
            Ok((Stretch::Include(file.to_owned()), after))
        }
        _ => {
            let shown: String = name.chars().take(20).collect();
            Err(format!(
                "unknown tag `<%{shown}`: write <%pytec, <%= or <%include; for the text <% write <%%"
            ))
        }
    }
}

fn closed<'t>(inside: &'t str, tag: &str) -> Result<(&'t str, &'t str), String> {
    inside.split_once("%>").ok_or_else(|| format!("{tag} is not closed: write %> behind it"))
}

/// An expression without what its first line is indented by, so that Python takes it for none.
fn aligned(value: &str) -> String {
    let code = value.trim_start();
    let before = &value[..value.len() - code.len()];
    "\n".repeat(before.matches('\n').count()) + code.trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(page: &str, expected: &[(u32, Stretch)]) {
        assert_eq!(stretches(page).unwrap(), expected, "{page}");
    }

    fn html(text: &str) -> Stretch {
        Stretch::Html(text.to_owned())
    }

    #[test]
    fn each_stretch_has_its_line() {
        let block = Stretch::Block("\nx = 1\n".to_owned());
        check("a\nb<%pytec\n  x = 1\n%>\nc", &[(1, html("a\nb")), (2, block), (4, html("\nc"))]);
        check("\n<%= x %>!", &[(1, html("\n")), (2, Stretch::Value("x".into())), (2, html("!"))]);
        check("<%=\n x\n%>", &[(1, Stretch::Value("\nx".into()))]);
        check("", &[]);
    }

    #[test]
    fn an_include_is_closed_as_in_the_dissertation_or_as_the_other_tags() {
        let expected = [(1, Stretch::Include("a-b.pyh".into())), (1, html("."))];
        for tag in ["<%include a-b.pyh>", "<%include a-b.pyh %>", "<%include \"a-b.pyh\"%>"] {
            check(&format!("{tag}."), &expected);
        }
    }

    #[test]
    fn two_per_cent_signs_are_a_literal_one() {
        check("a <%% b %> c", &[(1, html("a <% b %> c"))]);
    }

    #[test]
    fn a_mistake_has_its_line_and_the_cure() {
        for (page, line, part) in [
            ("\n\n<%pytec x", 3, "<%pytec is not closed"),
            ("<%= \n %>", 1, "<%= %> is empty"),
            ("\n<%inlcude a.pyh %>", 2, "unknown tag `<%inlcude`"),
            ("<%pytec2 %>", 1, "unknown tag `<%pytec2`"),
            ("<% x %>", 1, "unknown tag `<%`"),
            ("<%include %>", 1, "names no file"),
            ("<%include a", 1, "is not closed"),
        ] {
            let error = stretches(page).unwrap_err();
            assert_eq!(error.line, line, "{page}");
            assert!(error.message.contains(part), "{page}: {}", error.message);
        }
    }
}
