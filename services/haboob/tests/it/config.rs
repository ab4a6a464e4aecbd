//! What a file may say, and how its mistakes are shown.

use std::path::Path;

use crate::support::Folder;
use http::StatusCode;
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};
use tamarisk_haboob::config::{ConfigError, load, parse};
use tamarisk_haboob::{Action, HiddenFiles, HostName, Listing, Options, Redirect};
use tamarisk_observe::access_log::{LogFormat, LogTarget};

fn read(text: &str) -> Result<Options, ConfigError> {
    parse("site.toml", text, Path::new("/srv"))
}

/// The mistake in `text` is shown at `place`, with `expected` there; `message` says what it is.
fn check(text: &str, place: &str, message: &str, expected: &str) {
    let text = format!("listen = \"127.0.0.1:80\"\n{text}");
    let Err(mistake) = read(&text) else { panic!("there is no mistake in {text}") };
    let label = mistake.labels().unwrap().next().unwrap();
    let shown = &text[label.offset()..label.offset() + label.len()];
    assert_eq!((mistake.to_string().as_str(), shown), (message, place), "{text}");
    assert_eq!(label.label(), Some(expected), "{text}");
}

fn check_host(text: &str, place: &str, message: &str, expected: &str) {
    check(&format!("[[host]]\nroot = \"a\"\n{text}"), place, message, expected);
}

fn check_route(text: &str, place: &str, message: &str, expected: &str) {
    check_host(&format!("[[host.route]]\npath = \"/x\"\n{text}"), place, message, expected);
}

const DOCUMENTED: &str = include_str!("../../../../docs/examples/site.toml");

#[test]
fn what_is_documented_can_be_said() {
    let options = read(DOCUMENTED).unwrap();
    assert_eq!(options.front.listen, "127.0.0.1:8080".parse().unwrap());
    assert_eq!(options.front.cores.get(), 2);
    assert_eq!(options.front.server.connections_limit(), 10_000);
    assert!(options.front.status.is_some() && options.front.status_token.is_some());
    let site = &options.site;
    assert_eq!((site.cache_bytes, site.held_bytes_max, site.file_workers), (64 << 20, 1 << 20, 4));
    let log = site.log.as_ref().unwrap();
    assert_eq!(log.to, LogTarget::File("/srv/access.log".into()));
    assert_eq!(log.format, LogFormat::Combined);

    let [example, rest] = site.hosts.as_slice() else { panic!("two hosts") };
    let names = ["example.org", "*.example.org"].map(|name| HostName::of(name).unwrap());
    assert_eq!(example.names, names);
    assert!(rest.names.is_empty());
    let errors: Vec<_> = example.errors.iter().collect();
    assert_eq!(errors[0].0, &StatusCode::NOT_FOUND);
    assert_eq!(errors[1].1.as_path(), Path::new("busy.html"));
    let names: Vec<_> = example.routes.iter().map(|route| &*route.name).collect();
    assert_eq!(names, ["example.org/", "example.org/docs", "example.org/api", "old"]);
    let [root, docs, api, old] = example.routes.as_slice() else { panic!("four routes") };
    let Action::Folder(root) = &root.action else { panic!("the host's root") };
    assert_eq!(root.root, Path::new("/srv/public"));
    assert_eq!((root.listing, root.hidden), (Listing::On, HiddenFiles::Served));
    assert_eq!(root.cache_control.as_ref().unwrap(), "max-age=300");
    assert!(root.target.is_some());
    let Action::Folder(docs) = &docs.action else { panic!("a folder") };
    assert_eq!(docs.root, Path::new("/usr/share/doc"));
    assert_eq!(docs.hidden, HiddenFiles::Hidden);
    assert!(docs.target.is_some());
    let Action::Proxy(api) = &api.action else { panic!("a service") };
    assert_eq!(api.upstream.origin.to_string(), "http://127.0.0.1:3000");
    let classes: Vec<_> = api.upstream.classes.iter().map(|(_, class)| &class.name).collect();
    assert_eq!(classes, ["default", "paying"]);
    let Action::Redirect(old) = &old.action else { panic!("a redirect") };
    let to = Redirect { to: "/new/".to_owned(), status: StatusCode::MOVED_PERMANENTLY };
    assert_eq!(old, &to);
}

