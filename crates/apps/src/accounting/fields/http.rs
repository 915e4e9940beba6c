//! The first request and the first response of HTTP/1.

use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;
use flowloom_record::{Column, Group, Kind, Value, element};

use super::application::Reading;
use super::application::first_messages::{FirstMessages, Message};
use super::application::http_head::{self, HttpHead};
use super::memory::Content;
use super::{FieldStore, Fields};

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

const fn column(name: &'static str, description: &'static str) -> Column {
    Column::new(name, Kind::Text, description).in_group(Group::Http)
}

impl Fields for Http {
    const COLUMNS: &'static [Column] = &[
        column("http_method", "The method of the first HTTP/1 request.")
            .with_elements(element::HTTP_METHOD),
        column("http_host", "The `Host` header of that request.").with_elements(element::HTTP_HOST),
        column("http_target", "Its target: a path with its query, or a whole URI.")
            .with_elements(element::HTTP_TARGET),
        column("http_user_agent", "Its `User-Agent` header.").with_elements(element::HTTP_USER_AGENT),
        Column::new(
            "http_status",
            Kind::Number,
            "The final status code of the first HTTP/1 response; an interim one (1xx) if none follows it.",
        )
        .in_group(Group::Http)
        .with_elements(element::HTTP_STATUS),
    ];

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, store: &FieldStore) {
        self.heads.add(packet, store);
    }

    fn values(&self, _way: Direction, out: &mut Vec<Value>) {
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
        out.extend(texts.map(|text| Value::from_text(text, is_dropped)));
        out.push(status.into());
    }
}
