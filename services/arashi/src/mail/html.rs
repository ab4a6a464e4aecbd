//! HTML of strangers, made safe: no scripts, no styles, no forms, nothing that loads from
//! elsewhere, nothing that lies over the page or imitates it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ammonia::{Builder, UrlRelative};
use percent_encoding::percent_decode_str;

use super::tags::bounded;

/// The most HTML that is parsed, in bytes: a tag of that many attributes takes a second.
pub(super) const HTML_BYTES_MAX: usize = 512 << 10;

/// HTML that may be put into a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SafeHtml {
    pub(super) html: String,
    /// How many images were left out, each of which would have told the sender that it was seen.
    pub(super) blocked_images: usize,
}

/// The elements that are kept; of all others, their text is.
const ELEMENTS: &str = "a abbr b bdi bdo big blockquote br caption center cite code col colgroup \
    dd del dfn div dl dt em figcaption figure footer h1 h2 h3 h4 h5 h6 header hr i img ins kbd li \
    mark ol p pre q rp rt ruby s samp section small span strike strong sub sup table tbody td \
    tfoot th thead tr tt u ul var";

/// The elements that are dropped with all that they hold.
const DROPPED: &str = "script style title template noscript iframe object svg math";

/// The attributes that are kept, of which elements.
const ATTRIBUTES: [(&str, &[&str]); 13] = [
    ("a", &["href"]),
    ("bdo", &["dir"]),
    ("li", &["value"]),
    ("col", &["align", "span", "width"]),
    ("colgroup", &["align", "span", "width"]),
    ("hr", &["align", "size", "width"]),
    ("img", &["alt", "height", "src", "width"]),
    ("ol", &["start", "type"]),
    ("table", &["align", "border", "cellpadding", "cellspacing", "width"]),
    ("td", &["align", "colspan", "rowspan", "valign", "width"]),
    ("th", &["align", "colspan", "rowspan", "valign", "width"]),
    ("tr", &["align", "valign"]),
    ("ul", &["type"]),
];

/// Makes `html` safe. Images that are attached are shown from where `attachment` says that the
/// one with an identifier is; all others are left out. None if `html` is too long or has too many
/// tags to be parsed.
pub(super) fn sanitise(
    html: &str,
    attachment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
) -> Option<SafeHtml> {
    if html.len() > HTML_BYTES_MAX {
        return None;
    }
    let html = bounded(html)?;
    let blocked = Arc::new(AtomicUsize::new(0));
    let blocked_images = Arc::clone(&blocked);
    let attributes = ATTRIBUTES.iter().map(|(name, kept)| (*name, kept.iter().copied().collect()));
    let mut builder = Builder::empty();
    builder
        .tags(ELEMENTS.split(' ').collect())
        .clean_content_tags(DROPPED.split(' ').collect())
        .tag_attributes(attributes.collect::<HashMap<&str, HashSet<&str>>>())
        .generic_attributes(["dir", "lang", "title"].into())
        .url_schemes(["http", "https", "mailto", "cid"].into())
        .url_relative(UrlRelative::PassThrough)
        .link_rel(Some("noopener noreferrer nofollow"))
        .set_tag_attribute_value("a", "target", "_blank")
        .attribute_filter(move |element, attribute, value| match (element, attribute) {
            ("img", "src") => {
                let shown = cid(value).and_then(|identifier| {
                    // Many write identifiers as they are, against [RFC 2392 §2].
                    attachment(identifier)
                        .or_else(|| attachment(&percent_decode_str(identifier).decode_utf8_lossy()))
                });
                if shown.is_none() {
                    blocked.fetch_add(1, Ordering::Relaxed);
                }
                shown.map(Cow::Owned)
            }
            // What is relative would be an address of this site.
            (_, "href") => has_scheme(value).then_some(Cow::Borrowed(value)),
            ("img", "width" | "height") => is_size(value).then_some(Cow::Borrowed(value)),
            _ => Some(Cow::Borrowed(value)),
        });
    let html = builder.clean(&html).to_string();
    Some(SafeHtml { html, blocked_images: blocked_images.load(Ordering::Relaxed) })
}

/// The identifier that a `cid:` URL names.
fn cid(url: &str) -> Option<&str> {
    let url = url.trim();
    let scheme = url.get(..4)?;
    scheme.eq_ignore_ascii_case("cid:").then(|| &url[4..])
}

fn has_scheme(url: &str) -> bool {
    let url = url.trim_start();
    ["http://", "https://", "mailto:"].iter().any(|scheme| {
        url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
}

/// Whether a browser's image of this size stays a picture in the text.
fn is_size(value: &str) -> bool {
    value.len() <= 4 && value.bytes().all(|byte| byte.is_ascii_digit())
}
