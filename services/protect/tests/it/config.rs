//! Configuration files: what they make, and how mistakes in them are shown.
use std::net::IpAddr;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use miette::{GraphicalReportHandler, GraphicalTheme};
use tamarisk_catalogue::ByName;
use tamarisk_control::{Priority, Ratio};
use tamarisk_laws::{Laws, ResourceBounds};
use tamarisk_observe::access_log::LogTarget;
use tamarisk_observe::status::TokenSource;
use tamarisk_protect::config;
use tamarisk_proxy::classify::Client;
use tamarisk_proxy::{HostHeader, RequestBuffering};
use tamarisk_service::UpstreamOptions;

const FULL: &str = r#"
listen = "127.0.0.1:8080"
status = "127.0.0.1:9090"
cores = 2
trusted_proxies = ["10.0.0.0/8", "192.0.2.1"]
p90 = "200ms"

[limits]
request_line = "4KiB"
body = "10MiB"
idle_time = "5s"
connections = 1000

[upstreams.shop]
url = "http://127.0.0.1:3000"
host = "upstream"
answer_time = "2m"

[upstreams.blog]
url = "http://[::1]:4000"

[classes.paying]
any = [{ cookie = "plan", value = "gold" }, { address = "192.0.2.0/24" }]
priority = 0
p99 = "100ms"

[classes.early]
any = [{ header = "x-early" }]

[classes.default]
priority = 2

[[routes]]
name = "blog"
host = "blog.example.org"
upstream = "blog"
classes = []

[[routes]]
name = "search"
path = "/search"
methods = ["GET"]
upstream = "shop"
p95 = "1.5s"

[[routes]]
name = "rest"
upstream = "shop"
classes = ["paying"]
"#;

#[test]
fn a_file_says_all_there_is_to_say() {
    let options = config::parse("full.toml", FULL).unwrap();
    assert_eq!(options.front.listen, "127.0.0.1:8080".parse().unwrap());
    assert_eq!(options.front.status, Some("127.0.0.1:9090".parse().unwrap()));
    assert_eq!(options.front.cores.get(), 2);
    assert_eq!(options.trusted, ["10.0.0.0/8".parse().unwrap(), "192.0.2.1/32".parse().unwrap()]);
    let [shop, blog] = &options.upstreams[..] else { panic!("two upstreams") };
    assert_eq!(shop.origin.to_string(), "http://127.0.0.1:3000");
    assert_eq!(shop.host_header, HostHeader::Upstream);
    assert_eq!(shop.answer_time, Duration::from_secs(120));
    assert_eq!(blog.name, "blog");

    let promised = |options: &tamarisk_service::UpstreamOptions| -> Vec<_> {
        let classes = options.classes.iter().map(|(_, class)| {
            let target = class.target;
            let millis = target.response_time().as_millis();
            (class.name.clone(), target.at().get(), millis, class.priority)
        });
        classes.collect()
    };
    let class =
        |name: &str, at, millis, priority| (name.to_owned(), at, millis, Priority(priority));
    assert_eq!(promised(blog), [class("blog", 0.9, 200, 2)]);
    assert_eq!(
        promised(shop),
        [
            class("search", 0.95, 1500, 2),
            class("search/paying", 0.95, 1500, 0),
            class("search/early", 0.95, 1500, 1),
            class("rest", 0.9, 200, 2),
            class("rest/paying", 0.99, 100, 0),
        ]
    );
}

#[test]
fn a_network_of_ipv4_may_be_written_as_one_of_ipv6() {
    let trusted = |network: &str| {
        let text = FULL.replacen("10.0.0.0/8", network, 1);
        config::parse("full.toml", &text).unwrap().trusted[0].to_string()
    };
    assert_eq!(trusted("::ffff:10.0.0.0/104"), "10.0.0.0/8");
    assert_eq!(trusted("::ffff:192.0.2.7"), "192.0.2.7/32");
    assert_eq!(trusted("::ffff:0:0/96"), "0.0.0.0/0");
    assert_eq!(trusted("2001:db8::/32"), "2001:db8::/32");
    assert_eq!(trusted("::/0"), "::/0");
}

