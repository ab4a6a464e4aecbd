//! The language of pages: tags, objects, errors.

use crate::support::{Folder, get, page, post, send};
use axum::body::Body;
use axum::http::{Request, StatusCode};

/// What a page of this source answers.
async fn rendered(source: &str) -> String {
    let folder = Folder::with(&[("a.pytec", source)]);
    page(&folder.open(), "/a?x=1%262&name=%3CAnn%3E&x=3").await
}

#[tokio::test]
async fn html_blocks_and_values_become_a_page() {
    // Two thousand levels of the syntax tree.
    let deep = format!("<%= {} %>", ["1"; 2000].join(" + "));
    for (source, expected) in [
        ("", ""),
        ("<p>plain & simple\r\n</p>\n", "<p>plain & simple\r\n</p>\n"),
        ("a<%pytec write('<b>', 1) %>c", "a<b>1c"),
        ("<%pytec print('x', 2) %>", "x 2\n"),
        ("<%= '<&\">' %>", "&lt;&amp;&quot;&gt;"),
        ("<%= None %>|<%= 0 %>|<%= [1] %>", "|0|[1]"),
        ("<%=\n  1 +\n  1  # two\n%>", "2"),
        ("<%pytec x = 1 %><%pytec x += 1 %><%= x %>", "2"),
        ("<%pytec\n    for i in range(2):\n        write(i)\n    %>.", "01."),
        ("<%pytec\n\tdef f():\n\t\treturn x\n\tx = 7\n%><%= f() %>", "7"),
        ("<%pytec if 1:\n     write('y')\n%>", "y"),
        ("<%pytec if 1:  # why\n     write('y')\n%>", "y"),
        (deep.as_str(), "2000"),
        ("<%pytec\n  x = '''a\n b\n    c'''\n%><%= x %>", "a\n b\n  c"),
        ("a<%pytec return %>b", "a"),
        ("<%% 1 %>", "<% 1 %>"),
        ("<%= req.get('name') %>", "&lt;Ann&gt;"),
        (
            "<%= req.query.all('x') %><%= req.get('y', 'no') %>",
            "[&#x27;1&amp;2&#x27;, &#x27;3&#x27;]no",
        ),
        (
            "<%= req.method + req.path %> <%= req.quality %> <%= req.class_name %>",
            "GET/a 1.0 default",
        ),
        ("<%pytec import math, sys; sys.stdout.write(str(math.pi)[:4]) %>", "3.14"),
        ("<%pytec import os; os.write(1, b'noise'); os.system('echo noise') %>ok", "ok"),
        ("é<%= 'ü' %>", "éü"),
        ("<%pytec write('\\ud800') %>", "?"),
    ] {
        assert_eq!(rendered(source).await, expected, "{source}");
    }
}

#[tokio::test]
async fn an_answer_has_status_headers_and_cookies() {
    let source = "<%pytec
        res.status = 404
        res.headers['X-A'] = 'b'
        res.headers['content-type'] = 'text/plain'
        res.cookie('k', req.cookies['k'] + '1', max_age=9)
        write(req.form.get('q'), req.headers['X-Who'], req.get('q'))
    %>";
    let folder =
        Folder::with(&[("a.pytec", source), ("b.pytec", "x<%pytec res.redirect('/a') %>")]);
    let site = folder.open();
    let request = Request::post("/a?q=query")
        .header("cookie", "j=0; k=v")
        .header("x-who", "me")
        .header("content-type", "application/x-www-form-urlencoded; charset=utf-8")
        .body(Body::from("q=a+b"));
    let answer = send(&site, request.unwrap()).await;
    assert_eq!((answer.status, answer.text().as_str()), (StatusCode::NOT_FOUND, "a bmea b"));
    assert_eq!(answer.headers["x-a"], "b");
    assert_eq!(answer.headers["content-type"], "text/plain");
    assert_eq!(answer.headers["set-cookie"], "k=v1; Path=/; SameSite=Lax; Max-Age=9; HttpOnly");

    let answer = post(&site, "/b", "").await;
    assert_eq!(
        (answer.status, &answer.headers["location"]),
        (StatusCode::SEE_OTHER, &"/a".parse().unwrap())
    );
    assert_eq!(answer.text(), "");
}

#[tokio::test]
async fn a_page_that_ends_with_error_shows_only_that() {
    let folder = Folder::with(&[("a.pytec", "x<%pytec return error('no <b>', 403) %>y")]);
    let answer = get(&folder.open(), "/a").await;
    assert_eq!(answer.status, 403);
    assert!(answer.text().ends_with("<p>no &lt;b&gt;</p>\n"), "{}", answer.text());
}

#[tokio::test]
async fn what_cannot_be_a_header_is_an_error_of_the_page() {
    for statement in [
        "res.headers['X-A'] = 'a\\r\\nSet-Cookie: b=c'",
        "res.headers['Content-Length'] = '1'",
        "res.headers['a b'] = '1'",
        "res.cookie('a', 'b; Path=/')",
        "res.cookie('a', 'b', path='/; Domain=c')",
        "res.cookie('a', 'b', path='/\\n')",
        "res.cookie('a', 'b', same_site='Lax; Domain=c')",
        "res.redirect('/\\n')",
        "res.status = 99",
    ] {
        let folder = Folder::with(&[("a.pytec", &format!("\n<%pytec {statement} %>"))]);
        let answer = get(&folder.open(), "/a").await;
        assert_eq!(answer.status, 500, "{statement}");
        assert!(answer.text().contains("a.pytec:2: ValueError: "), "{}", answer.text());
    }
}

