//! Programs that must not compile: each would use a table, or what its values borrow, after it is
//! gone. `tests/all/drop_orders.rs` has the orders that compile. Only nightly rustdoc checks
//! the numbers of the errors: `cargo +nightly test --doc`.
//!
//! A handle that is dropped after its table:
//!
//! ```compile_fail,E0597
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
//! let handle;
//! let table = ConcurrentFlowTable::<u32, u32>::try_new(&ConcurrentConfig::for_flows(1)).unwrap();
//! handle = table.handle();
//! ```
//!
//! ```compile_fail,E0505
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
//! let table = ConcurrentFlowTable::<u32, u32>::try_new(&ConcurrentConfig::for_flows(1)).unwrap();
//! let handle = table.handle();
//! drop(table);
//! ```
//!
//! A pin that is dropped after the table, although its handle is not:
//!
//! ```compile_fail,E0597
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
//! let pinned;
//! let table = ConcurrentFlowTable::<u32, u32>::try_new(&ConcurrentConfig::for_flows(1)).unwrap();
//! pinned = table.handle().pin();
//! ```
//!
//! ```compile_fail,E0505
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
//! let table = ConcurrentFlowTable::<u32, u32>::try_new(&ConcurrentConfig::for_flows(1)).unwrap();
//! let pinned = table.handle().pin();
//! drop(table);
//! ```
//!
//! A table, a handle or a pin that is dropped after what the values borrow:
//!
//! ```compile_fail,E0597
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
//! type Table<'s> = ConcurrentFlowTable<u32, &'s String>;
//! let table = Table::try_new(&ConcurrentConfig::for_flows(1)).unwrap();
//! let text = String::new();
//! let _ = table.handle().pin().insert(1, &text);
//! ```
//!
//! ```compile_fail,E0505
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
//! let text = String::new();
//! type Table<'s> = ConcurrentFlowTable<u32, &'s String>;
//! let table = Table::try_new(&ConcurrentConfig::for_flows(1)).unwrap();
//! let _ = table.handle().pin().insert(1, &text);
//! drop(text);
//! ```
//!
//! ```compile_fail,E0505
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
//! let text = String::new();
//! type Table<'s> = ConcurrentFlowTable<u32, &'s String>;
//! let table = Table::try_new(&ConcurrentConfig::for_flows(1)).unwrap();
//! let table = Box::leak(Box::new(table));
//! let handle = table.handle();
//! let _ = handle.pin().insert(1, &text);
//! drop(text);
//! ```
//!
//! ```compile_fail,E0505
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
//! let text = String::new();
//! type Table<'s> = ConcurrentFlowTable<u32, &'s String>;
//! let table = Table::try_new(&ConcurrentConfig::for_flows(1)).unwrap();
//! let table = Box::leak(Box::new(table));
//! let pinned = table.handle().pin();
//! let _ = pinned.insert(1, &text);
//! drop(text);
//! ```
//!
//! A key that borrows, because a key is `'static`:
//!
//! ```compile_fail,E0597
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
//! let table = ConcurrentFlowTable::<&str, u32>::try_new(&ConcurrentConfig::for_flows(1)).unwrap();
//! let text = String::new();
//! let _ = table.handle().pin().insert(&text, 1);
//! ```
//!
//! A value with a shorter lifetime than that of the table's values:
//!
//! ```compile_fail,E0597
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
//! type Table = ConcurrentFlowTable<u32, &'static str>;
//! let text = String::new();
//! let table = Table::try_new(&ConcurrentConfig::for_flows(1)).unwrap();
//! let _ = table.handle().pin().insert(1, &text);
//! ```
//!
//! A value or a flow that is used after its pin:
//!
//! ```compile_fail,E0716
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
//! let table = ConcurrentFlowTable::<u32, u32>::try_new(&ConcurrentConfig::for_flows(1)).unwrap();
//! let handle = table.handle();
//! let value = handle.pin().get(&1);
//! println!("{value:?}");
//! ```
//!
//! ```compile_fail,E0505
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
//! let table = ConcurrentFlowTable::<u32, u32>::try_new(&ConcurrentConfig::for_flows(1)).unwrap();
//! let pinned = table.handle().pin();
//! let flow = pinned.lookup(&1);
//! drop(pinned);
//! println!("{flow:?}");
//! ```
//!
//! ```compile_fail,E0502
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
//! let table = ConcurrentFlowTable::<u32, u32>::try_new(&ConcurrentConfig::for_flows(1)).unwrap();
//! let mut pinned = table.handle().pin();
//! let value = pinned.remove(&1);
//! pinned.repin();
//! println!("{value:?}");
//! ```
//!
//! A flow that leaves the closure to which the table shows it:
//!
//! ```compile_fail,E0521
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
//! let table = ConcurrentFlowTable::<u32, u32>::try_new(&ConcurrentConfig::for_flows(1)).unwrap();
//! let mut kept = None;
//! table.handle().pin().for_each(|flow| kept = Some(flow));
//! println!("{kept:?}");
//! ```
//!
//! An owned handle, or its pin, that is dropped after what the values borrow, or the handle before
//! its pin:
//!
//! ```compile_fail,E0597
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable, OwnedHandle};
//! type Table<'s> = ConcurrentFlowTable<u32, &'s String>;
//! let table = Table::try_new(&ConcurrentConfig::for_flows(1)).unwrap();
//! let handle = OwnedHandle::new(table.into());
//! let text = String::new();
//! let _ = handle.pin().insert(1, &text);
//! ```
//!
//! ```compile_fail,E0505
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable, OwnedHandle};
//! let table = ConcurrentFlowTable::<u32, u32>::try_new(&ConcurrentConfig::for_flows(1)).unwrap();
//! let handle = OwnedHandle::new(table.into());
//! let pinned = handle.pin();
//! drop(handle);
//! ```
//!
//! ```compile_fail,E0277
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable, OwnedHandle};
//! let table = ConcurrentFlowTable::<u32, u32>::try_new(&ConcurrentConfig::for_flows(1)).unwrap();
//! let handle = OwnedHandle::new(table.into());
//! std::thread::scope(|scope| {
//!     scope.spawn(move || drop(handle));
//! });
//! ```
//!
//! A handle or a pin that changes threads:
//!
//! ```compile_fail,E0277
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
//! let table = ConcurrentFlowTable::<u32, u32>::try_new(&ConcurrentConfig::for_flows(1)).unwrap();
//! let handle = table.handle();
//! std::thread::scope(|scope| {
//!     scope.spawn(|| handle.pin().get(&1).copied());
//! });
//! ```
//!
//! ```compile_fail,E0277
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
//! let table = ConcurrentFlowTable::<u32, u32>::try_new(&ConcurrentConfig::for_flows(1)).unwrap();
//! let pinned = table.handle().pin();
//! std::thread::scope(|scope| {
//!     scope.spawn(move || drop(pinned));
//! });
//! ```
//!
//! A table whose values may not cross threads has no operations, and does not cross threads:
//!
//! ```compile_fail,E0599
//! use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
//! use std::rc::Rc;
//! let _ = ConcurrentFlowTable::<u32, Rc<u32>>::try_new(&ConcurrentConfig::for_flows(1));
//! ```
//!
//! ```compile_fail,E0277
//! use flowloom_flow_table::concurrent::ConcurrentFlowTable;
//! fn crosses<T: Send>() {}
//! crosses::<ConcurrentFlowTable<u32, std::rc::Rc<u32>>>();
//! ```
//!
//! ```compile_fail,E0277
//! use flowloom_flow_table::concurrent::ConcurrentFlowTable;
//! fn is_shared<T: Sync>() {}
//! is_shared::<ConcurrentFlowTable<u32, std::cell::Cell<u32>>>();
//! ```