#[test]
fn requests_find_their_route_and_class() {
    let options = config::parse("full.toml", FULL).unwrap();
    let choose = |host: &str, path: &str, cookie: &'static str, client: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_static(cookie));
        let client: IpAddr = client.parse().unwrap();
        let choice =
            options.routes.choose(&Method::GET, || Some(host), path, &headers, || client).unwrap();
        let upstream = &options.upstreams[choice.upstream];
        upstream.classes.at(choice.class).name.clone()
    };
    assert_eq!(choose("blog.example.org", "/search", "plan=gold", "127.0.0.1"), "blog");
    assert_eq!(choose("shop", "/search/x", "", "127.0.0.1"), "search");
    assert_eq!(choose("shop", "/search", "plan=gold", "127.0.0.1"), "search/paying");
    assert_eq!(choose("shop", "/", "", "192.0.2.77"), "rest/paying");
    assert_eq!(choose("shop", "/", "", "198.51.100.1"), "rest");
}

/// A file with a thousand routes and, with the rest of the requests, ten classes.
fn ten_thousand_pairs(upstream: &str) -> String {
    let classes = (0..9).map(|class| {
        let any = format!("[{{ header = \"x-class\", value = \"{class}\" }}]");
        format!("[classes.c{class}]\nany = {any}\npriority = {class}\np90 = \"{}s\"\n", 10 + class)
    });
    let routes = (0..1000).map(|route| {
        let host =
            if route % 2 == 0 { format!("host = \"h{route}.example\"\n") } else { String::new() };
        format!("[[routes]]\nname = \"r{route}\"\npath = \"/r{route}\"\n{host}")
    });
    let (classes, routes) = (classes.collect::<String>(), routes.collect::<String>());
    format!(
        "listen = \"127.0.0.1:0\"\ncores = 1\np90 = \"10s\"\nupstreams.app.url = \"{upstream}\"\n\
         {classes}{routes}"
    )
}

#[test]
fn ten_thousand_pairs_of_a_route_and_a_class_share_the_classes_of_one_stage() {
    let options = config::parse("protect.toml", &ten_thousand_pairs("http://127.0.0.1:1")).unwrap();
    let classes = &options.upstreams[0].classes;
    let names: Vec<_> = classes.iter().map(|(_, class)| &*class.name).collect();
    assert_eq!(names, ["default", "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"]);
    let choose = |host: &'static str, path: &str, class: Option<&'static str>| {
        let mut headers = HeaderMap::new();
        headers
            .extend(class.map(|class| {
                (HeaderName::from_static("x-class"), HeaderValue::from_static(class))
            }));
        let client = || IpAddr::from([192, 0, 2, 1]);
        let choice = options.routes.choose(&Method::GET, || Some(host), path, &headers, client)?;
        Some((choice.route, names[choice.class.index()]))
    };
    assert_eq!(choose("h998.example", "/r998/x", None), Some((998, "default")));
    assert_eq!(choose("H998.example:80", "/r998", Some("3")), Some((998, "c3")));
    assert_eq!(choose("other.example", "/r999/x", Some("8")), Some((999, "c8")));
    assert_eq!(choose("other.example", "/r998/x", None), None);
}

#[test]
fn more_promises_than_a_stage_has_classes_are_a_mistake() {
    let routes = (0..65).map(|route| {
        format!(
            "[[routes]]\nname = \"r{route}\"\npath = \"/r{route}\"\np90 = \"{}ms\"\n",
            100 + route
        )
    });
    let routes = routes.collect::<String>();
    let text =
        format!("listen = \"127.0.0.1:0\"\nupstreams.app.url = \"http://127.0.0.1:1\"\n{routes}");
    let text = shown(&text);
    assert!(text.contains("65 combinations of target, priority and weight"), "{text}");
    assert!(text.contains("expected at most 64"), "{text}");
}

#[test]
fn a_class_has_its_weight_on_every_route() {
    let text = FULL.replace("priority = 0", "weight = 3");
    let options = config::parse("weighted.toml", &text).unwrap();
    let shop = &options.upstreams[0].classes;
    let weight = |name: &str| shop.weight(shop.named(name).unwrap()).map(|weight| weight.get());
    assert_eq!(["search/paying", "rest/paying"].map(weight), [Some(3), Some(3)]);
    assert_eq!(["search", "search/early", "rest"].map(weight), [None, None, None]);
}

