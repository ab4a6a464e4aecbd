//! A service whose first stage alone is stated: the others belong to it, too.

use std::time::Duration;

use axum::Router;
use axum::routing::post;
use tamarisk_axum::{Part, Service, answers};
use tamarisk_stage::{AnyStage, Context, DrainReport, Request, Stage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

type TextStage = Stage<Request<String, String>>;

/// `clean` calls `count`, which forwards to `print`; each takes a while.
fn pipeline() -> [TextStage; 3] {
    let wait = || sleep(Duration::from_millis(50));
    let print = Stage::builder("print").handler(async move |length: usize, _: Context| {
        wait().await;
        Ok(length.to_string())
    });
    let print = print.unwrap();
    let count = Stage::builder("count").event_handler(
        async move |Request { body, reply }: Request<String, String>, cx: Context| {
            wait().await;
            cx.forward(&print, body.len(), reply);
            Ok(())
        },
    );
    let count = count.unwrap();
    let after = count.clone();
    let clean = Stage::builder("clean").handler(async move |text: String, cx: Context| {
        wait().await;
        Ok(cx.call(&after, text.trim().to_owned()).await?)
    });
    // Nothing ever goes on to the last one.
    let idle = Stage::builder("idle").handler(async |text: String, _: Context| Ok(text));
    [clean.unwrap(), count, idle.unwrap()]
}

fn names(reports: &[DrainReport]) -> Vec<&str> {
    reports.iter().map(|report| report.stage.as_str()).collect()
}

#[tokio::test]
async fn what_is_under_way_is_finished_by_stages_that_are_not_stated() {
    let [clean, count, idle] = pipeline();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/", post(answers(&clean)));
    let service = Service::new().stage(&idle).stage(&clean);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(service.serve_until(listener, router, async {
        let _ = stopped.await;
    }));
    let mut client = TcpStream::connect(address).await.unwrap();
    let request =
        "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 7\r\n\r\n seven ";
    client.write_all(request.as_bytes()).await.unwrap();
    while clean.observe().total().running == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    // No event has gone on to the others by now.
    stop.send(()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("\r\n5"), "{answer}");
    let reports = serving.await.unwrap().unwrap();
    assert_eq!(names(&reports), ["idle", "clean", "count", "print"]);
    assert!(reports.iter().all(DrainReport::is_clean), "{reports:?}");
    let error = count.call("more".to_owned()).await.unwrap_err();
    assert!(error.rejection().is_some(), "it is drained");
}

#[tokio::test(start_paused = true)]
async fn each_stage_is_there_once_and_after_those_that_send_to_it() {
    let [clean, count, _] = pipeline();
    let stages = |of: &[&TextStage]| {
        let stages = AnyStage::with_receivers(of.iter().map(|stage| AnyStage::from(*stage)));
        stages.iter().map(|stage| stage.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(stages(&[&clean]), ["clean"], "no event has gone on");
    for _ in 0..3 {
        assert_eq!(clean.call("one".to_owned()).await.unwrap(), "3");
    }
    assert_eq!(stages(&[&clean]), ["clean", "count", "print"]);
    assert_eq!(stages(&[&count, &clean]), ["clean", "count", "print"]);
    assert_eq!(clean.stages(), [AnyStage::from(&clean)]);
    // It is closed with the handler that holds it.
    drop((clean, count));
}

#[tokio::test(start_paused = true)]
async fn stages_that_send_to_each_other_are_drained_all_the_same() {
    let (set, mut get) = tokio::sync::watch::channel(None::<TextStage>);
    let pong = Stage::builder("pong").handler(async move |text: String, cx: Context| {
        let ping = get.wait_for(Option::is_some).await?.clone();
        let ping = ping.ok_or("it is set")?;
        Ok(if text.len() < 4 { cx.call(&ping, format!("{text}!")).await? } else { text })
    });
    let pong = pong.unwrap();
    let ping = Stage::builder("ping")
        .handler(async move |text: String, cx: Context| Ok(cx.call(&pong, text).await?))
        .unwrap();
    set.send_replace(Some(ping.clone()));
    assert_eq!(ping.call("a".to_owned()).await.unwrap(), "a!!!");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let service = Service::new().stage(&ping);
    let stopped = service.serve_until(listener, Router::new(), std::future::ready(()));
    assert_eq!(names(&stopped.await.unwrap()), ["ping", "pong"]);
}
