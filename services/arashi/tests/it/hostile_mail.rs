//! Messages that are broken or made to break their reader: something is shown of each, and
//! nothing takes long.

use std::time::Instant;

use tamarisk_arashi::mail::{
    Draft, Mail, attachment, compose, new_message, new_message_and_defects,
};
use tamarisk_arashi::store::MESSAGE_BYTES_MAX;

/// All that is done with a message.
fn read(raw: &[u8]) -> Mail {
    let start = Instant::now();
    let mail = Mail::parse_with_images(raw, Some("/attachment?id=1&part="));
    let kept = new_message(raw.to_vec(), 0);
    for text in [&kept.from, &kept.recipients, &kept.subject, &kept.snippet] {
        assert!(text.len() <= 2_100 && !text.contains(char::is_control), "{text:?}");
    }
    assert!(kept.headers.len() <= 16 << 10 && !kept.headers.contains('\0'));
    for (index, listed) in mail.attachments.iter().enumerate().take(20) {
        let one = attachment(raw, index).expect("it is listed");
        assert_eq!((&one.name, one.bytes.len() as u64), (&listed.name, listed.size_bytes));
        assert!(!one.name.is_empty() && !one.name.contains(['/', '\\', '\0', '\r', '\n', '"']));
    }
    assert!(mail.text.as_ref().is_none_or(|text| text.len() <= 4 << 20));
    // In a moment on a machine of its own; not in minutes on a busy one.
    assert!(start.elapsed().as_secs() < 60, "{:?} for {} bytes", start.elapsed(), raw.len());
    mail
}

/// `raw` is shown as it came, with a defect that says `why`.
fn check_raw(raw: &[u8], why: &str) {
    let mail = read(raw);
    assert!(mail.defects[0].contains(why), "{mail:?}");
    let text = mail.text.expect("it is shown");
    let start =
        String::from_utf8_lossy(&raw[..raw.len().min(20)]).replace(['\0', '\r'], "\u{fffd}");
    assert_eq!(text.chars().next(), start.chars().next());
}

#[test]
fn what_is_no_message_is_shown_as_it_came() {
    assert_eq!(read(b"").text.as_deref(), Some(""));
    check_raw(b"no header at all", "no header");
    check_raw(b"\xff\xfe\x00\x01 binary \x80", "no header");
    check_raw(&[b'x'; 100_000], "no header");
    let picture = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0:\0 IDATx\x9c\n";
    check_raw(picture, "no sender, recipient, subject, date or text");
    let broken = b"Content-Type: multipart/mixed; boundary=a\r\n\r\nno boundary here\r\n";
    check_raw(broken, "no boundary");
    check_raw(b"Content-Type: multipart/mixed\r\n\r\n--a\r\n\r\ntext\r\n--a--\r\n", "no boundary");
}

#[test]
fn broken_parts_are_kept_and_told() {
    let base64 =
        b"Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\n%% not base64\r\n";
    let mail = read(base64);
    assert!(mail.defects[0].contains("not encoded as it says"), "{:?}", mail.defects);
    assert_eq!(mail.text.as_deref().map(str::trim), Some("%% not base64"));

    assert_eq!(read(b"Subject: no body\n").defects, [""; 0]);

    let picture = b"Content-Type: text/html\r\n\r\n<img src=x>\r\n";
    assert_eq!(read(picture).defects, [""; 0]);
    assert_eq!(new_message_and_defects(picture.to_vec(), 0).1, [""; 0]);

    let charset = b"Content-Type: text/plain; charset=x-none\r\n\r\nCaf\xc3\xa9\r\n";
    let mail = read(charset);
    assert!(mail.defects[0].contains("\"x-none\""), "{:?}", mail.defects);
    assert_eq!(mail.text.as_deref(), Some("Café\n"));

    let mail = read(b"Date: the day before yesterday\r\n\r\ntext");
    assert!(mail.defects[0].contains("the day before yesterday"), "{:?}", mail.defects);
    assert_eq!((mail.date_seconds, mail.text.as_deref()), (None, Some("text")));

    let cut = b"Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\n\r\ntext that is cut";
    assert_eq!(read(cut).text.as_deref(), Some("text that is cut"));
    assert_eq!(
        read(b"Subject: =?utf-8?B?%%%?= =?x?y?z?=\r\n\r\n").subject,
        "=?utf-8?B?%%%?= =?x?y?z?="
    );
}