#[test]
fn a_mistake_is_shown_with_its_line_and_what_was_probably_meant() {
    let text = "listen = \"127.0.0.1:80\"\n[[host]]\nroot = \"public\"\ncache-control = \"no\"\n";
    let mut shown = String::new();
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor());
    handler.render_report(&mut shown, &read(text).err().unwrap()).unwrap();
    for part in [
        "unknown key \"cache-control\"",
        "[site.toml:4:1]",
        "4 │ cache-control = \"no\"",
        "expected one of: names, root",
        "did you mean \"cache_control\"?",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}

#[test]
fn what_is_missing_or_too_much_is_named() {
    check("", "", "\"host\" is missing", "needs `host = [{ root = \"public\" }]`");
    check("host = []", "[]", "`host` is empty", "add a [[host]]");
    let needs = "needs `root = \"public\"` or [[host.route]]";
    check("[[host]]\nlisting = true", "[[host]]", "this host has no `root` and no routes", needs);
    let needs = "needs one of `root = \"…\"`, `proxy = \"http://…\"`, `redirect = \"…\"`";
    check_route("", "[[host.route]]", "this route has no destination", needs);
    let both = "root = \"a\"\nredirect = \"/\"";
    check_route(
        both,
        "[[host.route]]",
        "this route has root and redirect, but may have only one",
        needs,
    );
    let table = "{ certificate = \"a\" }";
    let key = format!("tls = [{table}]\n[[host]]\nroot = \"a\"");
    check(&key, table, "\"key\" is missing", "needs `key = \"key.pem\"`");
    check(
        "[log]\n[[host]]\nroot = \"a\"",
        "[log]",
        "\"file\" is missing",
        "needs `file = \"access.log\"`",
    );
}

#[test]
fn what_a_route_of_another_kind_has_is_no_use_to_this_one() {
    let redirect = "redirect = \"/y\"\nlisting = true";
    let message = "\"listing\" does not apply to a route with \"redirect\"";
    check_route(redirect, "listing", message, "remove it; it is allowed with `root` or `proxy`");
    let proxy = "proxy = \"http://127.0.0.1:1\"\ncache_control = \"a\"";
    let message = "\"cache_control\" does not apply to a route with \"proxy\"";
    check_route(
        proxy,
        "cache_control",
        message,
        "remove it; it is allowed with `root` or `redirect`",
    );
    let message = "\"p90\" does not apply to a route with \"redirect\"";
    let redirect = "redirect = \"/y\"\np90 = \"1s\"";
    check_route(redirect, "p90", message, "remove it; it is allowed with `root` or `proxy`");
}

