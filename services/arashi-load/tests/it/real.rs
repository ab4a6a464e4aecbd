//! Emulated users of the real Arashi, on SQLite: they find every mark that they look for.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tamarisk::catalogue::ByName;
use tamarisk::laws::Laws;
use tamarisk_arashi::store::Database;
use tamarisk_arashi::{Arashi, Options};
use tamarisk_arashi_load::{Accounts, WebmailUsers, prepare};
use tamarisk_load::{ClosedLoop, Plan, RetryAfter, Schedule, Spread, Workload, run};
use tokio::net::TcpListener;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_find_their_way_through_arashi() {
    let folder = std::env::temp_dir().join(format!("arashi-users-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let database = Database::at(&format!("sqlite:{}", folder.join("mail.db").display())).unwrap();
    let accounts = Accounts::numbered("user", 4, "correct horse", 0.5).unwrap();
    prepare(&database, &accounts, 2, |_| {}).unwrap();
    let mut options = Options::new(database);
    // A slow machine is not what is tested.
    options.laws = Laws::new().admission("open", &[]).unwrap();
    let arashi = Arashi::open(options).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (service, router) = (arashi.service(), arashi.router());
    tokio::spawn(async move { service.serve_until(listener, router, pending()).await });

    let workload = Workload::Closed(ClosedLoop {
        users: Schedule::new(4.0, vec![], Some(Duration::from_secs(6))).unwrap(),
        think: Duration::ZERO,
        after_reject: Duration::from_millis(100),
        retry_after: RetryAfter::Ignore,
        spread: Spread::default(),
        resend: None,
    });
    let plan = Plan::builder(workload, vec![url.parse().unwrap()])
        .drain(Duration::from_secs(10))
        .population(Arc::new(WebmailUsers::new(accounts, 5)));
    let report = run(plan.build().unwrap(), pending(), |_| {}).await.unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let total = &report.total;
    assert_eq!((total.rejected, total.failed), (0, 0), "{:?}", total.errors);
    assert_eq!(total.unfinished, 0);
    // The rare ones may be absent on a slow machine; what each visit has is not.
    for group in report.groups.iter().filter(|group| group.class.is_none()) {
        let name = group.request_type.as_deref().unwrap();
        assert!(name == "search" || group.summary.completed > 0, "{name}: {total:?}");
    }
    assert_eq!(total.connect.count, 4, "one connection a user");
}
