//! HTML of attackers: whatever it tries, the page that it is put into stays what it is.

use std::time::Instant;

use tamarisk_arashi::mail::Mail;

fn mail(html: &str) -> Mail {
    let raw =
        format!("From: a@example.org\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{html}");
    Mail::parse_with_images(raw.as_bytes(), Some("/attachment?id=7&part="))
}

fn check(html: &str, expected: &str) {
    // In any order.
    let [target, rel] = ["target=\"_blank\"", "rel=\"noopener noreferrer nofollow\""];
    let found = mail(html).html.expect("it is HTML");
    let found = found.replace(&format!("{rel} {target}"), &format!("{target} {rel}"));
    assert_eq!(found, expected, "{html}");
}

#[test]
fn scripts_are_dropped_however_they_are_hidden() {
    check("a<script>alert(1)</script>b", "ab");
    check("a<ScRiPt src=//example.org/x></sCrIpT >b", "ab");
    check("<scr<script>ipt>alert(1)</scr</script>ipt>", "ipt&gt;alert(1)ipt&gt;");
    check("<svg><script>alert(1)</script></svg>b", "b");
    check("<svg/onload=alert(1)>b", "");
    check("<math><mi//xlink:href=\"data:x,<script>alert(4)</script>\">b", "");
    check("<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>", "");
    check("<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>", "");
    check("<svg></p><style><a id=\"</style><img src=1 onerror=alert(1)>\">", "<p></p><img>\"&gt;");
    check("<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">b", "<img>\"&gt;b");
    check("<template><script>alert(1)</script></template>b", "b");
    check("<xmp><p title=\"</xmp><svg/onload=alert(1)>\">", "&lt;p title=\"");
    check("<textarea></textarea><img src=x onerror=alert(1)>", "<img>");
    check("<title><a href=\"</title><img src=x onerror=alert(1)>\">b", "<img>\"&gt;b");
    check("<iframe srcdoc=\"<script>alert(1)</script>\"></iframe>b", "b");
    check("<object data=\"data:text/html,x\"></object><embed src=x>b", "b");
    check("<applet code=x></applet><frameset><frame src=x></frameset>b", "b");
}

#[test]
fn comments_and_sections_hide_nothing() {
    check("<!-- <script>alert(1)</script> -->b", "b");
    check("<!--><img src=x onerror=alert(1)>-->", "<img>--&gt;");
    check("<!-- --!><img src=x onerror=alert(1)> -->", "<img> --&gt;");
    check("<!-- <!-- --> <script>alert(1)</script> -->b", "  --&gt;b");
    check("<![CDATA[<script>alert(1)</script>]]>b", "alert(1)]]&gt;b");
    check("<svg><![CDATA[</svg><img src=x onerror=alert(1)>]]></svg>b", "b");
    check("<!--[if mso]><script>alert(1)</script><![endif]-->b", "b");
    check("<?xml version=\"1.0\"?><script>alert(1)</script>b", "b");
    check("a\0<scr\0ipt>alert(1)</scr\0ipt>", "aalert(1)");
}

#[test]
fn attributes_execute_nothing() {
    check("<p onclick=alert(1) ONMOUSEOVER=\"alert(1)\">b</p>", "<p>b</p>");
    check("<img src=x onerror=alert(1)>", "<img>");
    check("<img src=\"`><script>alert(1)</script>\">", "<img>");
    check(
        "<a/onclick=alert(1)/href=http://example.org/>b</a>",
        "<a target=\"_blank\" rel=\"noopener noreferrer nofollow\">b</a>",
    );
    check("<p style=\"width: expression(alert(1))\">b</p>", "<p>b</p>");
    check(
        "<p style=\"position:fixed;top:0;background:url(http://example.org/)\">b</p>",
        "<p>b</p>",
    );
    check("<style>@import 'http://example.org/';body{display:none}</style>b", "b");
    check("<link rel=stylesheet href=http://example.org/>b", "b");
    check("<p id=logout class=button name=csrf data-go=log-out>b</p>", "<p>b</p>");
    check(
        "<table background=http://example.org/seen><tr><td>b</td></tr></table>",
        "<table><tbody><tr><td>b</td></tr></tbody></table>",
    );
    check(
        "<p title='\" onclick=alert(1) \"'>b</p>",
        "<p title=\"&quot; onclick=alert(1) &quot;\">b</p>",
    );
}

