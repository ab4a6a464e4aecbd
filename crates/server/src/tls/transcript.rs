//! The transcript of a handshake whose [server name has a port](super::server_name).
//!
//! Client and server prove to each other that both saw the same messages: the keys, the Finished
//! messages and the binder of a resumed session depend on a hash of all of them [RFC8446 §4.4.1].
//! rustls hashes the hello that it was given, which has the mark and not the colon. So the suites
//! here have a hash that turns the mark back.
//!
//! This weakens nothing. Only handshakes in whose first hello we put a mark use these suites, and
//! what they hash of it is what came. If somebody on the way changed a byte, also a colon into the
//! mark or back, client and server hash different bytes, and the handshake fails as it would
//! without us. There is one exception: a mark that comes in the second hello, after the first one
//! had a colon, is taken for a colon. That is what the client sent if the handshake succeeds, and
//! the name is the same.

use std::sync::LazyLock;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::hash::{Context, Hash, HashAlgorithm, Output};
use rustls::crypto::{CipherSuiteCommon, CryptoProvider};
use rustls::{SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite};

use super::server_name;

/// rustls keeps references to suites for the life of the process, so these are made once.
static SUITES: LazyLock<Vec<SupportedCipherSuite>> =
    LazyLock::new(|| default_provider().cipher_suites.into_iter().map(with_marks).collect());

/// The default provider, for handshakes whose hello has a mark.
pub(super) fn provider() -> CryptoProvider {
    CryptoProvider { cipher_suites: SUITES.clone(), ..default_provider() }
}

fn with_marks(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    match suite {
        SupportedCipherSuite::Tls12(suite) => {
            let common = hashing_as_sent(&suite.common);
            let suite = Tls12CipherSuite { common, ..*suite };
            SupportedCipherSuite::Tls12(Box::leak(Box::new(suite)))
        }
        SupportedCipherSuite::Tls13(suite) => {
            let common = hashing_as_sent(&suite.common);
            let suite = Tls13CipherSuite { common, ..*suite };
            SupportedCipherSuite::Tls13(Box::leak(Box::new(suite)))
        }
    }
}

fn hashing_as_sent(common: &CipherSuiteCommon) -> CipherSuiteCommon {
    let hash = Box::leak(Box::new(HashAsSent(common.hash_provider)));
    CipherSuiteCommon { hash_provider: hash, ..*common }
}

/// A hash of what the client sent.
struct HashAsSent(&'static dyn Hash);

impl Hash for HashAsSent {
    fn start(&self) -> Box<dyn Context> {
        Box::new(ContextAsSent(self.0.start()))
    }

    fn hash(&self, data: &[u8]) -> Output {
        let mut context = self.start();
        context.update(data);
        context.finish()
    }

    fn output_len(&self) -> usize {
        self.0.output_len()
    }

    fn algorithm(&self) -> HashAlgorithm {
        self.0.algorithm()
    }

    fn fips(&self) -> bool {
        self.0.fips()
    }
}

struct ContextAsSent(Box<dyn Context>);

impl Context for ContextAsSent {
    fn fork_finish(&self) -> Output {
        self.0.fork_finish()
    }

    fn fork(&self) -> Box<dyn Context> {
        Box::new(Self(self.0.fork()))
    }

    fn finish(self: Box<Self>) -> Output {
        self.0.finish()
    }

    /// rustls gives a hello in one piece, for a binder without its end. No other message is taken
    /// for a hello: its first byte is its type.
    fn update(&mut self, data: &[u8]) {
        let Some(mark) = server_name::mark_in(data) else { return self.0.update(data) };
        self.0.update(&data[..mark]);
        self.0.update(&[server_name::SENT]);
        self.0.update(&data[mark + 1..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::server_name::mark_port;
    use crate::tls::server_name::tests::hello;

    #[test]
    fn a_marked_hello_is_hashed_as_it_was_sent_and_all_else_as_it_is() {
        for (suite, plain) in
            provider().cipher_suites.into_iter().zip(default_provider().cipher_suites)
        {
            let [suite, plain] = [suite, plain].map(|suite| match suite {
                SupportedCipherSuite::Tls12(suite) => suite.common.hash_provider,
                SupportedCipherSuite::Tls13(suite) => suite.common.hash_provider,
            });
            let sent = hello("example.com:8443");
            let mut marked = sent.clone();
            assert!(mark_port(&mut marked));
            let both = |data: &[u8], sent: &[u8]| {
                let expected = plain.hash(sent);
                assert_eq!(suite.hash(data).as_ref(), expected.as_ref());
                let mut context = suite.start().fork();
                context.update(data);
                assert_eq!(context.fork_finish().as_ref(), expected.as_ref());
                assert_eq!(context.finish().as_ref(), expected.as_ref());
            };
            both(&marked, &sent);
            both(&marked[..marked.len() - 9], &sent[..sent.len() - 9]);
            for data in [&b""[..], b"\x01", b"\x02_1", &[1; 48], &hello("example.com")] {
                both(data, data);
            }
        }
    }
}
