//! One HTTPS connection to the API server: the address is dialled as given, and the certificate is
//! checked against a name and an authority that came with it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HOST, USER_AGENT};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use prost::bytes::Bytes;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sandbox_proto::runner::v1::ApiServer;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::credential::Credential;

/// The longest answer that is read. Some 2,000 pods as Kubernetes writes them.
pub const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;

/// How long connecting may take: a kernel repeats a lost SYN after a second, and this allows for one.
pub const CONNECT_LIMIT: Duration = Duration::from_millis(1_500);
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(3);

/// Where the API server is and how it is recognised.
pub struct Server {
    source: ApiServer,
    endpoints: Vec<SocketAddr>,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
}

/// An `ApiServer` that cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ServerError {
    /// No endpoint at all.
    #[error("no endpoint of the API server was given")]
    NoEndpoint,
    /// One that is no `IP:port`.
    #[error("an endpoint of the API server is no IP:port")]
    Endpoint,
    /// A name that no certificate can have.
    #[error("the API server's name is neither a DNS name nor an address")]
    Name,
    /// No certificate in the PEM, or one that does not parse.
    #[error("the API server's certificate authority is no PEM certificate")]
    Authority,
}

/// Why no endpoint could be used: each with what it said.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct DialError(String);

impl Server {
    /// Checks what the daemon says of the API server.
    ///
    /// # Errors
    /// [`ServerError`], by the field at fault.
    pub fn new(source: ApiServer) -> Result<Self, ServerError> {
        if source.endpoints.is_empty() {
            return Err(ServerError::NoEndpoint);
        }
        let endpoints = source.endpoints.iter().map(|endpoint| endpoint.parse());
        let endpoints = endpoints.collect::<Result<_, _>>();
        let name = ServerName::try_from(source.server_name.clone());
        Ok(Self {
            endpoints: endpoints.map_err(|_| ServerError::Endpoint)?,
            name: name.map_err(|_| ServerError::Name)?,
            tls: Arc::new(client_config(&source.ca_pem).ok_or(ServerError::Authority)?),
            source,
        })
    }

    /// Connects to the first endpoint that takes the connection within `limit` and then completes a
    /// verified handshake.
    ///
    /// # Errors
    /// [`DialError`], with what each endpoint said.
    pub async fn dial(&self, limit: Duration) -> Result<Connection, DialError> {
        let mut said = Vec::new();
        for &endpoint in &self.endpoints {
            match self.dial_one(endpoint, limit).await {
                Ok(connection) => return Ok(connection),
                Err(error) => said.push(format!("{endpoint}: {error}")),
            }
        }
        Err(DialError(said.join("; ")))
    }

    async fn dial_one(&self, peer: SocketAddr, limit: Duration) -> Result<Connection, String> {
        let late = |limit: Duration| format!("no answer in {} ms", limit.as_millis());
        let tcp = match timeout(limit, TcpStream::connect(peer)).await {
            Ok(connected) => connected.map_err(|error| error.to_string())?,
            Err(_) => return Err(late(limit)),
        };
        tcp.set_nodelay(true).map_err(|error| error.to_string())?;
        let connector = TlsConnector::from(Arc::clone(&self.tls));
        let tls = match timeout(HANDSHAKE_LIMIT, connector.connect(self.name.clone(), tcp)).await {
            Ok(verified) => verified.map_err(|error| error.to_string())?,
            Err(_) => return Err(late(HANDSHAKE_LIMIT)),
        };
        // Sends nothing yet.
        let (sender, driver) = http1::handshake(TokioIo::new(tls))
            .await
            .map_err(|error| error.to_string())?;
        let mut task = JoinSet::new();
        task.spawn(async { driver.await.unwrap_or_default() });
        Ok(Connection {
            source: self.source.clone(),
            peer,
            sender,
            _driver: task,
        })
    }
}

/// TLS that trusts `ca_pem` alone.
fn client_config(ca_pem: &str) -> Option<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(certificate.ok()?).ok()?;
    }
    if roots.is_empty() {
        return None;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .ok()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Some(config)
}

