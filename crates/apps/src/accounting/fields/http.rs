//! The first request and the first response of HTTP/1.

use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;

use super::application::Reading;
use super::application::first_messages::{FirstMessages, Message};
use super::application::http_head::{self, HttpHead};
use super::memory::Content;
use super::{FieldColumn, FieldGroup, FieldStore, FieldValue, Fields};

/// The first request and the status of the first response of an HTTP/1 connection, on any port.
#[derive(Clone, Debug, Default)]
pub struct Http {
    heads: FirstMessages<HttpHead>,
}

impl Message for HttpHead {
    fn read(bytes: &[u8], is_all: bool) -> Reading<Self> {
        http_head::read(bytes, is_all)
    }
}

impl Content for HttpHead {
    fn heap_bytes(&self) -> usize {
        let Self::Request(head) = self else { return 0 };
        let others = [&head.host, &head.user_agent].into_iter().flatten();
        [&head.method, &head.target].into_iter().chain(others).map(String::capacity).sum()
    }
}

impl Fields for Http {
    const GROUP: Option<FieldGroup> = Some(FieldGroup::Http);

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, store: &FieldStore) {
        self.heads.add(packet, store);
    }

    fn columns(out: &mut Vec<FieldColumn>) {
        let text = |name, description| FieldColumn::new(name, "text", description);
        let status =
            FieldColumn::new("http_status", "number", "The status code of the first HTTP/1 response.");
        out.extend([
            text("http_method", "The method of the first HTTP/1 request.")
                .with_ipfix(459, "httpRequestMethod"),
            text("http_host", "The `Host` header of that request.").with_ipfix(460, "httpRequestHost"),
            text("http_target", "Its target: a path with its query, or a whole URI.")
                .with_ipfix(461, "httpRequestTarget"),
            text("http_user_agent", "Its `User-Agent` header.").with_ipfix(468, "httpUserAgent"),
            status.with_ipfix(457, "httpStatusCode"),
        ]);
    }

    fn values(&self, _way: Direction, out: &mut Vec<FieldValue>) {
        let (mut request, mut status) = (None, None);
        for head in self.heads.messages().into_iter().flatten() {
            match head {
                HttpHead::Request(head) => request = request.or(Some(head)),
                HttpHead::Response(code) => status = status.or(Some(u64::from(code))),
            }
        }
        let texts = match request {
            Some(request) => [Some(request.method), request.host, Some(request.target), request.user_agent],
            None => [const { None }; 4],
        };
        let is_dropped = self.heads.is_dropped();
        out.extend(texts.map(|text| FieldValue::of_text(text, is_dropped)));
        out.push(status.into());
    }
}
