//! Fields that are meant for one connection and must not be forwarded [RFC9110 §7.6.1].

/// The names of those that every HTTP/1 knows, in lower case.
pub(crate) const HOP_BY_HOP: [&str; 6] =
    ["connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];

/// What the `Connection` lines of a head name.
#[derive(Debug, Default)]
pub(crate) struct Named<'a> {
    /// Fields, as they are spelled there.
    fields: Vec<&'a str>,
    /// `close`: no message follows.
    pub(crate) close: bool,
    /// `keep-alive`: more may follow.
    pub(crate) keep_alive: bool,
    /// `upgrade`: the protocol may change.
    pub(crate) upgrade: bool,
}

impl<'a> Named<'a> {
    /// Reads one more line.
    pub(crate) fn read(&mut self, line: &'a [u8]) {
        for token in tokens(line) {
            match token {
                _ if token.eq_ignore_ascii_case("keep-alive") => self.keep_alive = true,
                _ if token.eq_ignore_ascii_case("close") => self.close = true,
                _ if token.eq_ignore_ascii_case("upgrade") => self.upgrade = true,
                // Without these the message would become another one, whatever
                // its sender says.
                _ if token.eq_ignore_ascii_case("host")
                    || token.eq_ignore_ascii_case("content-length") => {}
                _ => self.fields.push(token),
            }
        }
    }

    /// Whether a field of this name is among them.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.eq_ignore_ascii_case(name))
    }
}

/// The elements of a list field's line. A line that is no text has none.
pub(crate) fn tokens(line: &[u8]) -> impl Iterator<Item = &str> {
    let text = std::str::from_utf8(line).unwrap_or_default();
    text.split(',').map(str::trim).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_connection_names_is_read_from_all_its_lines() {
        let mut named = Named::default();
        named.read(b"keep-alive, X-One,");
        named.read(b"x-two,Upgrade, host, Content-Length");
        named.read(b"x-\xff");
        assert!(named.contains("x-one") && named.contains("x-two"));
        assert!(!named.contains("host") && !named.contains("content-length"));
        assert!(named.keep_alive && named.upgrade && !named.close);
    }
}
