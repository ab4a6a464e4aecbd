//! Mail that means harm: nothing in it runs, nothing is fetched.

use serde_json::{Value, json};
use tamarisk_arashi::store::AccountClass;

use crate::browser::chromium::{Chromium, until};
use crate::browser::outsider::Outsider;
use crate::web::served::{PASSWORD, Served};

/// HTML that does what it can in a browser that shows it as it is.
fn attack(site: &str) -> String {
    format!(
        r#"<html><head><meta http-equiv="refresh" content="1;url={site}/refresh">
<base href="{site}/base/">
<link rel="stylesheet" href="{site}/link.css"><link rel="prefetch" href="{site}/prefetch">
<style>@import "{site}/import.css"; body {{ background: url({site}/style.png) }}</style>
<script>window.__x = 1; fetch("{site}/fetch")</script><script src="{site}/script.js"></script>
</head><body onload="window.__x = 2; document.forms[0].submit()" background="{site}/background.png">
<p>Dear reader</p>
<img src="x" onerror="window.__x = 3; new Image().src = '{site}/error'">
<img src="{site}/pixel.png"><img srcset="{site}/set.png 1x"><picture><source srcset="{site}/source.png"><img></picture>
<svg onload="window.__x = 4"><image href="{site}/svg.png"/><script>window.__x = 5</script></svg>
<noscript><p title="</noscript><img src=x onerror=window.__x=7>"></noscript>
<video autoplay poster="{site}/poster.png" src="{site}/video" onerror="window.__x = 8"></video>
<audio autoplay src="{site}/audio"></audio><input type="image" src="{site}/input.png">
<input autofocus onfocus="window.__x = 9"><details open ontoggle="window.__x = 10"></details>
<iframe src="{site}/frame"></iframe><iframe srcdoc="<script>parent.__x = 11</script>"></iframe>
<object data="{site}/object"></object><embed src="{site}/embed">
<div style="background: url('{site}/inline.png'); position: fixed; inset: 0">over all</div>
<a id="lure" href="javascript:window.__x=12">lure</a> <a href="data:text/html,<script>opener.__x=13</script>">data</a>
<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=window.__x=6&gt;">
<form id="f" action="{site}/form"><input name="q"></form>
</body></html>"#
    )
}

#[test]
fn nothing_runs_and_nothing_is_fetched() {
    let chromium = Chromium::start();
    let served = Served::start();
    let site = Outsider::start(attack);
    let ada = served.user("ada", AccountClass::Gold, 1);
    let html = attack(&site.url).replace('\n', "\r\n");
    let script = "<script>window.__x=20;alert(20)</script><img src=x onerror=alert(21)>";
    let raw = format!(
        "From: \"{script}\" <eve@example.org>\r\nTo: ada@example.org\r\nSubject: {script}\r\n\
         Date: Tue, 4 Nov 2025 10:00:00 +0000\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\
         Content-Type: text/html; charset=utf-8\r\n\r\n{html}\r\n--b\r\n\
         Content-Type: image/svg+xml; name=\"{script}.svg\"\r\n\
         Content-Disposition: attachment; filename=\"{script}.svg\"\r\n\r\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(22)</script></svg>\r\n--b--\r\n"
    );
    let message = served.deliver(ada, raw.as_bytes()).0;
    let text = format!("Subject: text\r\n\r\n{script}\r\njavascript:alert(23)\r\n");
    let text = served.deliver(ada, text.as_bytes()).0;

    let url = format!("http://{}", served.address);
    chromium.log_in(&url, "ada", PASSWORD);
    chromium.shows("folders", "3 unread messages");
    chromium.click_text("[data-go=folder]", "Inbox");
    chromium.shows("list", script);
    for (path, page, shown) in [
        (format!("/message?id={message}"), "message", script),
        (format!("/message?id={message}&source=1"), "message", "Dear reader"),
        (format!("/message?id={text}"), "message", script),
        (format!("/compose?reply={message}"), "compose", "Reply"),
        ("/search?q=%3Cscript%3Ealert(24)%3C/script%3E".into(), "search", "<script>alert(24)"),
        ("/search?q=alert(21)".into(), "search", script),
        (format!("/message?id={message}"), "message", script),
    ] {
        chromium.open(&format!("{url}{path}"));
        chromium.shows(page, shown);
        assert_eq!(chromium.dialog(), None, "{path}");
        assert_eq!(chromium.script("return window.__x ?? null"), Value::Null, "{path}");
        // Of the stranger's markup nothing has become an element of our page.
        let own = "return document.querySelectorAll('script, [onerror], main img, base').length";
        assert_eq!(chromium.script(own), 0, "{path}");
    }

    // In the frame is the text, and nothing that acts; the lure leads nowhere.
    chromium.enter_frame("iframe");
    until(
        || format!("no text in the frame: {}", chromium.page_text()),
        || chromium.page_text().contains("Dear reader").then_some(()),
    );
    let acting = "return [...document.querySelectorAll('*')].filter(element => \
         ['SCRIPT', 'IFRAME', 'OBJECT', 'EMBED', 'FORM', 'META', 'SVG', 'VIDEO'].includes(element.tagName) \
         && element.charset !== 'utf-8' && !element.hasAttribute('charset') \
         || [...element.attributes].some(attribute => /^on|^javascript:/i.test(attribute.name) \
         || /^javascript:/i.test(attribute.value))).map(element => element.outerHTML)";
    assert_eq!(chromium.script(acting), json!([]));
    chromium.click_text("body *", "lure");
    assert_eq!(chromium.script("return window.__x ?? parent.__x ?? null"), Value::Null);
    chromium.leave_frame();
    assert_eq!(chromium.dialog(), None);
    assert_eq!(chromium.windows().len(), 1);
    assert_eq!(chromium.url(), format!("{url}/message?id={message}"));
    assert_eq!(site.requests(), [""; 0]);

    // An attached image with a script in it is saved, and not shown.
    chromium.click(".attachments a");
    assert_eq!(chromium.url(), format!("{url}/message?id={message}"));
    assert_eq!(chromium.dialog(), None);

    // This browser does run and fetch all that where nothing keeps it from doing so.
    // It goes from page to page by itself, so nobody waits until it is loaded.
    chromium.script(&format!("setTimeout(() => location = '{}')", site.url));
    let fetched = |path: &str| site.requests().iter().any(|head| head.contains(path));
    for path in ["/fetch", "/error", "/pixel.png", "/import.css", "/inline.png", "/form?q="] {
        until(|| format!("{path} is not fetched"), || fetched(path).then_some(()));
    }
}