/// A verified connection. Dropping it closes it.
pub struct Connection {
    source: ApiServer,
    peer: SocketAddr,
    sender: http1::SendRequest<Full<Bytes>>,
    /// Moves bytes, and notices when the server closes; ends with the connection.
    _driver: JoinSet<()>,
}

/// What is asked of the API server.
#[derive(Clone)]
pub struct Ask<'a> {
    /// HTTP method.
    pub method: Method,
    /// Path and query.
    pub target: &'a str,
    /// The media types that will do.
    pub accept: &'a str,
    /// What the body is; empty without one.
    pub content_type: &'a str,
    /// Empty for most.
    pub body: Bytes,
}

/// What the API server answered.
pub struct Reply {
    /// HTTP status.
    pub status: StatusCode,
    /// The server's clock, if it told.
    pub date: Option<Timestamp>,
    /// Everything else it said about the body, the credential not masked.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Vec<u8>,
}

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The path makes no request line.
    #[error("the request does not fit a URL")]
    Request,
    /// The connection ended before an answer began: the call may be made again on another.
    #[error("the connection closed without an answer")]
    NoAnswer(#[source] hyper::Error),
    /// The connection ended inside the answer.
    #[error("the answer broke off")]
    BrokeOff {
        /// HTTP status of the answer's head.
        status: StatusCode,
        /// What the HTTP library said.
        #[source]
        source: hyper::Error,
    },
    /// The answer is longer than [`MAX_RESPONSE_BYTES`].
    #[error("the answer has more than {MAX_RESPONSE_BYTES} bytes")]
    TooLong {
        /// HTTP status of the answer's head.
        status: StatusCode,
    },
}

impl Connection {
    /// The address at the other end.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Whether this connection leads to `server`, by every fact that was checked, and still stands
    /// as far as we have heard.
    #[must_use]
    pub fn serves(&self, server: &Server) -> bool {
        self.source == server.source && !self.sender.is_closed()
    }

    /// GETs `path`, query included, with the bearer token.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub async fn get(&mut self, path: &str, credential: &Credential) -> Result<Reply, CallError> {
        let ask = Ask {
            method: Method::GET,
            target: path,
            accept: "application/json",
            content_type: "",
            body: Bytes::new(),
        };
        self.call(ask, credential).await
    }

    /// Asks with the bearer token, and with no header but those named here.
    ///
    /// # Errors
    /// [`CallError`]. Only after [`CallError::NoAnswer`] is it unknown whether the server saw it.
    pub async fn call(
        &mut self,
        ask: Ask<'_>,
        credential: &Credential,
    ) -> Result<Reply, CallError> {
        let bearer = credential.header().map_err(|_| CallError::Request)?;
        let mut request = Request::builder()
            .method(ask.method)
            .uri(ask.target)
            .header(HOST, self.peer.to_string())
            .header(
                USER_AGENT,
                concat!("agent-sandbox-runner/", env!("CARGO_PKG_VERSION")),
            )
            .header(ACCEPT, ask.accept)
            .header(AUTHORIZATION, bearer);
        if !ask.content_type.is_empty() {
            request = request.header(CONTENT_TYPE, ask.content_type);
        }
        let request = request
            .body(Full::new(ask.body))
            .map_err(|_| CallError::Request)?;
        self.sender.ready().await.map_err(CallError::NoAnswer)?;
        let answer = self.sender.send_request(request).await;
        let (head, body) = answer.map_err(CallError::NoAnswer)?.into_parts();
        Ok(Reply {
            body: read_body(body, head.status).await?,
            status: head.status,
            date: server_date(&head.headers),
            headers: head.headers,
        })
    }
}

async fn read_body(mut incoming: Incoming, status: StatusCode) -> Result<Vec<u8>, CallError> {
    let mut body = Vec::new();
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|source| CallError::BrokeOff { status, source })?;
        let Ok(data) = frame.into_data() else {
            continue; // trailers
        };
        if body.len() + data.len() > MAX_RESPONSE_BYTES {
            return Err(CallError::TooLong { status });
        }
        body.extend_from_slice(&data);
    }
    Ok(body)
}

fn server_date(headers: &HeaderMap) -> Option<Timestamp> {
    let date = headers.get(DATE)?.as_bytes();
    rfc2822::DateTimeParser::new().parse_timestamp(date).ok()
}
