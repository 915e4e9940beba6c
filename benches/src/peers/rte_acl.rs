//! DPDK's `rte_acl`, the rival of the classifier, called through its C interface.
#![expect(unsafe_code, reason = "calls of a C library, whose structures are declared here")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::fmt;
use std::ptr;

use flowloom::classifier::{Addresses, Key, KeyV4, RuleId, RuleSet};

/// Maximum number of keys per call; longer batches are split.
const CALL_MAX: usize = 256;
const FIELDS: usize = 5;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FieldDef {
    kind: u8,
    size: u8,
    field_index: u8,
    input_index: u8,
    offset: u32,
}

#[repr(C)]
struct Config {
    categories: u32,
    fields: u32,
    defs: [FieldDef; 64],
    max_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Field {
    value: u64,
    mask_range: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct AclRule {
    category_mask: u32,
    priority: i32,
    userdata: u32,
    fields: [Field; FIELDS],
}

#[repr(C)]
struct Param {
    name: *const c_char,
    socket_id: c_int,
    rule_size: u32,
    max_rules: u32,
}

unsafe extern "C" {
    fn rte_acl_create(param: *const Param) -> *mut c_void;
    fn rte_acl_free(context: *mut c_void);
    fn rte_acl_add_rules(context: *mut c_void, rules: *const AclRule, count: u32) -> c_int;
    fn rte_acl_build(context: *mut c_void, config: *const Config) -> c_int;
    fn rte_acl_classify_alg(
        context: *const c_void,
        data: *const *const u8,
        results: *mut u32,
        count: u32,
        categories: u32,
        method: c_int,
    ) -> c_int;
}

unsafe extern "C" {
    fn rte_eal_init(argc: c_int, argv: *mut *mut c_char) -> c_int;
    fn rte_malloc_get_socket_stats(socket: c_int, stats: *mut HeapStats) -> c_int;
}

#[repr(C)]
#[derive(Default)]
struct HeapStats {
    total_bytes: usize,
    free_bytes: usize,
    greatest_free_bytes: usize,
    free_count: u32,
    alloc_count: u32,
    allocated_bytes: usize,
}

/// A method of `rte_acl` to walk its tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Method {
    /// Plain C.
    Scalar = 1,
    /// SSE4.1, four packets at once.
    Sse = 2,
    /// AVX2, eight at once.
    Avx2 = 3,
    /// AVX-512, sixteen packets in flight.
    Avx512x16 = 6,
    /// AVX-512, thirty-two packets in flight.
    Avx512x32 = 7,
}

impl Method {
    /// All methods, the simplest first.
    pub const ALL: [Self; 5] = [Self::Scalar, Self::Sse, Self::Avx2, Self::Avx512x16, Self::Avx512x32];

    /// Returns a name to print.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "rte_acl-scalar",
            Self::Sse => "rte_acl-sse",
            Self::Avx2 => "rte_acl-avx2",
            Self::Avx512x16 => "rte_acl-avx512x16",
            Self::Avx512x32 => "rte_acl-avx512x32",
        }
    }
}

/// A failed call, with its errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RteError {
    /// The failed call.
    pub call: &'static str,
    /// Its return value.
    pub code: i32,
}

impl fmt::Display for RteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed with {}", self.call, self.code)
    }
}

/// DPDK's environment, started once in a process.
#[derive(Debug)]
pub struct Environment {
    /// Whether its heap uses 2 MiB pages.
    pub huge_pages: bool,
}

impl Environment {
    /// Starts the environment with this much memory, on 2 MiB pages if the system has reserved
    /// enough, otherwise on small pages.
    ///
    /// # Errors
    ///
    /// Returns [`RteError`] if DPDK does not start.
    ///
    /// # Panics
    ///
    /// Does not panic: no argument contains a zero byte.
    pub fn start(memory_mib: u32) -> Result<Self, RteError> {
        let reserved = std::fs::read_to_string("/proc/sys/vm/nr_hugepages").unwrap_or_default();
        let huge_pages = reserved.trim().parse::<u32>().unwrap_or(0) * 2 >= memory_mib;
        let memory = memory_mib.to_string();
        let mut words = vec!["benches", "--no-pci", "--no-telemetry", "--lcores", "0@(0-1)", "-m", &memory];
        words.extend(["--force-max-simd-bitwidth=512", "--log-level=3"]);
        words.push(if huge_pages { "--in-memory" } else { "--no-huge" });
        let words: Vec<CString> = words
            .into_iter()
            .map(|word| CString::new(word).expect("no argument contains a zero byte"))
            .collect();
        let mut argv: Vec<*mut c_char> = words.iter().map(|word| word.as_ptr().cast_mut()).collect();
        let argc = c_int::try_from(argv.len()).expect("a dozen");
        // DPDK keeps pointers to the arguments for the lifetime of the process.
        std::mem::forget(words);
        argv.push(ptr::null_mut());
        // SAFETY: argv contains argc words, each zero-terminated and never freed, and a null after
        // them.
        let code = unsafe { rte_eal_init(argc, argv.leak().as_mut_ptr()) };
        if code < 0 { Err(RteError { call: "rte_eal_init", code }) } else { Ok(Self { huge_pages }) }
    }

    /// Returns the number of bytes that are allocated on its heap.
    pub fn allocated_bytes(&self) -> usize {
        let mut stats = HeapStats::default();
        // SAFETY: `HeapStats` is laid out as the C structure.
        let code = unsafe { rte_malloc_get_socket_stats(0, &raw mut stats) };
        if code < 0 { 0 } else { stats.allocated_bytes }
    }
}

/// A header in the format of `rte_acl`: in network order, with only the protocol in the first group
/// of four bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct AclKey([u8; 16]);