#[test]
fn names_and_subjects_stay_in_their_line() {
    let mail = read(
        "From: \"a\u{202e}b\" <a@example.org>\r\nSubject: =?utf-8?Q?a=0D=0ABcc:_x=00=1B[2J?=\r\n\r\n"
            .as_bytes(),
    );
    assert_eq!(mail.subject, "a Bcc: x [2J");
    assert_eq!(mail.from, "a b <a@example.org>");
    let raw = format!(
        "Subject: {}\r\nTo: {}\r\n\r\n",
        "x".repeat(1 << 20),
        "a@example.org, ".repeat(1 << 16)
    );
    let mail = read(raw.as_bytes());
    assert_eq!(mail.subject.len(), 1_000);
}

#[test]
fn attachments_have_harmless_names_and_types() {
    fn check(field: &str, expected: &str) {
        let raw = format!(
            "Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\nContent-Type: text/html\r\n\
             Content-Disposition: attachment; {field}\r\n\r\n<script>\r\n--a--\r\n"
        );
        assert_eq!(read(raw.as_bytes()).attachments[0].name, expected, "{field}");
        let saved = attachment(raw.as_bytes(), 0).expect("it is listed");
        assert_eq!(saved.content_type, "application/octet-stream");
    }
    check("filename=a.html", "a.html");
    check("filename=\"../../etc/passwd\"", "passwd");
    check("filename=\"C:\\\\windows\\\\a.exe\"", "a.exe");
    check("filename=\"..\"", "attachment-1");
    check("filename=\"\"", "attachment-1");
    check("x=y", "attachment-1");
    check("filename*=utf-8''a%00%0D%0Ab%22.txt", "a b_.txt");
    check("filename*=utf-8''a%E2%80%AEfdp.exe", "a fdp.exe");
    check("filename=\".htaccess\"", "htaccess");
    check("filename*0=\"a/\"; filename*1=\"b\"; filename*2*=utf-8''%c3%a9", "bé");
    let long = format!("{}.pdf", "é".repeat(300));
    check(&format!("filename=\"{long}\""), &format!("{}.pdf", "é".repeat(125)));
}

#[test]
fn only_images_are_shown_by_browsers() {
    fn check(content_type: &str, content: &str, expected: &str) {
        let raw = format!(
            "Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\nContent-Type: {content_type}\r\n\
             Content-Disposition: attachment\r\n\r\n{content}\r\n--a--\r\n"
        );
        read(raw.as_bytes());
        let saved = attachment(raw.as_bytes(), 0).expect("it is listed");
        assert_eq!(saved.content_type, expected, "{content_type}");
    }
    check("image/gif", "GIF89a", "image/gif");
    check("IMAGE/GIF; name=x", "GIF89a", "image/gif");
    for content_type in [
        "image/png",
        "image/svg+xml",
        "text/html",
        "text/xml",
        "application/xhtml+xml",
        "application/pdf",
        "text/javascript",
        "multipart/x-mixed-replace",
        "x",
        "image/gif2",
    ] {
        check(content_type, "<svg onload=alert(1)>", "application/octet-stream");
    }
    check("image/gif", "<script>", "application/octet-stream");
}

