//! The way to sandboxd: one connection to its agent socket, made when needed and made again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use sandbox_proto::PROTOCOL_VERSION;
use sandbox_proto::agent::v1::agent_service_client::AgentServiceClient;
use sandbox_proto::agent::v1::{
    CancelRequestRequest, InvokeEvent, InvokeRequest, ListActionsRequest, ListActionsResponse,
};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Status, Streaming};
use tower::service_fn;

use crate::refusal::Refusal;

mod stream;

use stream::CountedStream;

/// How long the daemon may take over anything but running an action.
const PROMPT: Duration = Duration::from_secs(2);

/// The longest message taken from the daemon; a longer result is an error, not memory.
const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// A client of sandboxd. Clones share the connection.
#[derive(Clone, Debug)]
pub(crate) struct Daemon {
    client: AgentServiceClient<Channel>,
    access: Arc<Access>,
    connections: watch::Receiver<usize>,
}

/// Which socket we use, and who the kernel says we are there.
#[derive(Debug)]
pub(crate) struct Access {
    pub socket: PathBuf,
    pub uid: u32,
}

/// What one tool call asks for.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub action: String,
    /// As the model wrote them; the daemon is the one to read them.
    pub parameters_json: String,
    /// What the client calls itself; unverified.
    pub client: String,
}

impl Daemon {
    /// A client of the daemon at `socket`; it connects with the first call. Must be called inside a
    /// runtime.
    pub fn new(socket: &Path) -> Self {
        let access = Access {
            socket: socket.to_owned(),
            uid: rustix::process::geteuid().as_raw(),
        };
        let (count, connections) = watch::channel(0);
        let (count, path) = (Arc::new(count), access.socket.clone());
        let connector = service_fn(move |_: Uri| {
            let (count, path) = (Arc::clone(&count), path.clone());
            async move {
                let stream = UnixStream::connect(path).await?;
                Ok::<_, std::io::Error>(TokioIo::new(CountedStream::new(stream, count)))
            }
        });
        // The name only fills the requests' `:authority`; the connector knows where to go.
        let channel = Endpoint::from_static("http://sandboxd")
            .connect_timeout(PROMPT)
            .connect_with_connector_lazy(connector);
        Self {
            client: AgentServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES),
            access: Arc::new(access),
            connections,
        }
    }

    /// Which socket we use and as whom, for messages.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Whether a connection is open.
    pub fn is_connected(&self) -> bool {
        *self.connections.borrow() > 0
    }

    /// Resolves when no connection is left, at once if there is none.
    pub async fn disconnected(&self) {
        let mut connections = self.connections.clone();
        // An error would mean that the connector is gone, and any connection with it.
        drop(connections.wait_for(|count| *count == 0).await);
    }

    /// The actions the daemon knows.
    ///
    /// # Errors
    /// The daemon is away, silent, refuses us, or speaks another version of the protocol.
    pub async fn list_actions(&self) -> Result<ListActionsResponse, Refusal> {
        let request = ListActionsRequest {
            protocol_version: PROTOCOL_VERSION,
        };
        let response = self
            .prompt(self.client.clone().list_actions(request))
            .await?
            .into_inner();
        if response.protocol_version != PROTOCOL_VERSION {
            return Err(Refusal::protocol_mismatch(&response));
        }
        Ok(response)
    }

    /// Has the daemon run an action; what comes back is where it stands, until it is finished.
    ///
    /// # Errors
    /// The daemon's refusal, or what is wrong with the way to it.
    pub async fn invoke(&self, invocation: Invocation) -> Result<Streaming<InvokeEvent>, Status> {
        let request = InvokeRequest {
            protocol_version: PROTOCOL_VERSION,
            action: invocation.action,
            parameters_json: invocation.parameters_json,
            // The daemon expects a respawned client to repeat its calls; a key of ours would be new
            // each time and tell it nothing.
            idempotency_key: String::new(),
            client: invocation.client,
        };
        Ok(self.client.clone().invoke(request).await?.into_inner())
    }

    /// Asks the daemon to end a request early. True if that was still possible.
    ///
    /// # Errors
    /// As for [`Daemon::list_actions`].
    pub async fn cancel(&self, request_id: String) -> Result<bool, Refusal> {
        let request = CancelRequestRequest { request_id };
        let response = self
            .prompt(self.client.clone().cancel_request(request))
            .await?;
        Ok(response.into_inner().cancelled)
    }

    async fn prompt<T>(&self, call: impl Future<Output = Result<T, Status>>) -> Result<T, Refusal> {
        match timeout(PROMPT, call).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(status)) => Err(Refusal::of_status(&status, &self.access)),
            Err(_) => Err(Refusal::silent(&self.access, PROMPT)),
        }
    }
}
