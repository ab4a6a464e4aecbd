//! Messages as they are shown: ordinary ones, and ones that are broken.

use tamarisk_arashi::mail::{Draft, Mail, attachment, compose, linkify, new_message};

const ORDINARY: &str = "From: =?iso-8859-1?Q?J=F6rg?= <joerg@example.org>\r\n\
    To: one@example.org, Two <two@example.org>\r\nCc: three@example.org\r\n\
    Subject: =?utf-8?B?R3LDvMOfZQ==?=\r\nDate: Tue, 01 Jul 2003 10:52:37 +0200\r\n\
    MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=outer\r\n\r\n\
    --outer\r\nContent-Type: multipart/alternative; boundary=inner\r\n\r\n\
    --inner\r\nContent-Type: text/plain; charset=iso-8859-1\r\n\
    Content-Transfer-Encoding: quoted-printable\r\n\r\nF=FCr Sie: http://example.org/a?b=3D1&c=3D2\r\n> as before\r\n\
    --inner\r\nContent-Type: text/html; charset=utf-8\r\n\r\n\
    <p>Für <b>Sie</b> <img src=\"cid:logo@example\"><img src=\"http://example.org/seen.gif\"></p>\r\n\
    --inner--\r\n--outer\r\nContent-Type: image/png; name=\"../../logo.png\"\r\nContent-ID: <logo@example>\r\n\
    Content-Transfer-Encoding: base64\r\n\r\niVBORw0KGgo=\r\n\
    --outer\r\nContent-Type: text/html; name*=utf-8''na%C3%AFve.html\r\n\
    Content-Disposition: attachment\r\n\r\n<script>alert(1)</script>\r\n--outer--\r\n";

#[test]
fn reads_an_ordinary_message() {
    let mail = Mail::parse_with_images(ORDINARY.as_bytes(), Some("/attachment?id=7&part="));
    assert_eq!(mail.from, "Jörg <joerg@example.org>");
    assert_eq!(mail.to, "one@example.org, Two <two@example.org>");
    assert_eq!(mail.cc, "three@example.org");
    assert_eq!(mail.subject, "Grüße");
    assert_eq!(mail.date_seconds, Some(1_057_049_557));
    assert_eq!(mail.text.as_deref(), Some("Für Sie: http://example.org/a?b=1&c=2\n> as before"));
    let html = mail.html.expect("it has HTML");
    assert_eq!(html.trim(), "<p>Für <b>Sie</b> <img src=\"/attachment?id=7&amp;part=0\"><img></p>");
    assert_eq!(mail.blocked_images, 1);
    let named: Vec<_> = mail.attachments.iter().map(|one| (&*one.name, one.size_bytes)).collect();
    assert_eq!(named, [("logo.png", 8), ("naïve.html", 25)]);
    assert_eq!(mail.defects, [""; 0]);
}

#[test]
fn attached_images_are_found_by_encoded_identifiers() {
    fn check(identifier: &str, url: &str) {
        let raw = ORDINARY.replace("<logo@example>", identifier);
        let raw = raw.replace("cid:logo@example", url);
        let mail = Mail::parse_with_images(raw.as_bytes(), Some("/attachment?id=7&part="));
        let html = mail.html.expect("it has HTML");
        assert!(html.contains("part=0\">"), "{url}: {html}");
    }
    check("<logo@example>", "cid:logo%40example");
    check("<a+b%c@example>", "cid:a%2Bb%25c@example");
    // By those who do not encode them.
    check("<logo%40example>", "cid:logo%40example");
}

#[test]
fn hands_out_attachments_as_what_no_browser_executes() {
    let image = attachment(ORDINARY.as_bytes(), 0).expect("there is a first one");
    assert_eq!((&*image.name, image.content_type), ("logo.png", "image/png"));
    let one = attachment(ORDINARY.as_bytes(), 1).expect("there is a second one");
    assert_eq!((&*one.name, one.content_type), ("naïve.html", "application/octet-stream"));
    assert_eq!(one.bytes, b"<script>alert(1)</script>");
    assert_eq!(attachment(ORDINARY.as_bytes(), 2), None);
}

#[test]
fn keeps_what_lists_show_and_searches_find() {
    let kept = new_message(ORDINARY.into(), 5);
    assert_eq!(kept.from, "Jörg <joerg@example.org>");
    assert_eq!(kept.recipients, "one@example.org, Two <two@example.org>, three@example.org");
    assert_eq!(kept.subject, "Grüße");
    assert_eq!(kept.date_seconds, 1_057_049_557);
    assert_eq!(kept.snippet, "Für Sie: http://example.org/a?b=1&c=2");
    assert!(kept.headers.contains("Subject: =?utf-8") && kept.headers.contains("boundary=outer"));
    assert!(!kept.headers.contains("--outer"), "{}", kept.headers);
    assert!(kept.has_attachments);
    assert_eq!(kept.raw, ORDINARY.as_bytes());
    assert_eq!(new_message(b"Subject: x\n\n".into(), 5).date_seconds, 5);
}

#[test]
fn makes_links_of_addresses_and_nothing_else() {
    fn check(text: &str, expected: &str) {
        assert_eq!(linkify(text), expected);
    }
    let link = |to: &str, shown: &str| {
        format!(
            "<a href=\"{to}\" rel=\"noopener noreferrer nofollow\" target=\"_blank\">{shown}</a>"
        )
    };
    check("> 1 < 2 & \"3\"\n", "&gt; 1 &lt; 2 &amp; &quot;3&quot;\n");
    check(
        "(http://example.org/a_(b)).",
        &format!("({}).", link("http://example.org/a_(b)", "http://example.org/a_(b)")),
    );
    check("a@example.org", &link("mailto:a@example.org", "a@example.org"));
    check("javascript://example.org/%0aalert(1)", "javascript://example.org/%0aalert(1)");
    check("ftp://example.org/", "ftp://example.org/");
    check(
        "http://example.org/?a=\"onmouseover=alert(1)",
        &(link("http://example.org/?a=", "http://example.org/?a=") + "&quot;onmouseover=alert(1)"),
    );
}

#[test]
fn composes_what_it_reads_again() {
    let text = "Hello,\n\n.\nFrom here: ünï\n";
    let draft = Draft {
        from: "alice",
        to: &["bob", "carol@example.org"],
        subject: "Grüße",
        text,
        in_reply_to: None,
    };
    let first = compose(&draft);
    let mail = Mail::parse(&first);
    assert_eq!(mail.from, "alice@localhost");
    assert_eq!(mail.to, "bob@localhost, carol@example.org");
    assert_eq!(mail.subject, "Grüße");
    assert_eq!(mail.text.as_deref(), Some(text));
    assert!(mail.date_seconds.is_some());
    assert_eq!(mail.defects, [""; 0]);

    let field = |raw: &[u8], name: &str| {
        let raw = String::from_utf8(raw.to_vec()).unwrap();
        let unfolded = raw.replace("\r\n ", " ").replace("\r\n\t", " ");
        let line = unfolded.lines().find_map(|line| line.strip_prefix(name)).map(ToOwned::to_owned);
        line.map(|line| line.trim().to_owned()).unwrap_or_default()
    };
    let second = compose(&Draft { in_reply_to: Some(&first), ..draft });
    let third = compose(&Draft { in_reply_to: Some(&second), ..draft });
    let (one, two) = (field(&first, "Message-ID:"), field(&second, "Message-ID:"));
    assert_ne!(one, two);
    assert_eq!(field(&second, "In-Reply-To:"), one);
    assert_eq!(field(&third, "References:"), format!("{one} {two}"));
}
