//! Leaks of the C library and of others that nobody means to mend: memory kept for the life of the
//! process, whose only pointer is encoded, or in a place nobody can look.

/// Patterns, each with what it keeps quiet.
pub const LEAKS: [&str; 7] = [
    // Exit handlers: their pointers are encoded.
    "^__new_exitfn$",
    // Tables of converters and of name services, once read and kept.
    "^__gconv_read_conf$",
    "^__gconv_lookup_cache$",
    "^__nss_module_allocate$",
    "^__nss_database_get$",
    // The time zone.
    "^tzset_internal$",
    // What the loader keeps of a library that was loaded later.
    "^dl_open_worker",
];