#[test]
fn values_are_of_their_kind() {
    let host = "expected a host name without a port, such as \"example.org\" or \"*.example.org\"";
    check_host("names = [\"a:80\"]", "\"a:80\"", "\"a:80\" is invalid", host);
    check_host("listing = 1", "1", "wrong type: integer", "expected `true` or `false`");
    let file = "expected the name of a file, such as \"index.html\"";
    check_host("index = [\"a/b\"]", "\"a/b\"", "\"a/b\" is invalid", file);
    let status = "expected 301 or 308 (permanent), 302 or 307 (temporary)";
    let redirect = "redirect = \"/y\"\nstatus = 200";
    check_route(redirect, "200", "200 is not a redirect status", status);
    let to = "expected a path such as \"/new/\", or a URL such as \"https://example.org/\"";
    for target in ["new", "//evil", "/a b", "ftp://a", "/a\\\\b", "/a\\u0001"] {
        let written = format!("\"{target}\"");
        let message = format!("{written} is invalid");
        let message = message.replace("\\u0001", "\\u{1}");
        check_route(&format!("redirect = {written}"), &written, &message, to);
    }
    let path = "expected a path that starts with \"/\", without \"*\", \"..\" and \"%00\": \
        all below it is meant";
    for dead in ["/files/*.php", "/a/../b", "/a/%2e", "/a%00"] {
        let (written, message) = (format!("{dead:?}"), format!("{dead:?} is invalid"));
        let route = format!("[[host.route]]\npath = {written}\nroot = \"b\"");
        check_host(&route, &written, &message, path);
    }
    let error = "expected a status from 400 to 599, such as 503";
    check_host("[host.errors]\n200 = \"a\"", "200", "\"200\" is not the status of an error", error);
    let page = "expected a page in the root of this host, such as \"404.html\"";
    let climbs = "\"../a\" is invalid";
    check_host("[host.errors]\n404 = \"../a\"", "\"../a\"", climbs, page);
    let format = "[log]\nfile = \"-\"\nformat = \"jsn\"\n[[host]]\nroot = \"a\"";
    check(format, "\"jsn\"", "unknown format \"jsn\"", "expected one of: combined, json");
}

#[test]
fn hosts_and_routes_do_not_get_in_each_others_way() {
    let twice = "names = [\"a\"]\n[[host]]\nnames = [\"b\", \"A\"]\nroot = \"b\"";
    check_host(
        twice,
        "[\"b\", \"A\"]",
        "another host already has the name \"a\"",
        "expected other names",
    );
    let message = "another host already has no names";
    check_host("[[host]]\nroot = \"b\"", "[[host]]", message, "expected `names = [\"…\"]`");
    let twice = "root = \"a\"\n[[host.route]]\npath = \"/x/\"\nroot = \"b\"";
    let expected = "choose another path";
    check_route(twice, "\"/x/\"", "another route of this host has the path \"/x\"", expected);
    let root = "root = \"a\"\n[[host.route]]\npath = \"/\"\nroot = \"b\"";
    check_route(root, "\"/\"", "another route of this host has the path \"/\"", expected);
    let message = "the redirect of \"/x\" points to itself";
    let expected = "choose a path of another route";
    check_route("redirect = \"/x/y?z\"", "\"/x/y?z\"", message, expected);
    let names = "root = \"a\"\nname = \"default\"";
    let text = format!("listen = \"[::]:1\"\n[[host]]\n[[host.route]]\npath = \"/\"\n{names}");
    let mistake = read(&text).err().unwrap();
    assert_eq!(mistake.to_string(), "the name \"default\" is already used");
    let no_root = "listen = \"[::]:1\"\n[[host]]\n[[host.route]]\npath = \"/a\"\nroot = \"a\"\n\
        [host.errors]\n404 = \"a\"\n";
    let mistake = read(no_root).err().unwrap();
    assert_eq!(mistake.to_string(), "`errors` needs a folder that holds the pages");
}

#[test]
fn what_a_file_names_must_be_there() {
    let site = |host: &str| format!("listen = \"127.0.0.1:0\"\n[[host]]\n{host}\n");
    let wrong = site("root = \"none\"");
    let page = site("root = \"public\"\nerrors = { 404 = \"none.html\" }");
    let right = site("root = \"public\"\nerrors = { 404 = \"404.html\" }");
    let folder = Folder::with([
        ("wrong.toml", wrong.as_bytes()),
        ("page.toml", page.as_bytes()),
        ("right.toml", right.as_bytes()),
        ("public/404.html", b"none"),
    ]);
    let message = |name: &str| load(&folder.join(name)).err().map(|mistake| mistake.to_string());
    let root = folder.join("none");
    let expected =
        format!("cannot open {}: No such file or directory (os error 2)", root.display());
    assert_eq!(message("wrong.toml"), Some(expected));
    let expected = format!("page not found: {}", folder.join("public/none.html").display());
    assert_eq!(message("page.toml"), Some(expected));
    assert_eq!(message("right.toml"), None);
}
