//! The bearer token that authorises changes over the status port.

use std::hint::black_box;
use std::io::{self, Read};
use std::path::PathBuf;

/// Shorter ones could be guessed: sixteen random characters are some 96 bits.
const LENGTH_MIN: usize = 16;
/// More than any generator makes, and little to compare.
const LENGTH_MAX: usize = 1024;

/// Where a token stands. It never does on a command line, which others can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSource {
    /// In a file, alone; white space about it does not count.
    File(PathBuf),
    /// In this variable of the environment.
    Environment(String),
}

/// Why what stands there is no token.
#[derive(Debug, thiserror::Error)]
pub enum InvalidToken {
    /// The file cannot be read.
    #[error("cannot read the token in {file}: {source}")]
    Unreadable {
        /// Its path.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// The environment has no such variable, or it is no text.
    #[error("the environment variable {0} is not set")]
    Unset(String),
    /// Too easily guessed, or not what a header can carry.
    #[error(
        "the token in {0} has to be {LENGTH_MIN} to {LENGTH_MAX} visible ASCII characters: \
         make one with `openssl rand -hex 32`"
    )]
    Unfit(String),
}

/// A secret that allows changes.
#[derive(Clone)]
pub struct Token(Box<[u8]>);

impl TokenSource {
    /// What stands there.
    ///
    /// # Errors
    /// [`InvalidToken`] if that is no token.
    pub fn read(&self) -> Result<Token, InvalidToken> {
        let (place, text) = match self {
            Self::File(path) => {
                let file = path.display().to_string();
                let mut text = String::new();
                // One byte more than can be right: an endless file is read no further.
                let most = 2 * LENGTH_MAX as u64;
                let read = std::fs::File::open(path)
                    .and_then(|open| open.take(most).read_to_string(&mut text));
                match read {
                    Ok(_) => (file, text),
                    Err(source) => return Err(InvalidToken::Unreadable { file, source }),
                }
            }
            Self::Environment(name) => {
                let text = std::env::var(name).map_err(|_| InvalidToken::Unset(name.clone()))?;
                (name.clone(), text)
            }
        };
        Token::new(text.trim()).ok_or(InvalidToken::Unfit(place))
    }
}

impl Token {
    /// `text`, if it can be a token.
    pub fn new(text: &str) -> Option<Self> {
        let fits = (LENGTH_MIN..=LENGTH_MAX).contains(&text.len());
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        (fits && visible).then(|| Self(text.as_bytes().into()))
    }

    /// Whether `given` is the token. How long that takes depends on the length of what
    /// was given alone, and so tells nothing of the token.
    pub(super) fn is(&self, given: &[u8]) -> bool {
        let given = &given[..given.len().min(2 * LENGTH_MAX)];
        let mut differ = self.0.len() ^ given.len();
        for (index, byte) in given.iter().enumerate() {
            differ |= usize::from(black_box(self.0[index % self.0.len()] ^ byte));
        }
        black_box(differ) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_is_the_token() {
        let text = "0123456789abcdef";
        let token = Token::new(text).unwrap();
        assert!(token.is(text.as_bytes()));
        for other in ["", "0123456789abcde", "0123456789abcdeF", "1123456789abcdef"] {
            assert!(!token.is(other.as_bytes()), "{other}");
        }
        assert!(!token.is(text.repeat(2).as_bytes()));
        assert!(!token.is(text.repeat(10_000).as_bytes()));
    }

    #[test]
    fn what_can_be_guessed_or_not_be_sent_is_no_token() {
        assert!(Token::new("short").is_none());
        assert!(Token::new("0123456789 abcdef").is_none());
        assert!(Token::new("0123456789abcdéf").is_none());
        assert!(Token::new(&"x".repeat(LENGTH_MAX + 1)).is_none());
    }

    #[test]
    fn a_missing_variable_or_file_is_named() {
        let missing = TokenSource::Environment("TAMARISK_NO_SUCH_VARIABLE".to_owned());
        assert!(missing.read().err().unwrap().to_string().contains("TAMARISK_NO_SUCH_VARIABLE"));
        let missing = TokenSource::File("/no/such/token".into());
        assert!(missing.read().err().unwrap().to_string().contains("/no/such/token"));
    }
}
