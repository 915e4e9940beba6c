//! The examples of external sources run and account for every packet; each checks itself.

#[path = "../examples/af_xdp.rs"]
mod af_xdp;
#[path = "../examples/dpdk.rs"]
mod dpdk;

#[test]
fn a_dpdk_port_is_a_source() {
    dpdk::main().unwrap();
}

#[test]
fn an_af_xdp_socket_is_a_source() {
    af_xdp::main().unwrap();
}
