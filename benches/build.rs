//! Compiles the shims around C rivals, if their features are enabled and their libraries are
//! installed.

fn main() {
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rustc-check-cfg=cfg(has_dpdk)");
    println!("cargo::rustc-check-cfg=cfg(has_flat_maps)");
    println!("cargo::rustc-check-cfg=cfg(has_vectorscan)");
    #[cfg(feature = "dpdk")]
    dpdk();
    #[cfg(feature = "flat-maps")]
    flat_maps();
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

#[cfg(feature = "flat-maps")]
fn flat_maps() {
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").file("c/flat_maps.cc").flag("-march=native").opt_level(3);
    // The library is linked after the shim, and Boost consists of headers.
    let compiled = build.try_compile("flowloom_flat_maps").map_err(|error| error.to_string());
    let abseil =
        |()| pkg_config::Config::new().probe("absl_flat_hash_map").map_err(|error| error.to_string());
    match compiled.and_then(abseil) {
        Ok(_) => println!("cargo::rustc-cfg=has_flat_maps"),
        Err(error) => println!(
            "cargo::warning=no rivals Abseil and Boost (libabsl-dev, libboost1.81-dev): {}",
            error.replace('\n', " ")
        ),
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
