//! The reader of configuration files.

use http::{HeaderMap, Method};
use tamarisk_h1::grammar::is_host;
use tamarisk_proxy::HostHeader;

use crate::Options;
use crate::config::parse;

#[path = "../../../../fuzz/shown.rs"]
mod shown;

/// What `input` says makes options that hold together, or a mistake that is shown
/// at a place in it.
///
/// # Panics
/// If it does not.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match parse("site.toml", text) {
        Ok(options) => holds_together(&options, text),
        Err(mistake) => shown::is_shown(&mistake, text),
    }
}

fn holds_together(options: &Options, text: &str) {
    assert!(!options.upstreams.is_empty());
    for upstream in &options.upstreams {
        assert!(!upstream.connect_time.is_zero() && !upstream.answer_time.is_zero());
        assert_eq!(upstream.origin.to_string().parse(), Ok(upstream.origin.clone()));
        if let HostHeader::Fixed(host) = &upstream.host_header {
            assert!(!host.is_empty() && is_host(host.as_bytes()), "{host:?}");
        }
    }
    // Every string of the file may be a path or a host that leads somewhere.
    for word in text.split('"') {
        let client = || [192, 0, 2, 1].into();
        let chosen = options.routes.choose(
            &Method::GET,
            || Some(word),
            if word.starts_with('/') { word } else { "/" },
            &HeaderMap::new(),
            client,
        );
        if let Some(choice) = chosen {
            let classes = &options.upstreams[choice.upstream].classes;
            assert!(classes.iter().any(|(class, _)| class == choice.class), "{choice:?}");
        }
    }
}
