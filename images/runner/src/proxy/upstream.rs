//! The proxy's side of the API server: HTTPS with the credential, on connections that are kept for
//! reads. A write always gets a new one: a kept one may be closed at the other end, and then nobody
//! knows whether the write was seen.

use std::sync::{Arc, Mutex, PoisonError};

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Method, Response};
use http_body_util::Full;
use prost::bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use crate::api::{Ask, CONNECT_LIMIT, CallError, Connection, Reply, Server};
use crate::credential::Credential;

/// Headers of an answer that the provider gets to see.
const PASSED_ON: [HeaderName; 2] = [CONTENT_TYPE, RETRY_AFTER];

/// The right to call the API server until a deadline.
pub struct Upstream {
    server: Server,
    credential: Arc<Credential>,
    deadline: Instant,
    kept: Mutex<Vec<Connection>>,
}

impl Upstream {
    /// Calls `server` until `deadline`, over `connection` first.
    #[must_use]
    pub fn new(
        server: Server,
        connection: Connection,
        credential: Arc<Credential>,
        deadline: Instant,
    ) -> Self {
        Self {
            server,
            credential,
            deadline,
            kept: Mutex::new(vec![connection]),
        }
    }

    /// Sends it on, and gives back what the API server says, without the credential in it.
    ///
    /// # Errors
    /// Why there is no answer, in a sentence for people.
    pub async fn call(&self, ask: Ask<'_>) -> Result<Response<Full<Bytes>>, String> {
        match timeout_at(self.deadline, self.call_until_answered(&ask)).await {
            Ok(Ok(reply)) => Ok(self.respond(reply)),
            Ok(Err(why)) => Err(why),
            Err(_) => Err("the time for this work is over".to_owned()),
        }
    }

    async fn call_until_answered(&self, ask: &Ask<'_>) -> Result<Reply, String> {
        loop {
            let kept = is_read(&ask.method).then(|| self.take_kept()).flatten();
            let was_kept = kept.is_some();
            let mut connection = match kept {
                Some(connection) => connection,
                None => self.dial().await?,
            };
            match connection.call(ask.clone(), &self.credential).await {
                Ok(reply) => {
                    self.keep(connection);
                    return Ok(reply);
                }
                Err(CallError::NoAnswer(_)) if was_kept => {}
                Err(error) => {
                    let peer = connection.peer();
                    return Err(format!("the API server at {peer} gave no answer: {error}"));
                }
            }
        }
    }

    async fn dial(&self) -> Result<Connection, String> {
        let dialled = self.server.dial(CONNECT_LIMIT).await;
        dialled.map_err(|error| format!("the API server could not be reached: {error}"))
    }

    fn take_kept(&self) -> Option<Connection> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(connection) = kept.pop() {
            if connection.serves(&self.server) {
                return Some(connection);
            }
        }
        None
    }

    fn keep(&self, connection: Connection) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(connection);
    }

    fn respond(&self, mut reply: Reply) -> Response<Full<Bytes>> {
        self.credential.mask(&mut reply.body);
        let mut response = Response::new(Full::from(reply.body));
        *response.status_mut() = reply.status;
        for name in PASSED_ON {
            if let Some(value) = reply.headers.get(&name) {
                let mut value = value.as_bytes().to_vec();
                self.credential.mask(&mut value);
                if let Ok(value) = HeaderValue::from_bytes(&value) {
                    response.headers_mut().insert(name, value);
                }
            }
        }
        response
    }
}

/// Whether a method changes nothing, so that asking twice does no harm.
fn is_read(method: &Method) -> bool {
    *method == Method::GET || *method == Method::HEAD
}