#[test]
fn the_most_exact_route_takes_a_request_and_one_that_never_can_is_a_mistake() {
    let file = |routes: &[&str]| {
        let routes = routes.iter().enumerate().map(|(index, lines)| {
            format!("[[routes]]\nname = \"r{index}\"\nupstream = \"a{}\"\n{lines}\n", index % 2)
        });
        "listen = \"127.0.0.1:0\"\np90 = \"1s\"\n[upstreams.a0]\nurl = \"http://127.0.0.1:1\"\n\
         [upstreams.a1]\nurl = \"http://127.0.0.1:2\"\n"
            .to_owned()
            + &routes.collect::<String>()
    };
    let chosen = |lines: [&str; 2], host: &str, path: &str| {
        let routes = config::parse("a.toml", &file(&lines)).unwrap().routes;
        let (headers, client) = (HeaderMap::new(), || "192.0.2.1".parse().unwrap());
        routes.choose(&Method::GET, || Some(host), path, &headers, client).unwrap().upstream
    };
    let paths = ["path = \"/\"", "path = \"/a\""];
    assert_eq!((chosen(paths, "a.example", "/a/b"), chosen(paths, "a.example", "/b")), (1, 0));
    let hosts = ["host = \"a.example\"", "path = \"/a\""];
    assert_eq!((chosen(hosts, "a.example", "/a"), chosen(hosts, "b.example", "/a")), (0, 1));
    let methods = ["methods = [\"GET\"]", "path = \"/a\""];
    assert_eq!((chosen(methods, "a.example", "/a"), chosen(methods, "a.example", "/b")), (1, 0));

    for (dead, line) in [
        (&["path = \"/a/\"", "path = \"//%61\""][..], 11),
        (&["host = \"A.example\"", "host = \"a.EXAMPLE\""], 11),
        (&["methods = [\"GET\"]", "methods = [\"PUT\"]", "methods = [\"GET\", \"PUT\"]"], 15),
    ] {
        let shown = shown(&file(dead));
        assert!(shown.contains("never matches"), "{shown}");
        assert!(shown.contains(&format!("site.toml:{line}:")), "{shown}");
    }
    assert!(config::parse("a.toml", &file(&["methods = [\"GET\"]", ""])).is_ok());
    for path in ["/files/*.php", "/a/../b", "/a/%2e", "/a%00"] {
        let shown = shown(&file(&[&format!("path = {path:?}")]));
        assert!(shown.contains("all below it is meant"), "{shown}");
    }
    for methods in ["[\"TRACE\"]", "[\"CONNECT\", \"TRACE\"]"] {
        let shown = shown(&file(&[&format!("methods = {methods}")]));
        assert!(shown.contains("`CONNECT` and `TRACE` are not forwarded"), "{shown}");
        assert!(shown.contains("remove the route") && shown.contains("site.toml:10:"), "{shown}");
    }
    assert!(config::parse("a.toml", &file(&["methods = [\"GET\", \"TRACE\"]", ""])).is_ok());
}

/// A file with these classes, each with its conditions, and a route for each of these lists.
fn file_of_classes(classes: &[(&str, &str)], lists: &[&str]) -> String {
    let tables = classes.iter().map(|(name, any)| format!("[classes.{name}]\nany = [{any}]\n"));
    let routes = lists.iter().enumerate().map(|(index, list)| {
        format!("[[routes]]\nname = \"r{index}\"\npath = \"/{index}\"\nclasses = {list}\n")
    });
    upstream_of(&tables.chain(routes).collect::<String>())
}