#[test]
fn deep_and_wide_structures_are_bounded() {
    let nested = |kind: &str, depth: usize| -> Vec<u8> {
        let mut raw = String::new();
        for level in 0..depth {
            raw += &format!("Content-Type: {kind}; boundary=b{level}\r\n\r\n--b{level}\r\n");
        }
        (raw + "\r\ntext").into_bytes()
    };
    check_raw(&nested("multipart/mixed", 10_000), "parts");
    read(&nested("multipart/mixed", 900));
    check_raw(&"Content-Type: message/rfc822\r\n\r\n".repeat(10_000).into_bytes(), "parts");
    // A thread of the server has 2 MB of stack, as one of a test has.
    let mail = read(&"Content-Type: message/rfc822\r\n\r\n".repeat(900).into_bytes());
    assert_eq!(mail.attachments.len(), 1);
    check_raw(&"C o n tent-\tType: message/rfc822\r\n\r\n".repeat(10_000).into_bytes(), "parts");
    check_raw(&": :Content-Type: message/rfc822\r\n\r\n".repeat(10_000).into_bytes(), "parts");
    // A header may begin directly behind a boundary.
    let digests = "--aContent-Type: multipart/digest; boundary=a\r\n\r\n".repeat(10_000);
    check_raw(
        format!("Content-Type: multipart/digest; boundary=a\r\n\r\n{digests}").as_bytes(),
        "parts",
    );
    read(&"Content-Type: multipart/digest; boundary=a\r\n\r\n--a\r\n\r\n".repeat(900).into_bytes());
    let header = "X: y\r\n".repeat(20_000);
    check_raw(header.as_bytes(), "header has more than");
    let mut wide = String::from("Content-Type: multipart/mixed; boundary=a\r\n\r\n");
    wide += &"--a\r\n\r\n\r\n".repeat(100_000);
    read(wide.as_bytes());
    let parameters: String = (0..20_000).map(|index| format!("; a*{index}=x")).collect();
    read(format!("Content-Type: text/plain{parameters}\r\n\r\ntext").as_bytes());
}

#[test]
fn lines_of_parts_are_bounded() {
    let within = |kind: &str, parts: &str, count: usize| {
        let parts = parts.repeat(count);
        format!("Content-Type: multipart/{kind}; boundary=a\r\n\r\n--a\r\n{parts}").into_bytes()
    };
    check_raw(&within("mixed", "a:\n", 5_000_000), "at most 500000 are parsed");
    check_raw(&within("mixed", "--a\n\n", 3_000_000), "at most 500000 are parsed");
    check_raw(&within("digest", "--a\n\nb:\n\n", 1_500_000), "at most 500000 are parsed");
    let numbers = "1234567,8901234\n".repeat(900_000);
    let raw = within("mixed", &format!("Content-Disposition: attachment\n\n{numbers}"), 1);
    assert!(read(&raw).defects[0].contains("bytes are shown"), "a table is no structure");
    let mail = read(&within("digest", "\r\nSubject: b\r\n\r\ntext\r\n--a\r\n", 2_000));
    assert_eq!(mail.attachments.len(), 1_000);
    assert!(mail.defects[0].contains("attachments, 1000 are listed"), "{:?}", mail.defects);
}

#[test]
fn fields_that_take_long_to_read_are_not_read() {
    let why = "too many encoded words or parameters";
    let words = "=?ab?q?_".repeat(1 << 17);
    check_raw(format!("Subject: {words}\r\n\r\ntext").as_bytes(), why);
    let folded = format!("{}\r\n ", "=?ab?q?_".repeat(32)).repeat(1 << 12);
    check_raw(format!("Subject: a\r\n {folded}\r\n\r\ntext").as_bytes(), why);
    let small = format!("Subject: {}\r\n", "=?ab?q?_".repeat(1_000));
    check_raw((small.repeat(100) + "\r\ntext").as_bytes(), why);
    let parameters: String = (0..200_000).map(|index| format!("; k{index:06}*1=x")).collect();
    for kind in ["Content-Type: text/plain", "Content-\tDisposition : attachment"] {
        check_raw(format!("{kind}{parameters}\r\n\r\ntext").as_bytes(), why);
    }
    let attributes = "; a=b".repeat(500_000);
    let quotes = "'x".repeat(1_000);
    let raw = format!("Content-Type: text/plain{attributes}; c*={quotes}\r\n\r\ntext");
    check_raw(raw.as_bytes(), why);
    // In a part, and behind a line that is no field.
    for before in ["--a\r\n", "--a\r\nno field\r\n ", "--a"] {
        for field in [format!("Subject: {words}"), format!("Content-Type: a/b{parameters}")] {
            let raw = format!(
                "Content-Type: multipart/mixed; boundary=a\r\n\r\n{before}{field}\r\n\r\n--a--\r\n"
            );
            check_raw(raw.as_bytes(), why);
        }
    }
    // A word that seems to have ended where its text begins costs as much.
    let words = "=?ab?q?=ab_".repeat(1 << 17);
    check_raw(format!("Subject: {words}\r\n\r\ntext").as_bytes(), why);
    // What people write is read.
    let recipients =
        "=?utf-8?b?0JDQvdC90LA=?= =?utf-8?b?0JrQuNC8?= <a@example.org>, ".repeat(1_500);
    let mail = read(format!("To: {recipients}\r\nSubject: a\r\n\r\ntext").as_bytes());
    assert_eq!((&*mail.subject, mail.defects.len()), ("a", 0));
    let subject = "=?utf-8?q?storm_?= ".repeat(100);
    let names: String = (0..50).map(|index| format!("; name*{index}=part")).collect();
    let raw = format!("Subject: {subject}\r\nContent-Type: text/plain{names}\r\n\r\ntext");
    let mail = read(raw.as_bytes());
    assert_eq!((&mail.subject[..11], mail.defects.len()), ("storm storm", 0));
}

