//! An example of each protocol in the newer files of built-in patterns, written by hand from its
//! specification, and a similar text that does not match.

use flowloom_dpi::{MatchState, Origin, Outcome, ScanState, Scanner, Transport, builtin};

const T: Transport = Transport::Tcp;
const U: Transport = Transport::Udp;

/// Transport, label, first bytes, size of the datagram or of the first record: zeros fill the rest.
/// A size of zero means the length of the bytes, which the pattern does not check.
type Example = (Transport, &'static str, &'static [u8], usize);

const PLANTS: &[Example] = &[
    (U, "knxnet-ip", b"\x06\x10\x02\x01\0\x0e\x08\x01\xc0\xa8\0\x01\x0e\x57", 14),
    (T, "hart-ip", b"\x01\0\0\0\0\x02\0\x0d\x01\0\0\x75\x30", 13),
    (U, "omron-fins", b"\x80\0\x02\0\x0a\0\0\x14\0\x01\x01\x01\x82\0\0\0\0\x01", 0),
    (T, "omron-fins-tcp", b"FINS\0\0\0\x0c\0\0\0\0\0\0\0\0\0\0\0\0", 20),
    (T, "slmp", b"\x50\0\0\xff\xff\x03\0\x0c\0\x10\0\x01\x04\0\0\x64\0\0\xa8\x01\0", 21),
    (
        T,
        "ads",
        b"\0\0\x2c\0\0\0\x05\x01\x02\x03\x01\x01\x51\x03\x05\x01\x02\x04\x01\x01\x01\x80\x02\0\x04\0",
        50,
    ),
    (T, "synchrophasor", b"\xaa\x41\0\x12\0\x01\x48\x44\x27\xf0\0\0\0\0\0\x05\0\0", 18),
    (U, "ether-s-bus", b"\0\0\0\x0d\0\0\0\x01\0\x0a\x14\x12\x34", 13),
    (T, "dlms", b"\0\x01\0\x10\0\x01\0\x1f\x60\x1d\xa1\x09\x06\x07", 39),
    (U, "rtps", b"RTPS\x02\x03\x01\x0f", 0),
    (U, "someip", b"\xff\xff\x81\0\0\0\0\x30\0\0\0\x01\x01\x01\x02\0\xc0", 56),
    (U, "doip", b"\x02\xfd\0\x01\0\0\0\0", 8),
    (U, "art-net", b"Art-Net\0\0\x20\0\x0e", 0),
    (U, "sacn", b"\0\x10\0\0ASC-E1.17\0\0\0\x72\x6e", 0),
    (U, "apple-midi", b"\xff\xffIN\0\0\0\x02\x12\x34\x56\x78\x9a\xbc\xde\xf0name\0", 0),
    (U, "ptp", b"\0\x02\0\x2c\0\0\x02\0", 44),
    (U, "ptp-v1", b"\0\x01\0\x01_DFLT\0\0\0", 0),
    (T, "c12.22", b"\x60\x10\xa2\x05\x06\x03\x60\x7c\x01\xa6", 18),
    (U, "mndp", b"\0\0\0\x01\0\x01\0\x06\x02\0\0\0\0\x01\0\x05\0\x02ab", 20),
    (U, "ubiquiti-discovery", b"\x01\0\0\x09\x01\0\x06\x02\0\0\0\0\x01", 13),
];

