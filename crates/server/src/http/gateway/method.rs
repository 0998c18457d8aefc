//! One method: its two kinds of message, and calling it.

use axum::http::uri::PathAndQuery;
use futures_util::Stream;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use tonic::{
    Request, Response, Status, Streaming,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

use crate::admission::Admission;

/// A method of the gRPC services, as the gateway sees it.
pub(crate) struct Method {
    pub(crate) input: MessageDescriptor,
    pub(crate) output: MessageDescriptor,
    pub(crate) takes_stream: bool,
    pub(crate) gives_stream: bool,
    /// The largest JSON object that is read for it.
    pub(crate) body_bytes_max: usize,
    path: PathAndQuery,
    services: Admission,
}

impl Method {
    /// Finds a method by its full name, such as `etcdserverpb.KV.Put`.
    pub(crate) fn find(
        pool: &DescriptorPool,
        name: &str,
        services: Admission,
        body_bytes_max: usize,
    ) -> Option<Method> {
        let (service, method) = name.rsplit_once('.')?;
        let described =
            pool.get_service_by_name(service)?.methods().find(|m| m.name() == method)?;
        Some(Method {
            input: described.input(),
            output: described.output(),
            takes_stream: described.is_client_streaming(),
            gives_stream: described.is_server_streaming(),
            body_bytes_max,
            path: format!("/{service}/{method}").parse().ok()?,
            services,
        })
    }

    /// One message for one message.
    pub(crate) async fn ask(
        &self,
        request: Request<DynamicMessage>,
    ) -> Result<DynamicMessage, Status> {
        let answer = self.client().unary(request, self.path.clone(), self.codec()).await?;
        Ok(answer.into_inner())
    }

    /// Messages for messages.
    pub(crate) async fn converse(
        &self,
        requests: Request<impl Stream<Item = DynamicMessage> + Send + 'static>,
    ) -> Result<Streaming<DynamicMessage>, Status> {
        let answers = self.client().streaming(requests, self.path.clone(), self.codec()).await;
        answers.map(Response::into_inner)
    }

    /// What we said ourselves is not too large to be read.
    fn client(&self) -> Grpc<Admission> {
        Grpc::new(self.services.clone()).max_decoding_message_size(usize::MAX)
    }

    fn codec(&self) -> Described {
        Described { output: self.output.clone() }
    }
}

/// Messages that are known by their description only.
struct Described {
    output: MessageDescriptor,
}

impl Codec for Described {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = Plain;
    type Decoder = Described;

    fn encoder(&mut self) -> Plain {
        Plain
    }

    fn decoder(&mut self) -> Described {
        Described { output: self.output.clone() }
    }
}

struct Plain;

impl Encoder for Plain {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, message: DynamicMessage, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(out).map_err(|cause| Status::internal(cause.to_string()))
    }
}

impl Decoder for Described {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        let message = DynamicMessage::decode(self.output.clone(), bytes);
        message.map(Some).map_err(|cause| Status::internal(cause.to_string()))
    }
}