#[test]
fn a_class_whose_requests_are_all_of_earlier_ones_is_a_mistake() {
    for (first, second) in [
        ("{ path = \"/\" }", "{ header = \"x\" }"),
        ("{ path = \"/\" }", "{ path = \"/a\" }, { address = \"10.0.0.0/8\" }"),
        ("{ path = \"/a\" }", "{ path = \"//%61/b\" }"),
        ("{ header = \"x\" }", "{ header = \"X\" }"),
        ("{ header = \"x\" }", "{ header = \"x\", value = \"1\" }"),
        ("{ cookie = \"c\", value = \"1\" }", "{ cookie = \"c\", value = \"1\" }"),
        ("{ address = \"10.0.0.0/8\" }", "{ address = \"10.1.0.0/16\" }"),
        ("{ cookie = \"c\" }, { path = \"/a\" }", "{ path = \"/a\" }, { cookie = \"c\" }"),
    ] {
        let shown = shown(&file_of_classes(&[("a", first), ("b", second)], &[]));
        for part in ["class `b` never matches", "[site.toml:8:", "earlier class: a", "move this"] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }
    for (first, second) in [
        ("{ header = \"x\", value = \"1\" }", "{ header = \"x\" }"),
        ("{ cookie = \"x\" }", "{ header = \"x\" }"),
        ("{ path = \"/a\" }", "{ path = \"/ab\" }"),
        ("{ path = \"/a\" }", "{ path = \"/a/b\" }, { cookie = \"c\" }"),
        ("{ address = \"10.1.0.0/16\" }", "{ address = \"10.0.0.0/8\" }"),
    ] {
        let text = file_of_classes(&[("a", first), ("b", second)], &[]);
        assert!(config::parse("a.toml", &text).is_ok(), "{text}");
    }
    let last = "{ path = \"/a/b\" }, { header = \"x\", value = \"1\" }";
    let classes = [("a", "{ path = \"/a\" }"), ("c", "{ header = \"x\" }"), ("b", last)];
    let shown = shown(&file_of_classes(&classes, &[]));
    assert!(shown.contains("class `b` never matches"), "{shown}");
    assert!(shown.contains("earlier class: a, c"), "{shown}");
}

#[test]
fn an_earlier_class_takes_requests_only_on_the_routes_that_have_it() {
    let with = |lists: &[&str]| {
        let classes = [("a", "{ path = \"/\" }"), ("b", "{ header = \"x\" }")];
        config::parse("a.toml", &file_of_classes(&classes, lists))
    };
    let (both, swapped) = ("[\"a\", \"b\"]", "[\"b\", \"a\"]");
    for lists in [&[both, "[\"b\"]"][..], &[swapped], &["[\"a\"]", "[\"b\"]"]] {
        assert!(with(lists).is_ok(), "{lists:?}");
    }
    for lists in [&[both][..], &[both, "[\"a\"]", "[]"]] {
        let error = with(lists).unwrap_err();
        assert_eq!(error.to_string(), "class `b` never matches", "{lists:?}");
    }
}

#[test]
fn three_lines_are_enough() {
    let text =
        "listen = \"127.0.0.1:0\"\np90 = \"200ms\"\nupstreams.app.url = \"http://localhost\"";
    let options = config::parse("small.toml", text).unwrap();
    let class = options.upstreams[0].classes.iter().next().unwrap().1;
    assert_eq!(class.name, "default");
    assert_eq!(class.target.response_time(), Duration::from_millis(200));
}

#[test]
fn the_example_of_the_documentation_is_valid() {
    let example = include_str!("../../../../docs/examples/protect.toml");
    config::parse("example.toml", example).unwrap();
}

fn shown(text: &str) -> String {
    let error = config::parse("site.toml", text).unwrap_err();
    let mut shown = String::new();
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor());
    handler.render_report(&mut shown, &error).unwrap();
    shown
}

#[test]
fn a_mistake_is_shown_where_it_stands() {
    let text = "listen = \"127.0.0.1:8080\"\np90 = \"200 parsecs\"\n\n[upstreams.app]\nurl = \"http://a\"\n";
    let expected = "  × `200 parsecs` needs a unit: one of ns, us, ms, s, m, h; \
                    write for example `200ms` or `1.5s`\n   \
        ╭─[site.toml:2:7]\n \
        1 │ listen = \"127.0.0.1:8080\"\n \
        2 │ p90 = \"200 parsecs\"\n   \
        ·       ──────┬──────\n   \
        ·             ╰── expected a time such as \"200ms\", \"1.5s\" or \"2m\"\n \
        3 │ \n   \
        ╰────\n";
    assert_eq!(shown(text), expected);
}

/// A valid file with one part replaced: the message must name the line and the
/// offending text, and contain all of `expected`.
fn wrong(valid: &str, replaced: &str, line: usize, expected: &[&str]) {
    assert!(FULL.contains(valid), "{valid:?}");
    let text = FULL.replacen(valid, replaced, 1);
    let shown = shown(&text);
    assert!(shown.contains(&format!("[site.toml:{line}:")), "line {line} in {shown}");
    for part in expected {
        assert!(shown.contains(part), "{part:?} in {shown}");
    }
}