#[test]
fn long_text_beside_html_is_not_made_html() {
    let text = "http://a.example/ ".repeat(10 << 16);
    let raw = format!(
        "Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\nContent-Type: text/html\r\n\r\n\
         <p>b</p>\r\n--a\r\n\r\n{text}\r\n--a--\r\n"
    );
    let mail = read(raw.as_bytes());
    assert_eq!(mail.html, None);
    let is_told = mail.defects.iter().any(|defect| defect.contains("too large to be shown"));
    assert!(is_told, "{:?}", mail.defects);
}

#[test]
fn messages_in_messages_in_base64_are_attachments() {
    let inner = "Content-Type: message/rfc822\r\n\r\n".repeat(99_999);
    let encoded: String = base64(inner.as_bytes());
    let raw = format!(
        "Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\nContent-Type: message/rfc822\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n{encoded}\r\n--a\r\n\r\nbehind\r\n--a--\r\n"
    );
    let mail = read(raw.as_bytes());
    assert_eq!(mail.attachments.len(), 1);
    assert_eq!(mail.attachments[0].size_bytes, inner.len() as u64);
    assert_eq!(mail.text.as_deref(), Some("behind"));
}

#[test]
fn encoded_messages_are_found_however_they_say_so() {
    let inner = "Content-Type: message/rfc822\r\n\r\n".repeat(99_999);
    let encoded = base64(inner.as_bytes());
    let check = |header: &str, kind: &str| {
        let raw = format!(
            "Content-Type: multipart/{kind}; boundary=a\r\n\r\n--a\r\n{header}\r\n\r\n{encoded}\r\n--a--\r\n"
        );
        let mail = read(raw.as_bytes());
        assert_eq!(mail.attachments.len(), 1, "{header}");
        assert_eq!(mail.attachments[0].size_bytes, inner.len() as u64, "{header}");
    };
    let message = "Content-Type: message/rfc822\r\nContent-Transfer-Encoding:";
    check(&format!("{message} =?utf-8?q?base64?="), "mixed");
    check(&format!("{message}\r\n\t=?ab?b?YmFzZTY0?="), "mixed");
    check(&format!("{message} BASE64"), "digest");
    let global = "content-type:\r\n (message) message/global";
    check(&format!("{global}\r\nC ontent-Transfer-Encoding: base64"), "mixed");
    // The parser of this date takes the next field for its end.
    let date = "Date: 1 Jan 2020 00:00:00 Z\r\nContent-Transfer-Encoding: 7bit";
    check(&format!("{message} base64\r\n{date}"), "mixed");
}

#[test]
fn encoded_messages_of_digests_stay_encoded() {
    let inner = "Content-Type: message/rfc822\r\n\r\n".repeat(99_999);
    let encoded = base64(inner.as_bytes());
    for (header, within) in [
        ("Content-Type: multipart/digest; boundary=a", "Content-Transfer-Encoding: base64"),
        (
            "content-type:\r\n MULTIPART/Digest; boundary=a",
            "content-transfer-encoding:\r\n\tBase64",
        ),
    ] {
        let digest = format!("{header}\r\n\r\n--a\r\n{within}\r\n\r\n{encoded}\r\n--a--\r\n");
        assert_eq!(read(digest.as_bytes()).attachments.len(), 1, "{header}");
        let nested = format!(
            "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n{digest}\r\n--b\r\n\r\nbehind\r\n--b--\r\n"
        );
        assert_eq!(read(nested.as_bytes()).attachments.len(), 1, "{header}");
    }
}

