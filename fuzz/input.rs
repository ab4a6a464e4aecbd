/// A line of words that says how to use the bytes behind it, and these bytes:
/// `HEAD 5 1`, then an answer to a `HEAD` that comes five bytes and one byte in turn.
#[derive(Debug)]
pub(crate) struct Input<'a> {
    words: Vec<&'a str>,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(input: &'a [u8]) -> Self {
        let end = input.iter().position(|&byte| byte == b'\n').unwrap_or(input.len());
        let line = std::str::from_utf8(&input[..end]).unwrap_or_default();
        let bytes = input.get(end + 1..).unwrap_or_default();
        Self { words: line.split_ascii_whitespace().collect(), bytes }
    }

    /// Whether `word` is among the words.
    pub(crate) fn says(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    /// The words that are numbers.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = usize> + Clone {
        self.words.iter().filter_map(|word| word.parse().ok())
    }

    /// The bytes in pieces of as many bytes as the numbers say, over and over;
    /// whole if there are none.
    pub(crate) fn pieces(&self) -> Vec<&'a [u8]> {
        let mut sizes = self.numbers().filter(|size| *size > 0).cycle();
        let mut rest = self.bytes;
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let size = sizes.next().unwrap_or(rest.len()).min(rest.len());
            let (piece, behind) = rest.split_at(size);
            pieces.push(piece);
            rest = behind;
        }
        pieces
    }
}