/// A file with `more` about its only upstream.
fn upstream(more: &str) -> Result<UpstreamOptions, config::ConfigError> {
    let file = format!(
        "listen = \"127.0.0.1:0\"\np90 = \"1s\"\n[upstreams.a]\nurl = \"http://127.0.0.1:1\"\n{more}"
    );
    config::parse("a.toml", &file).map(|mut options| options.upstreams.remove(0))
}

#[test]
fn request_bodies_are_buffered_or_streamed() {
    let buffering = |more: &str| upstream(more).unwrap().request_buffering;
    assert_eq!(buffering(""), RequestBuffering::MemoryAndFile);
    assert_eq!(
        buffering("request_buffering = \"memory-and-file\""),
        RequestBuffering::MemoryAndFile
    );
    assert_eq!(buffering("request_buffering = \"off\""), RequestBuffering::Off);
    let error =
        format!("{:?}", miette::Report::new(upstream("request_buffering = \"on\"").unwrap_err()));
    assert!(
        error.contains("a.toml:5") && error.contains("\"memory-and-file\" or \"off\""),
        "{error}"
    );
}

#[test]
fn clients_are_addresses_headers_or_cookies() {
    let client = |more: &str| upstream(more).unwrap().client;
    assert_eq!(client(""), Client::Address);
    assert_eq!(client("client = \"address\""), Client::Address);
    let key = "x-api-key".parse().unwrap();
    assert_eq!(client("client = { header = \"X-Api-Key\" }"), Client::Header(key));
    let session = Client::Cookie("session".to_owned());
    assert_eq!(client("client = { cookie = \"session\" }"), session);
    for wrong in [
        "\"name\"",
        "{ header = \"a\", cookie = \"b\" }",
        "{}",
        "{ header = \"a b\" }",
        "{ path = \"/\" }",
    ] {
        let error = upstream(&format!("client = {wrong}")).unwrap_err();
        let error = format!("{:?}", miette::Report::new(error));
        assert!(error.contains("a.toml:5"), "{wrong}: {error}");
    }
}

#[test]
fn an_upstream_may_be_bounded_by_resources() {
    assert!(upstream("").unwrap().resources.is_empty());
    let ratio = |share| Ratio::new(share).unwrap();
    let bounds = ResourceBounds::new().memory(ratio(0.9)).cpu(Ratio::ONE);
    let given = upstream("resources = { memory = 0.9, cpu = 1.0 }").unwrap().resources;
    assert_eq!(given, bounds);
    for (wrong, message) in [
        ("resources = { memory = 0.0 }", "a bound of 0 rejects every request"),
        ("resources = { cpu = 1.5 }", "1.5 is out of range"),
        ("resources = { disk = 0.5 }", "unknown key"),
        ("resources = {}", "no resource is bounded"),
    ] {
        let error = upstream(wrong).unwrap_err();
        assert!(format!("{error:?} {error}").contains(message), "{wrong}: {error:?}");
    }
}

#[test]
fn answers_of_a_route_may_be_streams() {
    let text = "listen = \"127.0.0.1:0\"\np90 = \"1s\"\n[upstreams.a]\nurl = \"http://127.0.0.1:1\"\n\
        [[routes]]\nname = \"chat\"\npath = \"/chat\"\nstreams = true\n[[routes]]\nname = \"rest\"\n";
    let options = config::parse("a.toml", text).unwrap();
    let streams = |path: &str| {
        let client = || "192.0.2.1".parse().unwrap();
        let (method, headers) = (http::Method::GET, http::HeaderMap::new());
        options.routes.choose(&method, || None, path, &headers, client).unwrap().streams
    };
    assert!(streams("/chat/1") && !streams("/other"));
}

