//! The files beside pages that browsers are sent, by their endings, and what they are.

/// The `Content-Type` of a file by its name; `None` if its ending is not one that is meant for
/// browsers: a database, a key or a configuration may lie beside the pages.
pub(crate) fn content_type(name: &str) -> Option<&'static str> {
    let (_, ending) = name.rsplit('/').next()?.rsplit_once('.')?;
    Some(match ending.to_ascii_lowercase().as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "txt" => "text/plain; charset=utf-8",
        "vtt" => "text/vtt; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "xml" => "application/xml",
        "rss" => "application/rss+xml",
        "atom" => "application/atom+xml",
        "wasm" => "application/wasm",
        "pdf" => "application/pdf",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "apng" => "image/apng",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "ico" => "image/x-icon",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "otf" => "font/otf",
        "mp3" => "audio/mpeg",
        "m4a" => "audio/mp4",
        "aac" => "audio/aac",
        "oga" | "ogg" | "opus" => "audio/ogg",
        "wav" => "audio/wav",
        "flac" => "audio/flac",
        "weba" => "audio/webm",
        "mp4" | "m4v" => "video/mp4",
        "ogv" => "video/ogg",
        "webm" => "video/webm",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_ending_of_a_file_counts() {
        for (name, expected) in [
            ("a.css", Some("text/css; charset=utf-8")),
            ("a/b.min.JS", Some("text/javascript; charset=utf-8")),
            ("data.db", None),
            ("a.html/data", None),
            ("a.html.db", None),
            ("id_rsa", None),
            ("html", None),
            ("a.", None),
            ("a.html ", None),
            ("a.ht\u{6d}\u{131}l", None),
            ("a.\u{ff48}tml", None),
        ] {
            assert_eq!(content_type(name), expected, "{name:?}");
        }
    }
}
