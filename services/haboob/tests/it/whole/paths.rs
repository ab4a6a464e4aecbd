//! Paths that may lead out of the route that they are on.

use super::{Heard, Web, service_heard};

#[tokio::test]
async fn a_path_that_climbs_out_of_a_proxied_route_reaches_no_service_and_no_file() {
    let heard = Heard::default();
    let service = service_heard(&heard).await;
    let site = format!(
        "[[host]]\nroot = \"public\"\n\
         [[host.route]]\npath = \"/api\"\nproxy = \"http://{service}\"\n"
    );
    let web = Web::with(&site, &[("public/secret", b"secret"), ("public/api/x", b"x")]).await;
    for path in [
        "/api/../secret",
        "/api/%2e%2e/secret",
        "/api/..%2fsecret",
        "/api%2f..%2fsecret",
        "/api/..%2Fsecret",
        "/api/..\\secret",
        "/api/..%5csecret",
        "/api/..;/secret",
        "/api/.%2E/secret",
        "//api//../secret",
    ] {
        for method in ["GET", "POST"] {
            let answer = web.ask(method, "test", path).await;
            let expected: &[u16] = if method == "GET" { &[400, 404] } else { &[400, 404, 405] };
            assert!(expected.contains(&answer.status), "{method} {path}: {}", answer.status);
            assert!(!answer.text().contains("secret"), "{method} {path}: {}", answer.text());
        }
    }
    // The last two are for the files, whose names have no slashes.
    for (path, expected) in [
        ("/api/../secret", 400),
        ("/api/%2e%2e/secret", 400),
        ("/api/..%2fsecret", 400),
        ("/api%2f..%2fsecret", 400),
        ("/api%2fx", 400),
    ] {
        assert_eq!(web.get(path).await.status, expected, "{path}");
    }
    assert_eq!(*heard.lock().unwrap(), [""; 0]);

    assert_eq!(web.get("/secret").await.text(), "secret");
    assert_eq!(web.get("/api/x").await.text(), "GET /api/x HTTP/1.1");
    assert_eq!(*heard.lock().unwrap(), ["GET /api/x HTTP/1.1"]);
}