#[test]
fn unknown_keys_come_with_a_suggestion() {
    wrong("listen =", "lisen =", 2, &["unknown key \"lisen\"", "did you mean \"listen\"?"]);
    wrong("body =", "bodies =", 10, &["unknown key \"bodies\"", "did you mean \"body\"?"]);
    wrong("answer_time", "answertime", 17, &["did you mean \"answer_time\"?"]);
    wrong("cookie =", "cooky =", 23, &["did you mean \"cookie\"?"]);
    wrong("methods =", "method =", 42, &["did you mean \"methods\"?"]);
    wrong(
        "p99 =",
        "p9 =",
        25,
        &["unknown key \"p9\"", "expected one of: any, priority, weight, p90"],
    );
    wrong(
        "upstream = \"blog\"",
        "upstream = \"blogg\"",
        36,
        &["unknown upstream \"blogg\"", "did you mean \"blog\"?"],
    );
    wrong(
        "[\"paying\"]",
        "[\"payin\"]",
        49,
        &["unknown class \"payin\"", "did you mean \"paying\"?"],
    );
}

#[test]
fn values_that_cannot_be_say_what_can() {
    wrong("\"127.0.0.1:8080\"", "\"localhost\"", 2, &["expected an address and a port"]);
    wrong(
        "\"127.0.0.1:8080\"",
        "8080",
        2,
        &["wrong type: integer", "expected an address and a port"],
    );
    wrong("cores = 2", "cores = 0", 4, &["0 is out of range", "a whole number from 1"]);
    wrong("cores = 2", "cores = -2", 4, &["-2 is out of range"]);
    wrong("10.0.0.0/8", "10.0.0.0/33", 5, &["\"10.0.0.0/33\"", "expected a network"]);
    wrong("\"200ms\"", "\"0ms\"", 6, &["expected a time"]);
    wrong("\"200ms\"", "\"25h\"", 6, &["expected 10us to 24h"]);
    wrong("\"200ms\"", "\"1ns\"", 6, &["not between 10µs and 24h"]);
    wrong("\"200ms\"", "200", 6, &["wrong type: integer", "expected a time"]);
    wrong("\"4KiB\"", "\"4K\"", 9, &["expected a size"]);
    for (key, size) in [("request_line", "0B"), ("head", "0B"), ("head", "49KiB")] {
        let (line, message) = (format!("{key} = {size:?}"), format!("{size:?} is out of range"));
        wrong("request_line = \"4KiB\"", &line, 9, &[message.as_str(), "a size from 64B to 48KiB"]);
    }
    for size in ["0B", "8GiB"] {
        let line = format!("rate_min = {size:?}");
        wrong("body = \"10MiB\"", &line, 10, &["is out of range", "a size from 1B to 1GiB"]);
    }
    wrong(
        "http://127.0.0.1:3000",
        "https://127.0.0.1:3000",
        15,
        &["https upstreams are not supported", "expected a service"],
    );
    wrong("http://127.0.0.1:3000", "http://127.0.0.1:3000/x", 15, &["has a path"]);
    wrong("[upstreams.blog]", "[upstreams.\"a b\"]", 19, &["\"a b\" is not a valid name"]);
    wrong("192.0.2.0/24", "192.0.2.0.0/24", 23, &["expected a network"]);
    wrong("priority = 0", "priority = 256", 24, &["from 0 (first) to 255 (last)"]);
    wrong("priority = 0", "weight = 0", 24, &["a weight of 0", "a whole number from 1 to 100"]);
    wrong("priority = 0", "weight = 101", 24, &["a whole number from 1 to 100"]);
    wrong("\"/search\"", "\"search\"", 41, &["expected a path"]);
    wrong("[\"GET\"]", "[\"get\"]", 42, &["\"get\"", "expected a method"]);
    wrong("[\"GET\"]", "\"GET\"", 42, &["wrong type: string", "expected a list"]);
    wrong("[\"GET\"]", "[]", 42, &["`methods` is empty", "or remove `methods`"]);
    wrong("blog.example.org", "blog.*.org", 35, &["expected a host name without a port"]);
    wrong("blog.example.org", "blog.example.org:80", 35, &["expected a host name without a port"]);
    wrong("blog.example.org", "blog.example.org.", 35, &["expected a host name without a port"]);
    wrong("blog.example.org", "*.example.org.", 35, &["expected a host name without a port"]);
    wrong("host = \"upstream\"", "host = \":80\"", 16, &["or a host name"]);
    wrong("http://127.0.0.1:3000", "http://127.0.0.1:30000000", 15, &["no port from 1 to 65535"]);
}

