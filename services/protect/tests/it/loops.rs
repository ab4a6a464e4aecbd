//! Upstreams that lead back to the proxy itself.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::{any_port, exchange, front, options};
use tamarisk_protect::StartError;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

#[tokio::test]
async fn a_service_where_the_proxy_itself_listens_is_an_error_at_the_start() {
    let free = StdListener::bind(any_port()).unwrap().local_addr().unwrap();
    for listen in [free, SocketAddr::from(([0; 4], free.port()))] {
        let mut options = options(free);
        options.front.listen = listen;
        let error = tamarisk_protect::start(options).await.err();
        let Some(StartError::LeadsBack(error)) = error else { panic!("{error:?}") };
        assert!(
            error.to_string().contains(&format!("where this process itself listens ({listen})"))
        );
    }
}

#[tokio::test]
async fn a_request_that_comes_back_is_508_at_its_first_return() {
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let front = front(listener.local_addr().unwrap()).await;
    let (address, returns) = (front.local_addr(), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&returns);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let mut back = TcpStream::connect(address).await.unwrap();
                copy_bidirectional(&mut socket, &mut back).await
            });
        }
    });
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answer = exchange(address, request).await;
    assert!(answer.starts_with("HTTP/1.1 508 Loop Detected\r\n"), "{answer}");
    assert_eq!(returns.load(Ordering::SeqCst), 1);
    let accounts = front.gates()[0].observe().total();
    assert_eq!((accounts.offered, accounts.failed), (1, 1), "{accounts:?}");
    // What another proxy has passed on is no loop, the first time.
    let request = request.replace("Host", "Via: 1.1 tamarisk, 1.1 tamarisk-00000000\r\nHost");
    exchange(address, request).await;
    assert_eq!(front.gates()[0].observe().total().offered, 2);
}
