//! Properties of the compiler, through Python: any bytes are a page or an error with a line, and
//! literal HTML comes out byte for byte.

use crate::support::{Folder, get};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tamarisk_pytec::Site;

/// Stretches of pages, whole and broken, and whatever else a file may have.
fn page() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "<%pytec",
        "%>",
        "<%=",
        "<%include",
        "<%%",
        "<%",
        ">",
        "\n",
        "\r\n",
        "    ",
        "\t",
        "a",
        "é",
        "x = 1",
        "if a:",
        "write('b')",
        "return",
        "'''",
        "(",
        ")",
        ":",
        "#",
        "\\",
        "\u{feff}",
        "yield",
        "lambda: 0",
        "..",
        "i.pyh",
        "\u{2028}",
        "\x0c",
        "class A: pass",
        "def f():",
        "None",
        "f'{a!r}'",
        "0x",
        "'",
    ]);
    let known = known.prop_map(|text| text.as_bytes().to_vec());
    let any = prop::collection::vec(any::<u8>(), 0..4);
    let stretches = prop::collection::vec(prop_oneof![8 => known, 1 => any], 0..24);
    stretches.prop_map(|stretches| stretches.concat())
}

fn check<S: Strategy>(cases: u32, strategy: S, property: impl AsyncFn(&Folder, &Site, S::Value)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = Folder::with(&[("a.pytec", ""), ("i.pyh", "<%pytec a = 1 %>")]);
    let site = {
        let _entered = runtime.enter();
        folder.open()
    };
    let mut runner =
        TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(cases) });
    let checked = runner.run(&strategy, |value| {
        runtime.block_on(property(&folder, &site, value));
        Ok(())
    });
    checked.unwrap();
}

#[test]
fn any_bytes_are_a_page_or_an_error_with_a_line() {
    check(400, page(), async |folder, site, bytes| {
        folder.write("a.pytec", &bytes);
        site.refresh().await;
        let answer = get(site, "/a").await;
        let lines = 1 + bytes.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
        if answer.status == 500 {
            let text = answer.text();
            let text = text.split_once("<pre>").unwrap().1;
            let (file, rest) = text.split_once(':').unwrap();
            assert!(["a.pytec", "i.pyh"].contains(&file), "{bytes:?}: {text}");
            let line: usize = rest.split_once(':').unwrap().0.parse().unwrap();
            assert!((1..=lines).contains(&line), "{bytes:?}: {text}");
        } else {
            assert_eq!(answer.status, 200, "{bytes:?}");
        }
    });
}

#[test]
fn literal_html_comes_out_byte_for_byte() {
    let html = prop::collection::vec(any::<char>(), 0..40).prop_map(|characters| {
        String::from_iter(characters).replace("<%", "< %").trim_end_matches('<').to_owned()
    });
    check(200, prop::collection::vec(html, 1..5), async |folder, site, stretches| {
        folder.write("a.pytec", stretches.join("<%pytec x = 1 %>"));
        site.refresh().await;
        let answer = get(site, "/a").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.body, stretches.concat().into_bytes());
    });
}