#[test]
fn parts_that_do_not_hold_together_are_mistakes_too() {
    wrong("url = \"http://127.0.0.1:3000\"", "", 14, &["\"url\" is missing", "needs `url ="]);
    wrong("listen = \"127.0.0.1:8080\"", "", 1, &["\"listen\" is missing"]);
    wrong(
        "any = [{ header = \"x-early\" }]",
        "",
        27,
        &["this class matches no request", "needs `any"],
    );
    wrong(
        "{ cookie = \"plan\", value = \"gold\" }",
        "{}",
        23,
        &["tests one thing, and this one has 0"],
    );
    wrong("cookie = \"plan\", value", "path = \"/\", value", 23, &["`path` cannot have a `value`"]);
    wrong(
        "cookie = \"plan\", value",
        "header = \"a\", cookie",
        23,
        &["tests one thing, and this one has 2"],
    );
    wrong(
        "upstream = \"blog\"",
        "upstream = \"shop\"",
        19,
        &["no route uses the upstream \"blog\""],
    );
    wrong(
        "p95 = \"1.5s\"",
        "classes = [\"paying\"]",
        27,
        &["no route has the class \"early\"", "add it to the `classes` of a route"],
    );
    wrong("upstream = \"blog\"", "", 33, &["this route names no upstream"]);
    wrong("p95 = \"1.5s\"", "p95 = \"1.5s\"\np50 = \"1s\"", 45, &["several targets"]);
    wrong("p90 = \"200ms\"", "", 33, &["no response-time target", "add for example"]);
    wrong("name = \"rest\"", "name = \"search\"", 14, &["two classes are named \"search\""]);
    wrong("[limits]", "[limits", 8, &["invalid TOML"]);
    wrong("cores = 2", "cores = 2\ncores = 3", 5, &["invalid TOML", "duplicate key"]);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = config::load("/no/such/file.toml".as_ref()).unwrap_err();
    assert_eq!(error.to_string(), "cannot read /no/such/file.toml");
}

/// A file with one upstream of these lines.
fn upstream_of(lines: &str) -> String {
    format!(
        "listen = \"127.0.0.1:0\"\np90 = \"1s\"\n\n[upstreams.app]\nurl = \"http://a\"\n{lines}\n"
    )
}

#[test]
fn laws_are_chosen_by_name_for_an_upstream_or_for_its_stage() {
    let text = upstream_of(
        "admission = \"predict-gate-trim\"\nworkers = 8\n\
         [stage.app]\nquality = { law = \"degradation\", quality_least_ratio = 0.5 }\n\
         termination = \"termination-threshold\"\ndropping = \"codel\"",
    );
    let laws = config::parse("t", &text).unwrap().upstreams.remove(0).laws;
    let expected = Laws::new()
        .admission("predict-gate-trim", &[])
        .and_then(|laws| laws.dropping("codel", &[]))
        .and_then(|laws| laws.workers("fixed", &[("workers_count", 8.0)]))
        .and_then(|laws| laws.quality("degradation", &[("quality_least_ratio", 0.5)]))
        .and_then(|laws| laws.termination("termination-threshold", &[]));
    assert_eq!(laws, expected.unwrap());
}

#[test]
fn laws_that_cannot_be_are_shown_where_they_stand() {
    for (lines, expected) in [
        ("admission = \"predict-gate\"", "did you mean \"predict-gate-trim\"?"),
        ("admission = { law = \"red\", queue_mn_count = 3 }", "did you mean \"queue_min_count\"?"),
        ("admission = { queue_min_count = 3 }", "the name of the admission law is missing"),
        ("admission = 7", "expected the name of a law"),
        ("quality = { law = \"degradation\", quality_least_ratio = 2 }", "a number from 0 to 1"),
        ("quality = { law = \"degradation\", quality_least_ratio = nan }", "a number from 0 to 1"),
        (
            "admission = { law = \"red\", queue_min_count = 50 }\nworkers = 2",
            "change one of these constants",
        ),
        ("batching = \"fixed\"", "requests to an upstream cannot be batched"),
        ("workers = 8", "admission law \"work-limit\" sets its own limit of requests in flight"),
        ("admission = \"codel\"", "for example `workers = 32`"),
        ("admission = \"codel\"\nworkers = 0", "a number of workers from 1 to 32768"),
        ("dropping = \"red\"", "unknown dropping law \"red\""),
        (
            "admission = \"codel\"\nworkers = 2\ndropping = \"codel\"",
            "codel is already the admission law",
        ),
        ("[stage.ap]\nquality = \"full\"", "did you mean \"app\"?"),
        ("quality = \"full\"\n[stage.app]\nquality = \"full\"", "quality of \"app\" is set twice"),
        ("[stage.app]\nqualty = \"full\"", "did you mean \"quality\"?"),
    ] {
        let text = upstream_of(lines);
        let shown = shown(&text);
        assert!(shown.contains(expected), "{lines}:\n{shown}");
    }
}