#[tokio::test]
async fn an_error_is_shown_with_file_line_and_message_of_python() {
    let include = "<p>\n<%pytec\n  y = 1\n  z = y / 0\n%>";
    for (source, expected) in [
        // Of the tags.
        ("\n\n<%pytec x = 1", "a.pytec:3: <%pytec is not closed"),
        ("\n<%include no.pyh %>", "a.pytec:2: there is no file no.pyh"),
        ("<%include ../../x.pyh %>", "a.pytec:1: ../../x.pyh is outside of the site"),
        ("<%include a.pytec %>", "a.pytec:1: a.pytec cannot be included"),
        ("\n<%include self.pyh>", "self.pyh:1: self.pyh includes itself"),
        // Of the syntax.
        ("a\n<%pytec\n  x = 1\n  y = (2\n%>", "a.pytec:4: SyntaxError: "),
        ("a\n<%pytec\n  if x:\n%>", "a.pytec:3: IndentationError: expected an indented block"),
        ("<%pytec\n  x\n    y\n%>", "a.pytec:3: IndentationError: unexpected indent"),
        (
            "<%pytec if 1: %>a<%pytec pass %>",
            "a.pytec:1: IndentationError: expected an indented block",
        ),
        ("<%pytec f((1, %>a<%pytec 2)) %>", "a.pytec:1: SyntaxError: "),
        ("\n<%= 1 + %>", "a.pytec:2: SyntaxError: invalid syntax"),
        ("<%=\n\n  1 1 %>", "a.pytec:3: SyntaxError: "),
        ("<%= 1\n + %>", "a.pytec:2: SyntaxError: "),
        ("\n<%pytec break %>", "a.pytec:2: SyntaxError: 'break' outside loop"),
        ("\n<%pytec\n  yield 1 %>", "a.pytec:3: SyntaxError: 'yield' outside function"),
        ("<%pytec await x %>", "a.pytec:1: SyntaxError: "),
        ("\n<%pytec from math import * %>", "a.pytec:2: SyntaxError: import * only allowed"),
        ("\n<%pytec x = '\0' %>", "a.pytec:2: "),
        ("<%include syntax.pyh %>", "syntax.pyh:3: SyntaxError: "),
        // At run time.
        ("\n<%pytec\n\n  x = 1 / 0\n%>", "a.pytec:4: ZeroDivisionError: division by zero"),
        ("\n\n<%= nobody %>", "a.pytec:3: NameError: name &#x27;nobody&#x27; is not defined"),
        ("\n<%include\n b.pyh %>", "b.pyh:4: ZeroDivisionError: division by zero"),
        (
            "<%pytec\n def f():\n  return {}['k']\n%>\n<%= f() %>",
            "a.pytec:3: KeyError: &#x27;k&#x27; (called from a.pytec:5 in page, a.pytec:3 in f)",
        ),
        (
            "\n<%pytec import broken %>",
            "a.pytec:2: NameError: name &#x27;nothing&#x27; is not defined",
        ),
        ("\n<%pytec import unclosed %>", "a.pytec:2: SyntaxError: '(' was never closed"),
        ("\n<%pytec import unclosed %>", "lib/unclosed.py:3 in "),
        ("\n<%pytec raise SystemExit(1) %>", "a.pytec:2: SystemExit: 1"),
        ("<%pytec\n def f(): f()\n f() %>", "a.pytec:2: RecursionError: "),
    ] {
        let files = [
            ("a.pytec", source),
            ("b.pyh", include),
            ("self.pyh", "<%include self.pyh %>"),
            ("syntax.pyh", "\n<%pytec\n  1 1\n%>"),
            ("lib/broken.py", "\nnothing\n"),
            ("lib/unclosed.py", "x = 1\n\ny = ("),
        ];
        let folder = Folder::with(&files);
        let answer = get(&folder.open(), "/a").await;
        assert_eq!(answer.status, 500, "{source}: {}", answer.text());
        let text = answer.text().replace('\'', "&#x27;");
        assert!(
            text.contains(&expected.replace('\'', "&#x27;").replace("<%", "&lt;%")),
            "{source}: {text}"
        );
    }
}

#[tokio::test]
async fn visitors_are_shown_an_id_unless_errors_are_to_be_shown() {
    let folder = Folder::with(&[("a.pytec", "<%= secret %>")]);
    let mut options = folder.options();
    options.shows_errors = false;
    let answer = get(&tamarisk_pytec::Site::open(options).unwrap(), "/a").await;
    let text = answer.text();
    assert_eq!(answer.status, 500);
    assert!(!text.contains("secret") && !text.contains("a.pytec"), "{text}");
    assert!(text.contains("<p>Request "), "{text}");
}

#[tokio::test]
async fn a_page_of_a_broken_include_is_mended_with_it() {
    let folder = Folder::with(&[("a.pytec", "<%include b.pyh %>")]);
    let site = folder.open();
    assert!(get(&site, "/a").await.text().contains("a.pytec:1: there is no file b.pyh"));
    folder.write("b.pyh", "mended");
    site.refresh().await;
    assert_eq!(page(&site, "/a").await, "mended");
}

#[tokio::test]
async fn a_check_finds_the_errors_of_all_pages_and_runs_none() {
    let folder = Folder::with(&[
        ("a.pytec", "\n<%pytec 1 1 %>"),
        ("b.pytec", "<%include no.pyh %>"),
        ("c.pytec", "<%pytec open('ran', 'w') %>"),
    ]);
    let site = folder.open();
    let errors: Vec<_> = site.check().await.iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].starts_with("a.pytec:2: SyntaxError: "), "{errors:?}");
    assert_eq!(errors[1], "b.pytec:1: there is no file no.pyh");
    assert!(!folder.0.join("ran").exists());
    assert_eq!(page(&site, "/c").await, "");
}