#[test]
fn links_lead_to_the_web_and_to_mail_only() {
    let nowhere = "<a target=\"_blank\" rel=\"noopener noreferrer nofollow\">b</a>";
    for href in [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        " \u{1}javascript:alert(1)",
        "java\tscript:alert(1)",
        "java&#10;script:alert(1)",
        "&#106;&#97;vascript&colon;alert(1)",
        "&#x6A;avascript:alert(1)",
        "javascript&#0000058alert(1)",
        "vbscript:msgbox(1)",
        "data:text/html,<script>alert(1)</script>",
        "data:text/html;base64,PHNjcmlwdD4=",
        "file:///etc/passwd",
        "blob:http://example.org/1",
        "view-source:http://example.org/",
        "/logout",
        "//example.org/",
        "?id=8",
        "#top",
        "cid:1",
        "",
    ] {
        check(&format!("<a href=\"{href}\">b</a>"), nowhere);
    }
    check(
        "<a href=\"http://example.org/?a=1&amp;b=%22\" target=_self rel=opener>b</a>",
        "<a href=\"http://example.org/?a=1&amp;b=%22\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">b</a>",
    );
    check(
        "<a href=\"mailto:a@example.org\">b</a>",
        "<a href=\"mailto:a@example.org\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">b</a>",
    );
    check("<base href=\"http://example.org/\"><a href=\"/x\">b</a>", nowhere);
    check("<map name=x><area href=javascript:alert(1)></map>b", "b");
}

#[test]
fn nothing_acts_for_the_reader() {
    check("<form action=/logout method=post><input name=csrf><button>b</button></form>", "b");
    check("<button formaction=javascript:alert(1)>b</button>", "b");
    check("<input type=image src=http://example.org/seen>b", "b");
    check("<meta http-equiv=refresh content=\"0;url=http://example.org/\">b", "b");
    check("<video src=http://example.org/seen autoplay></video><audio src=x></audio>b", "b");
    check("<dialog open>b</dialog>", "b");
    check("<html><body background=x onload=alert(1)><p>b", "<p>b</p>");
    check("</div></main></body><p>b</p>", "<p>b</p>");
    check("<plaintext>b</p>", "b&lt;/p&gt;");
    check("<select><option>b</select>", "b");
}

#[test]
fn images_of_strangers_are_counted_and_not_loaded() {
    let mail = mail(
        "<img src=http://example.org/1><img src=//example.org/2><img src=cid:none><img srcset=x>\
         <img src='data:image/svg+xml,<svg onload=alert(1)>'><img src=1.png width=9999999 height=1>",
    );
    let html = mail.html.unwrap();
    assert_eq!(html, "<img><img><img><img><img><img height=\"1\">");
    assert_eq!(mail.blocked_images, 4);
}

#[test]
fn what_would_take_too_long_is_shown_as_text() {
    // Each paragraph would open all formatting again: millions of elements.
    let tangled: String = (0..20_000).map(|size| format!("<font size={size}><p>x")).collect();
    let nested = "<div>".repeat(100_000) + "deep";
    let spans = "<span>".repeat(50_000) + &"<p>x".repeat(50_000);
    let long = "<p>x</p>".repeat(200_000);
    for html in [tangled, nested, spans, long] {
        let mail = mail(&html);
        assert_eq!(mail.html, None);
        assert!(mail.text.is_some());
        assert_eq!(mail.defects.len(), 1, "{:?}", mail.defects);
    }
}

#[test]
fn what_is_shown_takes_little_time() {
    let start = Instant::now();
    let shown = |html: String| {
        let mail = mail(&html);
        assert!(
            mail.html.as_ref().is_some_and(|shown| shown.len() < 8 << 20),
            "{:?}",
            mail.defects
        );
    };
    shown((0..4_900).map(|size| format!("<font size={size}><p>x")).collect());
    shown(
        ["b", "i", "u", "s", "tt", "em", "big", "code"]
            .map(|name| format!("<{name}>").repeat(600))
            .concat()
            + &"<p>x".repeat(4_900),
    );
    shown("<div>".repeat(9_900));
    shown("<span>".repeat(4_900) + &"<p>x".repeat(4_900));
    shown("<a href=x><div>".repeat(4_900));
    shown("<table><tr><td>".repeat(3_300));
    shown("<table>x".repeat(9_900));
    shown("<b><table>".repeat(4_900) + "x");
    shown("&lt;".repeat(100_000));
    shown("x".repeat(1 << 18));
    shown("<p title=\"".to_owned() + &"x".repeat(1 << 18));
    shown(
        "<p ".to_owned() + &(0..50_000).map(|name| format!("a{name} ")).collect::<String>() + ">x",
    );
    // In a moment on a machine of its own; not in minutes on a busy one.
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}
