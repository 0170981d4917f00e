//! Functions that only pass a request for memory on, as data.
//!
//! Patterns over the path of a function (see [`super::path`]); `*` stands for any text. A library
//! belongs here when its callers think of it as "allocate": then the caller is who to name.

/// What is hidden unless `--hide-frames none` says otherwise.
pub const FUNCTIONS: &[&str] = &[
    // The C library: the allocator itself,
    "malloc", "calloc", "realloc", "reallocarray", "memalign", "aligned_alloc", "posix_memalign",
    "valloc", "pvalloc", "free", "cfree", "__libc_malloc*", "__libc_calloc*", "__libc_realloc*",
    "__libc_memalign*", "__libc_reallocarray", "__libc_valloc", "__libc_pvalloc", "__posix_memalign",
    "_int_malloc", "_int_realloc", "_int_memalign", "_mid_memalign", "sysmalloc", "sysmalloc_mmap",
    "tcache_init", "malloc_hook_ini", "__libc_alloc_buffer*", "__libc_dynarray*",
    "__libc_scratch_buffer*", "mmap", "mmap64", "__mmap", "__mmap64", "mremap", "__mremap", "sbrk",
    "__sbrk", "brk", "__brk", "madvise", "__madvise", "__glibc_morecore", "sysmalloc_mmap_fallback",
    "systrim*", "heap_trim", "grow_heap", "_int_free*",
    // and what allocates for its callers.
    "strdup", "__strdup", "strndup", "__strndup", "wcsdup", "__wcsdup", "asprintf", "__asprintf",
    "___asprintf", "__asprintf_chk", "vasprintf", "__vasprintf*", "getline", "__getline", "getdelim",
    "_IO_getdelim", "__getdelim", "fopen", "fopen64", "_IO_new_fopen", "__fopen_internal", "fdopen",
    "_IO_new_fdopen", "freopen", "popen", "_IO_new_popen", "tmpfile", "open_memstream",
    "__open_memstream", "fmemopen", "_IO_file_doallocate", "__GI__IO_file_doallocate",
    "_IO_doallocbuf", "__GI__IO_doallocbuf", "opendir", "__opendir*", "fdopendir", "__fdopendir",
    "__alloc_dir", "scandir", "scandir64", "__scandir*", "realpath", "__realpath*", "getcwd",
    "__getcwd", "get_current_dir_name", "canonicalize_file_name", "setlocale", "newlocale",
    "regcomp", "__regcomp", "setenv", "__setenv", "putenv", "__add_to_environ", "glob", "glob64",
    "qsort", "qsort_r", "__qsort_r", "hcreate", "hcreate_r", "tsearch", "__tsearch", "getaddrinfo",
    "dlopen*", "__dlopen*", "_dlerror_run", "_dl_catch_exception", "_dl_catch_error",
    "pthread_create*", "__pthread_create*", "allocate_stack", "_dl_allocate_tls*", "__tls_get_addr",
    // C++: operator new and delete of every kind, and the standard library on top of them.
    "operator new*", "operator delete*", "__cxa_allocate_exception", "__cxa_vec_new*",
    "__cxa_demangle", "std::*", "__gnu_cxx::*", "__gnu_debug::*", "<std::*", "__cxxabiv1::*",
    "__rust_alloc*", "__rust_realloc*", "__rg_*", "__rdl_*", "__rustc::__r*",
    // Allocators that are linked in or preloaded.
    "je_*", "_rjem_*", "_rjem_je_*", "imalloc*", "mi_*", "_mi_*", "tc_*", "tcmalloc::*",
    "(anonymous namespace)::do_malloc*", "rpmalloc", "rpcalloc", "rprealloc", "scudo::*",
    "scudo_*", "__interceptor_*", "__asan::*", "hoard::*", "xxmalloc", "nedmalloc", "dlmalloc",
    "dlcalloc", "dlrealloc", "GC_malloc*", "GC_realloc", "GC_generic_malloc*",
    // GLib and GTK.
    "g_malloc*", "g_try_malloc*", "g_realloc*", "g_try_realloc*", "g_aligned_alloc*", "g_strdup*",
    "g_strndup", "g_strconcat", "g_strjoin*", "g_memdup*", "g_slice_*", "g_string_*",
    "g_array_new*", "g_array_sized_new", "g_array_maybe_expand", "g_ptr_array_*", "g_list_alloc",
    "g_list_append", "g_list_prepend", "g_slist_alloc", "g_slist_append", "g_slist_prepend",
    "g_hash_table_new*", "g_hash_table_resize", "g_bytes_new*", "g_byte_array_*",
    "g_type_create_instance", "g_vasprintf", "g_strsplit*", "g_strdupv",
    // The same by other names.
    "xmalloc*", "xcalloc*", "xrealloc*", "xzalloc*", "xnmalloc*", "xnrealloc", "x2realloc",
    "x2nrealloc", "xstrdup*", "xstrndup*", "xmemdup*", "xasprintf", "xvasprintf", "xpalloc",
    "ximalloc", "xicalloc", "xirealloc", "emalloc", "ecalloc", "erealloc", "safe_malloc",
    "safe_calloc", "safe_realloc", "ckalloc", "checked_malloc",
    // Go: how its runtime maps where there is a C library.
    "x_cgo_mmap", "x_cgo_munmap", "runtime.callCgoMmap", "runtime.mmap", "runtime.mmap.func*",
    "runtime.sysMmap", "runtime.sysReserve*", "runtime.sysAlloc*", "runtime.sysMap*",
    // Redis and Valkey.
    "zmalloc*", "zcalloc*", "zrealloc*", "ztrymalloc*", "ztrycalloc*", "ztryrealloc*", "zstrdup",
    "valkey_malloc*", "valkey_calloc*", "valkey_realloc*", "sdsnew*", "_sdsnewlen", "sdsempty",
    "sdsdup", "sdscat*", "_sdsMakeRoomFor", "sdsMakeRoomFor*", "sdsgrowzero", "sdsResize",
    "sdstrynewlen", "hi_malloc", "hi_calloc", "hi_realloc", "hi_strdup",
    // nginx, Apache, PostgreSQL.
    "ngx_alloc", "ngx_calloc", "ngx_memalign", "ngx_palloc*", "ngx_pnalloc", "ngx_pcalloc",
    "ngx_pmemalign", "ngx_create_pool", "ngx_array_create", "ngx_array_push*", "ngx_list_push",
    "apr_palloc*", "apr_pcalloc*", "apr_pool_create*", "apr_allocator_alloc", "allocator_alloc",
    "apr_pstrdup", "apr_pstrcat", "apr_psprintf", "apr_array_make", "apr_array_push", "palloc*",
    "repalloc*", "pstrdup", "pnstrdup", "psprintf", "MemoryContextAlloc*", "MemoryContextStrdup",
    "AllocSetAlloc*", "AllocSetRealloc", "AllocSetContextCreateInternal", "GenerationAlloc*",
    "SlabAlloc*",
    // CPython.
    "PyMem_*", "_PyMem_*", "PyObject_Malloc", "PyObject_Calloc", "PyObject_Realloc",
    "_PyObject_Malloc*", "_PyObject_Calloc", "_PyObject_Realloc", "pymalloc_alloc", "new_arena",
    "allocate_from_new_pool", "_PyObject_Arena*", "_PyObject_New*", "_PyObject_GC_*", "gc_alloc",
    "PyType_GenericAlloc", "_PyType_AllocNoTrack", "PyType_GenericNew", "PyObject_GC_*",
    // talloc, jansson, zlib's streams.
    "talloc_*", "_talloc*", "__talloc*", "jsonp_malloc", "jsonp_strdup", "jsonp_strndup",
    "deflateInit*", "inflateInit*",
    // SQLite, OpenSSL, zlib, Ruby, PHP, Perl, Lua, V8, the JVM.
    "sqlite3MemMalloc", "sqlite3MemRealloc", "sqlite3Malloc*", "mallocWithAlarm", "sqlite3Realloc*",
    "sqlite3_malloc*", "sqlite3_realloc*", "sqlite3_mprintf", "sqlite3_vmprintf", "sqlite3MPrintf",
    "sqlite3VMPrintf", "sqlite3Db*alloc*", "dbMallocRawFinish", "dbReallocFinish",
    "sqlite3DbStrDup", "sqlite3DbStrNDup", "sqlite3StrAccum*", "CRYPTO_malloc*", "CRYPTO_zalloc",
    "CRYPTO_calloc", "CRYPTO_realloc*", "CRYPTO_strdup", "CRYPTO_strndup", "CRYPTO_memdup",
    "CRYPTO_aligned_alloc*", "BUF_MEM_grow*", "zcalloc", "ruby_xmalloc*", "ruby_xcalloc*",
    "ruby_xrealloc*", "objspace_xmalloc*", "objspace_xcalloc*", "rb_gc_impl_*alloc*", "_emalloc*",
    "_ecalloc", "_erealloc*", "_estrdup", "_estrndup", "__zend_malloc", "zend_mm_*",
    "_safe_emalloc", "_safe_malloc", "_safe_realloc", "_safe_erealloc", "Perl_safesys*",
    "Perl_sv_grow*", "Perl_savepv*", "Perl_more_bodies", "Perl_more_sv", "l_alloc",
    "v8::internal::AllocWithRetry",
    "v8::internal::Malloced::operator new", "os::malloc", "os::realloc", "AllocateHeap",
    "ReallocateHeap", "Chunk::operator new", "Arena::grow", "ChunkPool::*",
];

