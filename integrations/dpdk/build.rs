//! Compiles the functions that DPDK has only in its headers, and links its libraries.

fn main() {
    println!("cargo::rerun-if-changed=src/shim.c");
    let library = match pkg_config::Config::new().atleast_version("21.11").cargo_metadata(false).probe("libdpdk") {
        Ok(library) => library,
        Err(error) => {
            println!("cargo::error=DPDK 21.11 or later is needed (Debian: libdpdk-dev): {error}");
            return;
        }
    };
    cc::Build::new()
        .file("src/shim.c")
        .includes(&library.include_paths)
        // The headers of DPDK use what it was compiled with.
        .flag("-include")
        .flag("rte_config.h")
        .flag("-march=corei7")
        .warnings(false)
        .compile("flowloom_dpdk_shim");
    for path in &library.link_paths {
        println!("cargo::rustc-link-search=native={}", path.display());
    }
    for name in ["rte_eal", "rte_ethdev", "rte_mbuf", "rte_mempool"] {
        println!("cargo::rustc-link-lib=dylib={name}");
    }
}
