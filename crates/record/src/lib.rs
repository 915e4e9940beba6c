//! The columns and the values of flow records.
//!
//! An application says once what its records contain, as a list of [`Column`]s. Every format, every
//! selection and every page of documentation is made from that list.
//!
//! ```text
//!  Schema   source        destination   …  packets       tls_sni   …
//!           kind address  kind address     kind packets  kind text
//!  Row      10.0.0.1      192.0.2.1     …  12            a.example …
//! ```
//!
//! A [`Row`] has one [`Value`] per column of its [`Schema`]. A [`Kind`] says what a column holds;
//! formats and filters match it exhaustively, so that a further kind does not compile before each
//! of them can write it. Columns of a [`Group`] are computed together, or not at all.
//!
//! # Examples
//!
//! ```
//! use flowloom_flow_key::FlowKey;
//! use flowloom_record::{Column, Kind, Row, Schema, Value};
//!
//! const COLUMNS: &[Column] = &[
//!     Column::new("packets", Kind::Packets, "Packets of the flow."),
//!     Column::new("state", Kind::Word(&[]), "How far the handshake went."),
//! ];
//! let schema = Schema::new(COLUMNS);
//! let mut row = Row::new(FlowKey::from_v4(1, 2, 3, 4, 6).0);
//! row.values.extend([Value::Number(7), Value::Word("open")]);
//! let state = schema.select(&["state"])?[0];
//! assert_eq!(row.value(state.index).to_string(), "open");
//! assert!(schema.select(&["stat"]).unwrap_err().to_string().contains("use state, packets"));
//! # Ok::<(), flowloom_record::UnknownColumn>(())
//! ```

mod column;
mod community_id;
mod derived;
pub mod element;
mod group;
mod protocol;
mod schema;
mod value;

pub use column::{Column, Kind, Word};
pub use community_id::CommunityId;
pub use derived::Derived;
pub use element::{Element, ElementType};
pub use flowloom_flow_key as flow_key;
pub use flowloom_flow_key::protocol::name as protocol_name;
pub use group::{Group, GroupSet};
pub use protocol::PROTOCOL_NAMES;
pub use schema::{Row, Schema, SchemaColumn, UnknownColumn, advice, nearest, nearest_first};
pub use value::{NO_MEMORY, Value};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