fn base64(bytes: &[u8]) -> String {
    assert_eq!(bytes.len() % 3, 0);
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |three: &[u8], shift: u32| {
        let bits = u32::from(three[0]) << 16 | u32::from(three[1]) << 8 | u32::from(three[2]);
        digits[(bits >> shift) as usize & 63] as char
    };
    let lines = bytes.chunks(57).map(|line| {
        let four = |three| [18, 12, 6, 0].map(|shift| digit(three, shift));
        line.chunks(3).flat_map(four).collect::<String>()
    });
    lines.collect::<Vec<_>>().join("\r\n")
}

#[test]
fn large_messages_are_bounded() {
    let mut line = b"Subject: one long line\r\n\r\n".to_vec();
    line.resize(50 << 20, b'x');
    check_raw(&line, "at most 15728640 are parsed");
    line.truncate(MESSAGE_BYTES_MAX);
    let mail = read(&line);
    assert_eq!(mail.text.map(|text| text.len()), Some(1 << 20));
    assert!(mail.defects[0].contains("bytes are shown"), "{:?}", mail.defects);
    let mut header = b"X: ".to_vec();
    header.resize(MESSAGE_BYTES_MAX, b'y');
    read(&header);
    read(format!("Subject: {}\r\n\r\n", "=?utf-8?B?eHh4eHh4?=".repeat(1 << 18)).as_bytes());
    read(format!("Subject: {}\r\n\r\n", "=?utf-8?Q?".repeat(1 << 18)).as_bytes());
    read(format!("To: {}\r\n\r\n", "(".repeat(1 << 20)).as_bytes());
    read(format!("To: {}\r\n\r\n", "a:".repeat(1 << 20)).as_bytes());
    read(format!("References: {}\r\n\r\n", "<a@b> ".repeat(1 << 18)).as_bytes());
    read(
        format!("Content-Type: multipart/mixed; boundary=\"{}\"\r\n\r\n--", "-".repeat(1 << 16))
            .as_bytes(),
    );
}

#[test]
fn no_field_of_what_is_composed_becomes_two() {
    fn check(from: &str, to: &str, subject: &str) {
        let draft = Draft { from, to: &[to], subject, text: "text", in_reply_to: None };
        let raw = String::from_utf8(compose(&draft)).unwrap();
        let (header, body) = raw.split_once("\r\n\r\n").expect("a header ends");
        let names: Vec<&str> = header
            .split("\r\n")
            .filter(|line| !line.starts_with([' ', '\t']))
            .map(|line| line.split_once(':').expect("each line is a field").0)
            .collect();
        let expected = [
            "From",
            "To",
            "Subject",
            "Message-ID",
            "Date",
            "MIME-Version",
            "Content-Type",
            "Content-Transfer-Encoding",
        ];
        assert_eq!(names, expected, "{raw}");
        assert_eq!(body, "text", "{raw}");
        assert!(!header.replace("\r\n", "").contains(['\r', '\n', '\0']), "{raw:?}");
        assert!(header.split("\r\n").all(|line| line.len() < 998), "{raw}");
    }
    check("a", "b", "c");
    check("a\r\nBcc: x@example.org", "b\r\n\r\n<script>", "c\r\nX-Evil: 1\r\n\r\nbody");
    check("a\n", "b\0\n", "c\nBcc: d");
    check("", "", "");
    check("a>, <c@example.org", "b@example.org>\u{2028}Bcc: c", "=?utf-8?Q?=0D=0ABcc:_x?=");
    check("\"a\\", "b\"@exa mple.org", "\u{85}Bcc: é");
    let long = "x".repeat(100_000);
    check(&long, &long, &long);
    let reply_to = b"Message-ID: <a@b>\r\nReferences: <c\r\n\td> <e@f>\r\n\r\n";
    let draft =
        Draft { from: "a", to: &["b"], subject: "c", text: "", in_reply_to: Some(reply_to) };
    let raw = String::from_utf8(compose(&draft)).unwrap();
    assert!(raw.contains("\r\nIn-Reply-To: <a@b>\r\n"), "{raw}");
    for reply_to in
        [&b"no header"[..], b"", b"Message-ID: \r\n\r\n", b"Message-ID: <\x01\xff>\r\n\r\n"]
    {
        let draft = Draft { in_reply_to: Some(reply_to), ..draft };
        assert!(!compose(&draft).windows(11).any(|at| at == b"In-Reply-To"));
    }
}
