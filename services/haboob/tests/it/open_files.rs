//! Clients that open streams on HTTP/2, take nothing, and keep files open by that.

use crate::support::frames::RawHttp2;
use crate::support::{Folder, ask, within};
use tamarisk_haboob::{config, start};

/// Longer than any window, and than a file that is held.
const LONG: usize = 2 << 20;

const OPEN_FILES_MAX: usize = 4;
const FILES: usize = 10;

#[tokio::test]
async fn streams_that_take_nothing_keep_few_files_open() {
    let site = "listen = \"127.0.0.1:0\"\ncores = 2\n[[host]]\nroot = \"a\"\n";
    let long = vec![b'x'; LONG];
    let names: Vec<_> = (0..FILES).map(|number| format!("a/{number}")).collect();
    let mut files: Vec<(&str, &[u8])> = names.iter().map(|name| (&**name, &*long)).collect();
    files.extend([("site.toml", site.as_bytes()), ("a/short.txt", b"short")]);
    let folder = Folder::with(files);
    let mut options = config::load(&folder.join("site.toml")).unwrap();
    assert!(options.site.open_files_max >= 512, "by what the process may open");
    options.site.open_files_max = OPEN_FILES_MAX;
    let running = start(options).await.unwrap();
    let address = running.local_addr();

    let mut stalled = RawHttp2::connect(address, 1).await;
    let mut open = 0;
    for number in 0..FILES {
        let stream = 2 * u32::try_from(number).unwrap() + 1;
        assert!(stalled.get(stream, &format!("/{number}")).await);
        open += usize::from(stalled.status(stream).await == Some(200));
    }
    assert_eq!(open, OPEN_FILES_MAX);
    // Others are told to come again, and have all else.
    let busy = ask(address, "test", "GET", "/9", &[]).await;
    assert_eq!((busy.status, busy.field("retry-after")), (503, "1"));
    assert_eq!(ask(address, "test", "GET", "/short.txt", &[]).await.text(), "short");

    drop(stalled);
    within(async {
        loop {
            let long = ask(address, "test", "GET", "/9", &[]).await;
            if long.status == 200 {
                assert_eq!(long.body.len(), LONG);
                break;
            }
        }
    })
    .await;
}
