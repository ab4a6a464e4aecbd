//! Fetches the status of a running service over HTTP.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{anyhow, bail};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::interrupt::interrupted;

/// A status is some kilobytes for each stage.
const BYTES_MAX: usize = 16 << 20;

/// The longest wait for all of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// `http://HOST:PORT/status`; the path may be left out.
#[derive(Clone, Debug)]
pub(super) struct StatusUrl {
    authority: String,
    path: String,
}

impl FromStr for StatusUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no address; write for example `http://127.0.0.1:9090`");
        let url: http::Uri = text.parse().map_err(|_| wrong())?;
        let authority = url.authority().filter(|_| url.scheme_str() == Some("http"));
        let authority = authority.ok_or_else(wrong)?;
        let port = authority.port_u16().unwrap_or(80);
        let path = match url.path() {
            "/" => "/status",
            path => path,
        };
        Ok(Self { authority: format!("{}:{port}", authority.host()), path: path.to_owned() })
    }
}

impl fmt::Display for StatusUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

/// What stands there.
pub(super) fn fetch(url: &StatusUrl) -> anyhow::Result<Bytes> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            answer = timeout(PATIENCE, get(url)) => {
                answer.map_err(|_| anyhow!("no answer within {PATIENCE:?}"))?
            }
            () = interrupted() => bail!("interrupted"),
        }
    })
}

async fn get(url: &StatusUrl) -> anyhow::Result<Bytes> {
    let stream = TcpStream::connect(&url.authority).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request =
        Request::get(&url.path).header("host", &url.authority).body(Empty::<Bytes>::new())?;
    let exchange = async {
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        if !status.is_success() {
            bail!("status {status} instead of 200");
        }
        let body = Limited::new(answer.into_body(), BYTES_MAX).collect().await;
        body.map(http_body_util::Collected::to_bytes).map_err(|error| anyhow!(error))
    };
    let mut exchange = std::pin::pin!(exchange);
    tokio::select! {
        answer = &mut exchange => answer,
        // The connection may end before the last of the answer has been looked at.
        _ = connection => exchange.await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_and_the_port_may_be_left_out() {
        let shown = |text: &str| text.parse::<StatusUrl>().map(|url| url.to_string());
        assert_eq!(shown("http://a:90"), Ok("http://a:90/status".to_owned()));
        assert_eq!(shown("http://[::1]/x"), Ok("http://[::1]:80/x".to_owned()));
        for wrong in ["https://a", "a:90", "/status", ""] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
    }
}
