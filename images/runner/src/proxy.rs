//! The proxy between Terraform's provider and the API server: plain HTTP on the loopback device on one
//! side, HTTPS with the credential on the other. The provider gets no credential, and nothing passes
//! that the rules do not let pass.

pub mod absent;
pub mod body;
pub mod json;
pub mod rules;
pub mod target;
pub mod upstream;

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http::header::{ACCEPT, CONNECTION, CONTENT_TYPE, HeaderValue, UPGRADE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use prost::bytes::Bytes;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::api::Ask;
use crate::reports::{Call, Reports};
use rules::{Head, Pass, Rules};
use target::shown;
use upstream::Upstream;

/// The longest body of a request, in bytes: what the API server itself takes.
const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

/// More connections than Terraform's ten operations at once open.
const MAX_CONNECTIONS: usize = 64;

/// A proxy that listens. Dropping it closes every connection.
pub struct Proxy {
    address: SocketAddr,
    _task: JoinSet<()>,
}

impl Proxy {
    /// Listens on a free port of the loopback device. From `close` on it lets nothing pass.
    ///
    /// # Errors
    /// What the kernel said.
    pub async fn start(
        rules: Rules,
        upstream: Upstream,
        reports: Reports,
        close: Instant,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let gate = Arc::new(Gate {
            rules,
            upstream,
            reports,
            close,
        });
        let mut task = JoinSet::new();
        task.spawn(serve(listener, gate));
        Ok(Self {
            address,
            _task: task,
        })
    }

    /// What the provider gets as its host.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn serve(listener: TcpListener, gate: Arc<Gate>) {
    let mut connections = JoinSet::new();
    loop {
        let full = connections.len() >= MAX_CONNECTIONS;
        tokio::select! {
            accepted = listener.accept(), if !full => match accepted {
                Ok((stream, _)) => { connections.spawn(connection(stream, Arc::clone(&gate))); }
                // Of that one connection, or too many files open: the next may fare better.
                Err(_) => tokio::task::yield_now().await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: tokio::net::TcpStream, gate: Arc<Gate>) {
    stream.set_nodelay(true).ok();
    let answer = service_fn(move |request| {
        let gate = Arc::clone(&gate);
        async move { Ok::<_, Infallible>(gate.answer(request).await) }
    });
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
    // The provider's end of it is the provider's to complain about.
    served.await.ok();
}

struct Gate {
    rules: Rules,
    upstream: Upstream,
    reports: Reports,
    close: Instant,
}

/// Why there is no answer of the API server's.
struct Refusal {
    status: StatusCode,
    /// Whether it was ours to refuse; else it is the API server that is away.
    ours: bool,
    why: String,
}

impl Refusal {
    fn rule(why: String) -> Self {
        Self {
            status: StatusCode::FORBIDDEN,
            ours: true,
            why,
        }
    }
}

impl Gate {
    /// Answers one request, and tells of it before the answer is read.
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let started = Instant::now();
        let method = request.method().clone();
        let path = shown(request.uri().path(), request.uri().query());
        let outcome = self.pass(request).await;
        let (status, refused) = match &outcome {
            Ok(response) => (response.status().as_u16(), ""),
            Err(refusal) if refusal.ours => (refusal.status.as_u16(), refusal.why.as_str()),
            Err(_) => (0, ""),
        };
        let call = Call {
            method: method.as_str(),
            path: &path,
            status,
            started,
            refused,
        };
        self.reports.call(call).await;
        outcome.unwrap_or_else(|refusal| refuse(&refusal, &method, &path))
    }

    async fn pass(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Refusal> {
        if Instant::now() >= self.close {
            return Err(Refusal::rule("the time for it is over".to_owned()));
        }
        let (head, body) = request.into_parts();
        let content_type = text(&head.headers, &CONTENT_TYPE);
        let pass = self.rules.admit(&Head {
            method: &head.method,
            path: head.uri.path(),
            query: head.uri.query(),
            content_type,
            upgrade: asks_for_upgrade(&head.headers) || head.method == Method::CONNECT,
        });
        let (content_type, body) = match pass.map_err(Refusal::rule)? {
            Pass::Read => ("", Bytes::new()),
            Pass::Write(form, identities) => {
                let body = read(body).await?;
                form.check(&body, &identities).map_err(Refusal::rule)?;
                (content_type, body)
            }
        };
        let accept = match text(&head.headers, &ACCEPT) {
            "" => "application/json",
            accept => accept,
        };
        let target = head.uri.path_and_query();
        let ask = Ask {
            method: head.method.clone(),
            target: target.map_or("/", |target| target.as_str()),
            accept,
            content_type,
            body,
        };
        self.upstream.call(ask).await.map_err(|why| Refusal {
            status: StatusCode::BAD_GATEWAY,
            ours: false,
            why,
        })
    }
}

async fn read(body: Incoming) -> Result<Bytes, Refusal> {
    match Limited::new(body, MAX_BODY_BYTES).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Refusal {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            ours: true,
            why: format!("its body has more than {MAX_BODY_BYTES} bytes"),
        }),
        Err(_) => Err(Refusal::rule("its body broke off".to_owned())),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> &'a str {
    let mut values = headers.get_all(name).iter();
    match (values.next().map(HeaderValue::to_str), values.next()) {
        (Some(Ok(value)), None) => value,
        (None, _) => "",
        // Two of them, or one that is no text: nothing we know is spelt like that.
        _ => "?",
    }
}

fn asks_for_upgrade(headers: &HeaderMap) -> bool {
    let names_it = |value: &HeaderValue| {
        let value = value.as_bytes().to_ascii_lowercase();
        memchr::memmem::find(&value, b"upgrade").is_some()
    };
    headers.contains_key(UPGRADE) || headers.get_all(CONNECTION).iter().any(names_it)
}

/// A Status as the API server writes one, so that the provider shows what it says.
fn refuse(refusal: &Refusal, method: &Method, path: &str) -> Response<Full<Bytes>> {
    let (reason, message) = if refusal.ours {
        let why = &refusal.why;
        let message = format!("agent-sandbox lets no {method} {path} pass: {why}");
        ("Forbidden", message)
    } else {
        ("InternalError", refusal.why.clone())
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": refusal.status.as_u16(),
    });
    let mut response = Response::new(Full::from(status.to_string()));
    *response.status_mut() = refusal.status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
