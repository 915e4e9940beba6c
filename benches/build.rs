//! Compiles the shims around C rivals, if their features are enabled and their libraries are
//! installed.

fn main() {
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rustc-check-cfg=cfg(has_dpdk)");
    println!("cargo::rustc-check-cfg=cfg(has_vectorscan)");
    #[cfg(feature = "dpdk")]
    dpdk();
    #[cfg(feature = "vectorscan")]
    vectorscan();
}

/// Without the library, the rival is omitted, and the bench reports it.
#[cfg(feature = "dpdk")]
fn dpdk() {
    match pkg_config::Config::new().probe("libdpdk") {
        Ok(library) => {
            let mut build = cc::Build::new();
            build
                .file("c/rte_hash.c")
                .includes(&library.include_paths)
                .flag("-include")
                .flag("rte_config.h");
            build
                .flag("-march=native")
                .flag("-Wno-unused-parameter")
                .opt_level(3)
                .compile("flowloom_rte_hash");
            println!("cargo::rustc-cfg=has_dpdk");
        }
        Err(error) => {
            println!("cargo::warning=no rival rte_hash: {}", error.to_string().replace('\n', " "));
        }
    }
}

#[cfg(feature = "vectorscan")]
fn vectorscan() {
    match pkg_config::Config::new().probe("libhs") {
        Ok(library) => {
            cc::Build::new()
                .file("c/vectorscan.c")
                .includes(&library.include_paths)
                .opt_level(3)
                .compile("flowloom_vectorscan");
            // The shim is linked before the library that it calls.
            println!("cargo::rustc-link-lib=hs");
            println!("cargo::rustc-cfg=has_vectorscan");
        }
        Err(error) => {
            println!("cargo::warning=no rival vectorscan: {}", error.to_string().replace('\n', " "));
        }
    }
}
