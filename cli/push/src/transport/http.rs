//! Requests over HTTP/1.1, with or without TLS; bounded in time and in what is read.

use std::{io::Read, time::Duration};

use ureq::{
    Agent,
    tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem},
};

use super::{Envelope, LONGEST, proxy};
use crate::{address::Address, reply::Reply, wire::Request};

/// Of an answer no more is read.
const MOST_READ: u64 = 16 << 10;
const HEADER_LINES: usize = 16 << 10;

/// A way to one backend.
#[derive(Debug)]
pub struct Transport(Agent);

impl Transport {
    /// Nothing is sent yet. With `authorities`, in PEM, only certificates of these are believed; else those that this
    /// machine believes.
    ///
    /// # Errors
    /// If these are none, or the environment names a proxy that is none.
    pub fn new(address: &Address, authorities: Option<&[u8]>) -> Result<Self, String> {
        let roots = match authorities {
            None => RootCerts::PlatformVerifier,
            Some(pem) => RootCerts::new_with_certs(&certificates(pem)?),
        };
        let proxy = proxy::of(address, |name| std::env::var(name).ok())?;
        let config = Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .proxy(proxy)
            .user_agent(concat!("heapattach/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .https_only(address.is_secret)
            // A token, and profiles, go where the user said.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_response_header_size(HEADER_LINES)
            .timeout_global(Some(LONGEST))
            .timeout_resolve(Some(Duration::from_secs(10)))
            .timeout_connect(Some(Duration::from_secs(10)))
            .max_idle_connections(1)
            .max_idle_connections_per_host(1);
        Ok(Self(config.build().new_agent()))
    }

    /// Sends a request, and waits for the answer so long.
    ///
    /// # Errors
    /// If there is no answer; why.
    pub fn send(
        &self,
        envelope: &Envelope<'_>,
        request: &Request,
        time: Duration,
    ) -> Result<Reply, String> {
        let mut call = self.0.post(envelope.url).content_type(request.kind);
        if request.is_compressed {
            call = call.header("Content-Encoding", "gzip");
        }
        if let Some(secret) = envelope.secret {
            call = call.header("Authorization", secret.header());
        }
        if let Some(tenant) = envelope.tenant {
            call = call.header("X-Scope-OrgID", tenant);
        }
        let call = call.config().timeout_global(Some(time.min(LONGEST))).build();
        let response = call.send(&request.body[..]).map_err(|error| error.to_string())?;
        let header = |name| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        let (retry_after, date) = (header("retry-after"), header("date"));
        let status = response.status().as_u16();
        let mut text = Vec::new();
        // The status says all; what breaks off behind it changes nothing. What is read to its end leaves the connection
        // for the next one.
        let _ = response.into_body().into_reader().take(MOST_READ).read_to_end(&mut text);
        Ok(Reply { status, retry_after, date, text: String::from_utf8_lossy(&text).into_owned() })
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<Certificate<'static>>, String> {
    let mut all = Vec::new();
    for item in parse_pem(pem) {
        if let PemItem::Certificate(certificate) =
            item.map_err(|error| format!("--push-ca: {error}"))?
        {
            all.push(certificate);
        }
    }
    match all.is_empty() {
        true => Err("--push-ca: need certificates in PEM (-----BEGIN CERTIFICATE-----)".to_owned()),
        false => Ok(all),
    }
}
