//! Leaks of the C library and of others that are not going to be fixed: memory kept for the life of the
//! process, whose only pointer is encoded, or in a place that cannot be read.

/// Patterns, each with what it suppresses.
pub const LEAKS: [&str; 6] = [
    // Exit handlers: their pointers are encoded.
    "^__new_exitfn$",
    // Tables of converters and of name services, once read and kept.
    "^__gconv_read_conf$",
    "^__gconv_lookup_cache$",
    "^__nss_module_allocate$",
    "^__nss_database_get$",
    // The time zone.
    "^tzset_internal$",
];

/// What the loader itself allocated while it loaded a library later, and keeps; but not what the
/// library's constructors did, which it calls.
pub const LOADER: &str = "^dl_open_worker";

/// The files of the loader and of the C library.
pub fn is_loaders(module: &str) -> bool {
    let file = module.rsplit('/').next().unwrap_or_default();
    ["ld-", "ld.so", "ld64.so", "libc.so", "libc-", "libdl.so", "libdl-"]
        .iter()
        .any(|name| file.starts_with(name))
}
