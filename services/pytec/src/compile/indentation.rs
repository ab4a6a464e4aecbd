//! The indentation of a block, which is HTML's, taken away from its Python.

/// How far a suite is indented that begins on the line of its tag.
const SUITE: &str = "    ";

/// The block with the margin taken away, line for line. The margin is the indentation of the first
/// line that has code; where code begins on the line of the tag, it is what the lines below have in
/// common, and if that first line ends with `:`, they are its suite.
pub(super) fn dedented(block: &str) -> String {
    let (first, rest) = block.split_once('\n').unwrap_or((block, ""));
    let first = first.trim();
    let has_code = !first.is_empty() && !first.starts_with('#');
    let mut coded = rest.lines().filter(|line| is_code(line));
    let margin = match coded.next().map(indentation) {
        None => "",
        Some(margin) if !has_code => margin,
        Some(margin) => coded.fold(margin, |margin, line| common(margin, indentation(line))),
    };
    let without = |line: &str| line.strip_prefix(margin).unwrap_or(line).to_owned();
    let mut lines: Vec<String> = rest.split('\n').map(without).collect();
    let first_is_flush =
        lines.iter().find(|line| is_code(line)).is_some_and(|line| indentation(line).is_empty());
    if has_code && without_comment(first).ends_with(':') && first_is_flush {
        lines = lines.iter().map(|line| format!("{SUITE}{line}")).collect();
    }
    let body = lines.join("\n");
    // What stands before the closing tag on its line is no code, but would be read as indentation.
    let body = body.trim_end_matches([' ', '\t']);
    if block.contains('\n') { format!("{first}\n{body}") } else { first.to_owned() }
}

fn is_code(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with('#')
}

/// The line up to a `#` that stands outside of quotes. Three quotes are an empty string and a quote.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut characters = line.char_indices();
    while let Some((at, character)) = characters.next() {
        match quote {
            None if character == '#' => return line[..at].trim_end(),
            None if matches!(character, '\'' | '"') => quote = Some(character),
            Some(_) if character == '\\' => {
                characters.next();
            }
            Some(open) if open == character => quote = None,
            _ => {}
        }
    }
    line
}

fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

fn common<'l>(one: &'l str, other: &str) -> &'l str {
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other);
    &one[..same.count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(block: &str, expected: &str) {
        assert_eq!(dedented(block), expected, "{block:?}");
    }

    #[test]
    fn the_first_line_of_code_is_the_margin() {
        check("\n    if x:\n        y()\n  ", "\nif x:\n    y()\n");
        check("\n\tx\n\ty\n", "\nx\ny\n");
        check("\n  # of no matter\n    x\n    y\n", "\n  # of no matter\nx\ny\n");
    }

    #[test]
    fn text_in_a_string_keeps_what_is_less_than_the_margin() {
        check("\n    x = '''\n  a\n      b'''\n", "\nx = '''\n  a\n  b'''\n");
    }

    #[test]
    fn code_may_begin_on_the_line_of_the_tag() {
        check(" x = 1 ", "x = 1");
        check(" x = 1\n   y = 2\n", "x = 1\ny = 2\n");
        check(" x = (1,\n      2)\n   y = 3", "x = (1,\n   2)\ny = 3");
        check(" if x:\n     y()\n  ", "if x:\n    y()\n    ".trim_end_matches(' '));
        check(" if x:\n     y()\n  else:\n     z()", "if x:\n   y()\nelse:\n   z()");
    }

    #[test]
    fn a_comment_on_the_line_of_the_tag_neither_hides_nor_makes_a_suite() {
        check(" if x:  # why\n     y()\n", "if x:  # why\n    y()\n");
        check(" x = 1  # note:\n  y = 2", "x = 1  # note:\ny = 2");
        check(" if x == '#':\n  y()", "if x == '#':\n    y()");
        check(" if x == \"'#\\\"#\": # '\n  y()", "if x == \"'#\\\"#\": # '\n    y()");
    }

    #[test]
    fn nothing_is_nothing() {
        check("", "");
        check(" \n \n", "\n \n");
    }
}
