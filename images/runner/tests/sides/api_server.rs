//! An API server that answers as the test says, over real TLS with certificates of its own.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use sandbox_proto::runner::v1::ApiServer;
use serde_json::{Value, json};

/// The name its certificate is for.
pub const NAME: &str = "kubernetes.default.svc";

/// What to do with one request.
pub enum Answer {
    /// Status, headers and body.
    Http(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// These bytes as they are, then close.
    Raw(Vec<u8>),
    /// Nothing, and close.
    Close,
    /// Nothing, until the runner goes away.
    Silence,
}

impl Answer {
    pub fn json(status: u16, body: &Value) -> Self {
        Self::Http(status, Vec::new(), body.to_string().into_bytes())
    }

    /// A Kubernetes Status.
    pub fn refusal(status: u16, message: &str) -> Self {
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status,
            "message": message,
        });
        Self::json(status, &body)
    }

    /// A `PodList` of these items.
    pub fn pods(items: &[Value], next: &str, remaining: Option<u64>) -> Self {
        let mut metadata = json!({ "resourceVersion": "1", "continue": next });
        if let Some(remaining) = remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        let list =
            json!({ "kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items });
        Self::json(200, &list)
    }
}

/// A request as it arrived.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Request {
    /// Which connection it came on, from 0.
    pub connection: usize,
    pub method: String,
    pub path: String,
    pub authorization: String,
    /// The other headers, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// A header's value, empty without one.
    pub fn header(&self, name: &str) -> &str {
        let mut headers = self.headers.iter();
        headers
            .find(|(known, _)| known == name)
            .map_or("", |(_, value)| value)
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The value of a query parameter, as it was encoded.
    pub fn query(&self, name: &str) -> Option<&str> {
        let (_, query) = self.path.split_once('?')?;
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

/// A running server; its threads end with the test process.
pub struct Api {
    pub address: SocketAddr,
    pub ca_pem: String,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    connections: usize,
    requests: Vec<Request>,
}

impl Api {
    /// Starts a server that answers with `script`.
    pub fn start(script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_with(|| {}, script)
    }

    /// The same, and calls `on_connect` before each TLS handshake.
    pub fn start_with(
        on_connect: impl Fn() + Send + Sync + 'static,
        script: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let (ca_pem, config) = certificates();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let script = Arc::new(script);
        let recorded = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming() {
                on_connect();
                let (config, script, seen) = (config.clone(), script.clone(), recorded.clone());
                thread::spawn(move || serve(stream.unwrap(), config, &*script, &seen));
            }
        });
        Self {
            address,
            ca_pem,
            seen,
        }
    }

    /// How the daemon describes this server.
    pub fn described(&self) -> ApiServer {
        ApiServer {
            endpoints: vec![self.address.to_string()],
            server_name: NAME.to_owned(),
            ca_pem: self.ca_pem.clone(),
        }
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap().requests.clone()
    }

    /// How many connections have completed their handshake.
    pub fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }
}

fn certificates() -> (String, Arc<ServerConfig>) {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::new(ca, ca_key);
    let leaf = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .unwrap();
    (ca_pem, Arc::new(config))
}

/// One connection, to its end. The other side may go away at any time.
fn serve(
    mut tcp: TcpStream,
    config: Arc<ServerConfig>,
    script: &dyn Fn(&Request) -> Answer,
    seen: &Mutex<Seen>,
) {
    let mut tls = ServerConnection::new(config).unwrap();
    while tls.is_handshaking() {
        if tls.complete_io(&mut tcp).is_err() {
            return;
        }
    }
    let connection = {
        let mut seen = seen.lock().unwrap();
        seen.connections += 1;
        seen.connections - 1
    };
    let mut stream = BufReader::new(StreamOwned::new(tls, tcp));
    while let Some(mut request) = read_request(&mut stream) {
        request.connection = connection;
        seen.lock().unwrap().requests.push(request.clone());
        let raw = match script(&request) {
            Answer::Http(status, headers, body) => {
                write_answer(stream.get_mut(), status, &headers, &body);
                continue;
            }
            Answer::Raw(bytes) => bytes,
            Answer::Close => Vec::new(),
            Answer::Silence => {
                stream.read_exact(&mut [0]).ok();
                return;
            }
        };
        let stream = stream.get_mut();
        stream.write_all(&raw).ok();
        stream.conn.send_close_notify();
        stream.flush().ok();
        return;
    }
}

fn read_request(stream: &mut impl std::io::BufRead) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|&read| read > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let mut request = Request {
        method: words.next()?,
        path: words.next()?,
        ..Request::default()
    };
    loop {
        let mut header = String::new();
        stream
            .read_line(&mut header)
            .ok()
            .filter(|&read| read > 0)?;
        let Some((name, value)) = header.trim_end().split_once(": ") else {
            let length = request.header("content-length").parse().unwrap_or(0);
            request.body = vec![0; length];
            stream.read_exact(&mut request.body).ok()?;
            return Some(request);
        };
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "authorization" => value.clone_into(&mut request.authorization),
            _ => request.headers.push((name, value.to_owned())),
        }
    }
}

fn write_answer(
    stream: &mut impl std::io::Write,
    status: u16,
    headers: &[(&'static str, String)],
    body: &[u8],
) {
    let headers = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    let headers: String = headers.collect();
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n{headers}\r\n");
    // The runner may have stopped reading; what it says then is the test's question.
    stream.write_all(head.as_bytes()).ok();
    stream.write_all(body).ok();
    stream.flush().ok();
}