impl From<&KeyV4> for AclKey {
    fn from(key: &KeyV4) -> Self {
        let mut bytes = [0; 16];
        bytes[0] = key.protocol();
        bytes[4..8].copy_from_slice(&key.dimension(0).to_be_bytes());
        bytes[8..12].copy_from_slice(&key.dimension(1).to_be_bytes());
        bytes[12..16].copy_from_slice(&key.ports().to_be_bytes());
        Self(bytes)
    }
}

/// A built context.
#[derive(Debug)]
pub struct Acl(*mut c_void);

impl Drop for Acl {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `rte_acl_create` and is freed once.
        unsafe { rte_acl_free(self.0) };
    }
}

impl Acl {
    /// Builds the IPv4 rules of a set. The name must be unique in this process.
    ///
    /// # Errors
    ///
    /// Returns [`RteError`] if a call fails.
    ///
    /// # Panics
    ///
    /// Panics if the name contains a zero byte.
    pub fn build(_environment: &Environment, rules: &RuleSet, name: &str) -> Result<Self, RteError> {
        let name = CString::new(name).expect("no name has a zero");
        let count = u32::try_from(rules.len()).expect("ids are 32 bits");
        let param = Param {
            name: name.as_ptr(),
            socket_id: -1,
            rule_size: u32::try_from(size_of::<AclRule>()).expect("a hundred bytes"),
            max_rules: count,
        };
        // SAFETY: the structure is laid out as the C one, and the name ends in a zero and outlives
        // the call.
        let context = unsafe { rte_acl_create(&raw const param) };
        if context.is_null() {
            return Err(RteError { call: "rte_acl_create", code: 0 });
        }
        let acl = Self(context);
        let rules: Vec<AclRule> = (0..count).filter_map(|id| acl_rule(rules, RuleId(id))).collect();
        let count = u32::try_from(rules.len()).expect("no more than before");
        // SAFETY: `rules` contains `count` structures laid out as the C ones, with as many fields
        // as `rule_size` states.
        let code = unsafe { rte_acl_add_rules(acl.0, rules.as_ptr(), count) };
        if code != 0 {
            return Err(RteError { call: "rte_acl_add_rules", code });
        }
        let mut config = Config { categories: 1, fields: 5, defs: [FieldDef::default(); 64], max_size: 0 };
        let def = |kind, size, field_index, input_index, offset| FieldDef {
            kind,
            size,
            field_index,
            input_index,
            offset,
        };
        // Kinds: 0 prefix, 1 range, 2 value and mask.
        config.defs[..FIELDS].copy_from_slice(&[
            def(2, 1, 0, 0, 0),
            def(0, 4, 1, 1, 4),
            def(0, 4, 2, 2, 8),
            def(1, 2, 3, 3, 12),
            def(1, 2, 4, 3, 14),
        ]);
        // SAFETY: the structure is laid out as the C one.
        let code = unsafe { rte_acl_build(acl.0, &raw const config) };
        if code == 0 { Ok(acl) } else { Err(RteError { call: "rte_acl_build", code }) }
    }

    /// Classifies keys; a result is a rule's number plus one, or zero.
    ///
    /// # Panics
    ///
    /// Panics if the lengths differ, or the library refuses the method.
    pub fn classify(&self, keys: &[AclKey], results: &mut [u32], method: Method) {
        assert_eq!(keys.len(), results.len());
        let mut places = [ptr::null(); CALL_MAX];
        for (keys, results) in keys.chunks(CALL_MAX).zip(results.chunks_mut(CALL_MAX)) {
            for (place, key) in places.iter_mut().zip(keys) {
                *place = ptr::from_ref(key).cast();
            }
            let count = u32::try_from(keys.len()).expect("at most 256");
            // SAFETY: the first `count` places point to keys of sixteen bytes; there is a result
            // for each.
            let code = unsafe {
                rte_acl_classify_alg(
                    self.0,
                    places.as_ptr(),
                    results.as_mut_ptr(),
                    count,
                    1,
                    method as c_int,
                )
            };
            assert_eq!(code, 0, "{} is not available", method.name());
        }
    }

    /// Returns whether the library has a method on this processor.
    pub fn has(&self, method: Method) -> bool {
        let key = AclKey([0; 16]);
        let keys = [ptr::from_ref(&key).cast::<u8>()];
        let mut result = [0];
        // SAFETY: one key of sixteen bytes, one result.
        let code = unsafe {
            rte_acl_classify_alg(self.0, keys.as_ptr(), result.as_mut_ptr(), 1, 1, method as c_int)
        };
        code == 0
    }
}

fn acl_rule(rules: &RuleSet, id: RuleId) -> Option<AclRule> {
    let rule = rules.get(id)?;
    let (source, destination) = match rule.addresses {
        Addresses::Any => ((0, 0), (0, 0)),
        Addresses::V4 { source, destination } => {
            ((source.low(), source.length()), (destination.low(), destination.length()))
        }
        Addresses::V6 { .. } => return None,
    };
    let field = |value: u64, mask_range: u64| Field { value, mask_range };
    let prefix = |(low, length): (u128, u32)| field(u64::try_from(low).unwrap_or(0), u64::from(length));
    let ports = |range: flowloom::classifier::PortRange| field(range.low().into(), range.high().into());
    let priority = rules.len() - id.index();
    Some(AclRule {
        category_mask: 1,
        priority: i32::try_from(priority).ok()?,
        userdata: id.0 + 1,
        fields: [
            field(rule.protocol.value().into(), rule.protocol.mask().into()),
            prefix(source),
            prefix(destination),
            ports(rule.source_ports),
            ports(rule.destination_ports),
        ],
    })
}