/// The same of Rust alone: its functions bear no arguments in their names, and a program in C++ may
/// well have a `core::Cache::add(int)` of its own.
pub const RUST: &[&str] = &[
    "alloc::*", "core::*", "hashbrown::*", "<alloc::*", "<core::*", "<hashbrown::*", "[*]::*",
    "str::*", "<str as *", "<&str as *", "<[*] as *", "<&[*] as *", "smallvec::*",
    "<* as alloc::string::ToString>::*", "<* as alloc::string::SpecToString>::*",
    "<* as alloc::slice::*", "<* as alloc::vec::*", "<* as core::convert::Into>::into",
    "<* as core::alloc::global::GlobalAlloc>::*", "tikv_jemallocator::*", "<tikv_jemallocator::*",
    "mimalloc::*", "<mimalloc::*",
];

/// Source files of standard libraries: a call inlined from there may bear a short name only.
pub const FILES: &[&str] = &[
    "*/include/c++/*", "/rustc/*/library/*", "*/rustlib/src/rust/library/*",
];

/// Modules of interpreters: their functions are hidden where the functions that they interpret are
/// known. Those of a Java virtual machine have libraries of their own, without versions in their names.
pub const INTERPRETERS: &[&str] = &[
    "python", "python3*", "libpython3*", "node", "nodejs", "libnode.so*", "libv8*.so*", "libjvm.so",
    "libjava.so", "libzip.so", "libnio.so", "libnet.so", "libjimage.so", "libverify.so",
    "libextnet.so", "libinstrument.so", "libmanagement*.so",
    "php", "php7*", "php8*", "php-fpm*", "php-cgi*", "phpdbg*", "libphp*.so",
    "ruby", "ruby2*", "ruby3*", "libruby*.so*", "perl", "perl5*", "libperl.so*",
    "lua", "lua5*", "liblua*.so*",
];