const SERVICES: &[Example] = &[
    (T, "kafka", b"\0\0\0\x1a\0\x12\0\x03\0\0\0\x01\0\x07rdkafka\0", 30),
    (T, "zookeeper", b"\0\0\0\x2d\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x75\x30", 49),
    (T, "zookeeper", b"ruok", 0),
    (T, "elasticsearch", b"ES\0\0\0\x33\0\0\0\0", 57),
    (T, "db2", b"\0\x5c\xd0\x41\0\x01\0\x56\x10\x41", 92),
    (T, "clickhouse", b"\0\x11ClickHouse client\x15", 0),
    (T, "rethinkdb", b"\xc3\xbd\xc2\x34", 0),
    (T, "bolt", b"\x60\x60\xb0\x17\0\0\x04\x04\0\0\0\x04\0\0\0\x03\0\0\0\0", 0),
    (T, "aerospike", b"\x02\x01\0\0\0\0\0\x05node\n", 13),
    (T, "gearman", b"\0REQ\0\0\0\x10\0\0\0\x04ping", 16),
    (T, "beanstalk", b"put 1024 0 60 5\r\nhello\r\n", 0),
    (T, "nsq", b"  V2IDENTIFY\n", 0),
    (T, "openwire", b"\0\0\0\xf0\x01ActiveMQ\0\0\0\x09", 244),
    (T, "ibm-mq", b"TSH \0\0\0\x64\x02\x01", 100),
    (T, "jdwp", b"JDWP-Handshake", 0),
    (T, "java-rmi", b"JRMI\0\x02\x4b", 0),
    (T, "giop", b"GIOP\x01\x02\x01\0\x10\0\0\0", 0),
    (T, "thrift", b"\x80\x01\0\x01\0\0\0\x04ping\0\0\0\x01\0", 0),
    (T, "thrift", b"\0\0\0\x11\x80\x01\0\x01\0\0\0\x04ping\0\0\0\x01\0", 21),
    (T, "hadoop-ipc", b"hrpc\x09\0\0", 0),
    (T, "zmtp", b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL", 0),
    (T, "nbd", b"NBDMAGICIHAVEOPT\0\x03", 0),
    (T, "afp", b"\0\x04\0\x01\0\0\0\0\0\0\0\x06\0\0\0\0\x01\x04\0\0\x04\0", 22),
    (T, "9p", b"\x13\0\0\0\x64\xff\xff\x18\0\x01\0\x06\09P2000", 19),
    (T, "ceph", b"ceph v027", 0),
    (U, "afs", b"\x5f\x12\x34\x56\x80\0\0\x04\0\0\0\x01\0\0\0\x01\0\0\0\x01\x01\x05\0\0\0\0\0\x34", 0),
    (T, "svn", b"( success ( 2 2 ( ) ( edit-pipeline svndiff1 ) ) ) ", 0),
    (T, "cvs", b"BEGIN AUTH REQUEST\n/cvs\n", 0),
    (T, "epmd", b"\0\x08znode-ab", 10),
    (T, "zabbix", b"ZBXD\x01\x0a\0\0\0\0\0\0\0agent.ping", 23),
    (T, "munin", b"# munin node at host.example\n", 0),
    (U, "collectd", b"\0\0\0\x09host\0\0\x08\0\x0c\0\0\0\0\0\0\0\x01", 21),
    (U, "statsd", b"web.hits:1|c", 0),
    (T, "graphite", b"servers.web1.load 0.42 1700000000\n", 0),
    (U, "gelf", b"{\"version\": \"1.1\", \"host\": \"a\"}", 0),
    (T, "adb", b"CNXN\x01\0\0\x01\0\0\x10\0\x07\0\0\0\x32\x02\0\0\xbc\xb1\xa7\xb1", 0),
    (T, "pjl", b"\x1b%-12345X@PJL INFO STATUS\r\n", 0),
    (U, "cups-browsing", b"3006 3 ipp://printer.example:631/printers/a \"here\"", 0),
    (U, "dropbox-lan", b"{\"host_int\": 123456, \"version\": [2, 0]}", 0),
    (U, "syncthing-discovery", b"\x2e\xa7\xd9\x0b\x0a\x20", 0),
    (U, "spotify-connect", b"SpotUdp0\0\0", 0),
];

const NETWORKS: &[Example] = &[
    (T, "tacacs", b"\xc0\x01\x01\0\x12\x34\x56\x78\0\0\0\x1a", 38),
    (T, "rpki-rtr", b"\x01\x02\0\0\0\0\0\x08", 8),
    (T, "pcep", b"\x20\x01\0\x0c\x01\x10\0\x08\x20\x1e\x78\x01", 12),
    (T, "bmp", b"\x03\0\0\0\x0f\x04\0\x02\0\x05route", 15),
    (T, "msdp", b"\x04\0\x03", 3),
    (U, "hsrp", b"\0\0\x10\x03\x0a\x78\x01\0cisco\0\0\0\xc0\xa8\0\x01", 20),
    (U, "glbp", b"\x01\0\0\x0a\0\0\0\x1b\x54\0\0\x01\x01\x04\0\0", 16),
    (U, "babel", b"\x2a\x02\0\x08\x04\x06\0\0\x12\x34\0\x64", 12),
    (U, "olsr", b"\0\x14\x12\x34\x01\x86\0\x10\x0a\0\0\x01\x01\0\0\0\0\0\x05\x03", 20),
    (U, "capwap", b"\x01\0\0\0\x16\xfe\xff\0\0", 0),
    (U, "teredo", b"\x60\0\0\0\0\x08\x3a\xff\xfe\x80\0\0\0\0\0\0", 48),
    (
        U,
        "mpls-echo",
        b"\0\x01\0\0\x01\x02\0\0\x12\x34\x56\x78\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\x0c",
        0,
    ),
    (U, "wccp", b"\0\0\0\x0a\x02\0\0\x18\0\0\0\x04\0\0\0\0", 32),
    (U, "icp", b"\x01\x02\0\x2c\0\0\x12\x34\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0http://a.example/\0\0\0", 44),
    (T, "agentx", b"\x01\x01\x10\0\0\0\0\0\0\0\0\0", 0),
    (T, "wins-replication", b"\0\0\0\x29\0\0\x78\0\0\0\0\0\0\0\0\0", 45),
    (U, "kpasswd", b"\x02\x10\xff\x80\x01\x90\x6e\x82", 528),
    (T, "omapi", b"\0\0\0\x64\0\0\0\x18", 0),
    (T, "rndc", b"\0\0\0\x95\0\0\0\x01\x05_auth\x02", 153),
    (U, "xdmcp", b"\0\x01\0\x02\0\x01\0", 7),
    (U, "ws-discovery", b"<?xml version=\"1.0\"?><soap:Envelope xmlns:soap=\"a\">", 0),
    (U, "tzsp", b"\x01\0\0\x01\x01\xff\xff\xff\xff\xff\xff", 0),
    (U, "sap", b"\x20\0\x12\x34\xc0\xa8\0\x01application/sdp\0v=0\r\n", 0),
    (U, "pfcp", b"\x20\x01\0\x0c\0\0\x01\0\0\x60\0\x04\xe0\0\0\0", 16),
    (U, "iax2", b"\x80\x01\0\0\0\0\0\x03\0\0\x06\x01\x0b\x02\0\x02", 0),
    (U, "megaco", b"MEGACO/1 [10.0.0.1]:2944 Transaction=1{", 0),
    (T, "msrp", b"MSRP a786hjs2 SEND\r\n", 0),
    (U, "zrtp", b"\x10\0\x12\x34ZRTP\0\0\0\x01", 0),
    (T, "ucp", b"\x0201/00045/O/30/66677789///1//////", 0),
    (U, "srt", b"\x80\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x04", 0),
    (T, "tinc", b"0 alpha 17.7\n", 0),
    (U, "tailscale-disco", b"TS\xf0\x9f\x92\xac0123456789abcdef0123456789abcdef", 0),
];

const PEOPLE: &[Example] = &[
    (U, "utp", b"\x41\0\x12\x34\0\0\0\x01\0\0\0\0\0\x0f\0\0\0\x01\0\0", 0),
    (T, "edonkey", b"\xe3\x1b\0\0\0\x01\x10", 32),
    (T, "direct-connect", b"$Lock EXTENDEDPROTOCOL Pk=version|", 0),
    (T, "monero", b"\x01\x21\x01\x01\x01\x01\x01\x01\x10\0\0\0\0\0\0\0", 49),
    (T, "stratum", b"{\"id\": 1, \"method\": \"mining.subscribe\", \"params\": []}\n", 0),
    (T, "minecraft", b"\x10\0\xfb\x05\x09localhost\x63\xdd\x01", 17),
    (U, "raknet", b"\x01\0\0\0\0\0\0\0\x01\0\xff\xff\0\xfe\xfe\xfe\xfe\xfd\xfd\xfd\xfd\x12\x34\x56\x78", 0),
    (U, "valve-query", b"\xff\xff\xff\xffTSource Engine Query\0", 0),
    (U, "quake", b"\xff\xff\xff\xffgetstatus", 0),
    (U, "steam-discovery", b"\xff\xff\xff\xff\x21\x4c\x5f\xa0", 0),
    (U, "teamspeak", b"TS3INIT1\0\x65\0\0\x88", 0),
    (T, "spice", b"REDQ\x02\0\0\0\x02\0\0\0\x1a\0\0\0", 42),
    (T, "citrix-ica", b"\x7f\x7fICA\0", 0),
    (T, "nx", b"NXPROXY-3.5.0\n", 0),
    (T, "whatsapp", b"WA\x06\x03\0\0\x24", 0),
    (T, "shoutcast", b"ICY 200 OK\r\n", 0),
    (T, "ms-media", b"\x01\0\0\0\xce\xfa\x0b\xb0", 0),
    (T, "managesieve", b"\"IMPLEMENTATION\" \"Dovecot\"\r\n", 0),
    (T, "chargen", b" !\"#$%&'()*+,-./0123456789", 0),
    (T, "daytime", b"Tue Jan  6 10:11:12 2026\r\n", 0),
    (T, "rsh", b"1022\0anna\0bert\0ls -l\0", 0),
    (T, "icap", b"OPTIONS icap://icap.example/reqmod ICAP/1.0\r\n", 0),
    (U, "mqtt-sn", b"\x0a\x04\x04\x01\0\x3cabcd", 10),
];

fn padded(bytes: &[u8], size: usize) -> Vec<u8> {
    let mut payload = bytes.to_vec();
    payload.resize(size.max(bytes.len()), 0);
    payload
}

fn examples() -> impl Iterator<Item = &'static Example> {
    [PLANTS, SERVICES, NETWORKS, PEOPLE].into_iter().flatten()
}