#[test]
fn a_token_stands_in_a_file_or_in_the_environment() {
    let with = |token: &str| format!("status_token = {token}\n{}", upstream_of(""));
    let token =
        |text: &str| config::parse("t", &with(text)).map(|options| options.front.status_token);
    let file = TokenSource::File("token".into());
    assert_eq!(token("{ file = \"token\" }").unwrap(), Some(file));
    let variable = TokenSource::Environment("TOKEN".to_owned());
    assert_eq!(token("{ env = \"TOKEN\" }").unwrap(), Some(variable));
    for wrong in ["{}", "{ file = \"a\", env = \"B\" }", "{ env = \"A=B\" }"] {
        assert!(shown(&with(wrong)).contains("{ env = "), "{wrong}");
    }
    assert!(shown(&with("{ file = \"\" }")).contains("expected a file such as \"token\""));
    assert!(shown(&with("\"secret\"")).contains("expected a table"));
}

#[test]
fn paths_are_relative_to_the_folder_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("protect.toml");
    let text = "status_token = { file = \"token\" }\nlog = { file = \"access.log\" }\n\
                profile = { file = \"profile.jsonl\" }\n";
    std::fs::write(&file, text.to_owned() + &upstream_of("")).unwrap();
    let options = config::load(&file).unwrap();
    let there = |name: &str| folder.path().join(name);
    assert_eq!(options.front.status_token, Some(TokenSource::File(there("token"))));
    assert_eq!(options.log.unwrap().to, LogTarget::File(there("access.log")));
    assert_eq!(options.front.profile.unwrap().file, there("profile.jsonl"));
    for key in ["status_token", "log", "profile"] {
        let shown = shown(&format!("{key} = {{ file = \"\" }}\n{}", upstream_of("")));
        assert!(shown.contains("expected a file such as"), "{shown}");
    }
}

#[test]
fn an_overflow_is_a_url_or_a_table_and_never_the_service_itself() {
    let overflow = |line: &str| {
        let options = config::parse("t", &upstream_of(line)).unwrap();
        options.upstreams[0].overflow().cloned().unwrap()
    };
    let short = overflow("overflow = \"http://b:81\"");
    assert_eq!((short.origin.to_string(), short.limit.get()), ("http://b:81".to_owned(), 64));
    let times = (short.connect_time, short.answer_time);
    assert_eq!(times, (Duration::from_secs(1), Duration::from_secs(2)));
    let long = overflow(
        "overflow = { url = \"http://b\", host = \"queue.example\", limit = 7, answer_time = \"300ms\" }",
    );
    assert_eq!((long.limit.get(), long.answer_time), (7, Duration::from_millis(300)));
    let host = HostHeader::Fixed(HeaderValue::from_static("queue.example"));
    assert_eq!(long.host_header, host);
    for (line, expected) in [
        (
            "overflow = \"http://A:80\"",
            "the overflow of \"app\" is http://A:80, the service itself; give the URL of another service",
        ),
        ("overflow = \"https://b\"", "https upstreams are not supported"),
        ("overflow = { limit = 3 }", "\"url\" is missing"),
        ("overflow = { url = \"http://b\", limit = 0 }", "0 is out of range"),
        ("overflow = { url = \"http://b\", limit = 40000 }", "a whole number from 1 to 32768"),
        ("overflow = { url = \"http://b\", limits = 4 }", "did you mean \"limit\"?"),
    ] {
        let shown = shown(&upstream_of(line));
        assert!(shown.contains(expected) && shown.contains("overflow"), "{line}:\n{shown}");
    }
}