/// Generated code that is the engine's own: of V8, and of Java's virtual machine.
pub const ENGINES: &[&str] = &[
    "Builtin:*", "BytecodeHandler:*", "Stub:*", "RegExp:*", "Interpreter", "I2C/C2I adapters",
    "StubRoutines*", "MethodHandlesAdapterBlob*", "native nmethod*", "native signature handlers",
    "vtable chunks", "itable stub*", "vtable stub*", "RuntimeStub*", "* Runtime1 stub", "*_stub",
    "resolve_*_call", "jni_fast_*", "*Blob", "*Blob (*", "flush_icache*",
];

/// Functions that come with a language: what its libraries allocate, their callers wanted.
pub const OF_LANGUAGES: &[&str] = &["java.*", "javax.*", "jdk.*", "sun.*"];

/// Source files that come with it.
pub const SOURCES_OF_LANGUAGES: &[&str] = &["node:*"];

/// Modules whose functions are hidden when they have no name: a stripped library's own insides.
pub const MODULES: &[&str] = &[
    "ld-linux*", "ld-musl*", "libc.so*", "libc-2.*", "libc.musl*", "libstdc++.so*", "libc++.so*",
    "libc++abi.so*", "libjemalloc*", "libtcmalloc*", "libmimalloc*", "librpmalloc*",
    // Their functions that are exported pass on what these ask for, or are the better name.
    "libapr-1.so*", "libglib-2.0.so*", "libgobject-2.0.so*", "libruby*.so*", "libperl.so*", "perl",
    "perl5*", "libsqlite3.so*",
];

/// Modules whose functions are all hidden, named or not: whatever of them is called, the blocks are the caller's.
pub const LIBRARIES: &[&str] = &["libjansson.so*", "libtalloc.so*"];