#[test]
fn each_example_has_its_label() {
    let scanner = Scanner::new(&builtin()).unwrap();
    let mut wrong = Vec::new();
    for &(transport, expected, bytes, size) in examples() {
        let found = scanner.scan_whole(transport, &padded(bytes, size));
        let found = found.map(|found| scanner.name(found.pattern));
        if found != Some(expected) {
            wrong.push(format!("{expected}, not {found:?}: {}", bytes.escape_ascii()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn port_and_length_decide_between_similar_protocols() {
    let scanner = Scanner::new(&builtin()).unwrap();
    let label = |bytes: &[u8], port| {
        let origin = Origin::UNKNOWN.between([port, 50_000]);
        scanner.scan_datagram(bytes, bytes.len(), origin).map(|found| scanner.name(found.pattern))
    };
    let advertised = b"\0\x03\0\x01\0\x0e\x02\0\0\0\0\x02\x6f\0\0\0";
    assert_eq!(label(advertised, 1985), Some("hsrp"));
    assert_eq!(label(advertised, 69), Some("tftp"));
    let babel = [&b"\x2a\x02\0\x08\x04\x06\0\0\x12\x34\0\x64"[..], &[0x11, 12], &[7; 12]].concat();
    assert_eq!(label(&babel, 6696), Some("babel"), "with a trailer");
    assert_eq!(label(&babel, 6697), None);
    let state = b"\x20\x44\x05\x34\0\0\0\x01\0\0\0\0\0\x0f\x42\x40\0\x0f\x42\x40\0\0\0\0";
    let bfd = [&state[..], &[5, 28], &[7; 26]].concat();
    assert_eq!(label(&bfd, 3784), Some("bfd"), "with authentication");
    assert_eq!(label(&bfd[..50], 3784), None);
    let reply = [&b"\0\x01\0\0\x02\x02\x03\0\0\0\0\0\0\0\0\x01"[..], &[7; 16]].concat();
    assert_eq!((label(&reply, 3503), label(&reply, 3504)), (Some("mpls-echo"), None));
    let temporary =
        b"\x02\x28\xb0\x40\0\x04\0\x04\x02\x03\x04\x05\0\x01\0\x0a\0\x03\0\x01\0\x01\x02\x03\x04\x05";
    assert_eq!(label(temporary, 547), Some("dhcpv6"));
    assert_eq!(label(&temporary[..25], 547), None);
}

#[test]
fn patterns_with_few_fixed_bits_match_only_on_their_ports() {
    let scanner = Scanner::new(&builtin()).unwrap();
    let keep_alive = b"\x04\0\0\0\0\0\0\0\0\0\0\0";
    let at = |bytes: &[u8], port| {
        let (mut state, mut found) = (ScanState::default(), MatchState::default());
        scanner.feed(T, &mut state, &mut found, bytes);
        match scanner.outcome(T, &state, found, Origin::UNKNOWN.between([40_000, port]), 0) {
            Outcome::Matched(found) => Some(scanner.name(found.pattern)),
            _ => None,
        }
    };
    assert_eq!((at(keep_alive, 2000), at(keep_alive, 988)), (Some("skinny"), None));
    let features = b"\x04\x06\0\x08\0\0\0\x41";
    assert_eq!((at(features, 6653), at(features, 6654)), (Some("openflow"), None));
}

#[test]
fn example_of_another_length_loses_its_label() {
    let scanner = Scanner::new(&builtin()).unwrap();
    let mut wrong = Vec::new();
    for &(transport, label, bytes, size) in examples().filter(|example| example.3 > 0) {
        // In a stream, more bytes may follow the first record.
        let sizes = if transport == T { vec![size - 1] } else { vec![size - 1, size + 1, size + 101] };
        for other in sizes {
            let mut payload = padded(bytes, other);
            payload.truncate(other);
            let found = match transport {
                Transport::Udp => scanner.scan_datagram(&payload, other, Origin::UNKNOWN),
                Transport::Tcp => scanner.scan_whole(T, &payload),
            };
            if found.is_some_and(|found| scanner.name(found.pattern) == label) {
                wrong.push(format!("{label} with {other} bytes, not {size}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn example_with_another_first_byte_loses_its_label() {
    let scanner = Scanner::new(&builtin()).unwrap();
    let mut wrong = Vec::new();
    for &(transport, label, bytes, size) in examples() {
        // The first byte of these is a number of bytes or anything.
        if ["db2", "kpasswd", "kpasswd-tcp", "skinny", "minecraft", "mqtt-sn", "someip", "afs", "iax2"]
            .contains(&label)
        {
            continue;
        }
        let mut payload = padded(bytes, size);
        payload[0] = 0x9e;
        let found = scanner.scan_whole(transport, &payload);
        if found.is_some_and(|found| scanner.name(found.pattern) == label) {
            wrong.push(format!("{label}: {}", payload.escape_ascii()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
