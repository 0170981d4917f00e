//! Names as compilers write them and as people do: of libstdc++, libc++, RocksDB, clang and Rust's standard
//! library, and some of each kind that these have none of.

use heapattach_text::short_name::short_name;

use crate::demangle::demangle;

/// Mangled, and short.
#[rustfmt::skip]
const NAMES: &[(&str, &str)] = &[
    ("_ZN1AclEi", "A::operator()"),
    ("_ZN1AixEm", "A::operator[]"),
    ("_ZN1AptEv", "A::operator->"),
    ("_ZN1AcvSsEv", "A::operator std::string"),
    ("_ZNK1AcvbEv", "A::operator bool"),
    ("_ZplRK1AS1_", "operator+"),
    ("_ZNK3$_0clEv", "$_0::operator()"),
    ("_ZNK1AltERKS_", "A::operator<"),
    ("_ZZ4mainENK3$_1clEi", "main::$_1::operator()"),
    ("_ZdlPvRKSt9nothrow_t", "operator delete"),
    ("_ZdlPvmSt11align_val_t", "operator delete"),
    ("_ZThn16_NSt13basic_fstreamIcSt11char_traitsIcEED1Ev", "virtual thunk to std::basic_fstream<char>::~basic_fstream"),
    ("_ZTv0_n24_NSt13basic_istreamIwSt11char_traitsIwEED0Ev", "virtual thunk to std::wistream::~wistream"),
    ("_ZTv0_n24_NSt14basic_iostreamIwSt11char_traitsIwEED1Ev", "virtual thunk to std::wiostream::~wiostream"),
    ("_ZGTtNSt12domain_errorD1Ev", "transaction clone for std::domain_error::~domain_error"),
    ("_ZN12_GLOBAL__N_13fooEv", "(anonymous namespace)::foo"),
    ("_ZN12_GLOBAL__N_111MaxOperatorD1Ev", "(anonymous namespace)::MaxOperator::~MaxOperator"),
    ("_ZN12_GLOBAL__N_111PutOperatorD0Ev", "(anonymous namespace)::PutOperator::~PutOperator"),
    ("_ZN12_GLOBAL__N_113PutOperatorV2D0Ev", "(anonymous namespace)::PutOperatorV2::~PutOperatorV2"),
    ("_ZN7rocksdb12_GLOBAL__N_113NoopTransformD1Ev", "rocksdb::(anonymous namespace)::NoopTransform::~NoopTransform"),
    ("_Z3fooB5cxx11v", "foo"),
    ("_ZNSt8ios_base7failureB5cxx11D2Ev", "std::ios_base::failure::~failure"),
    ("_ZN7rocksdb4test10RandomNameB5cxx11EPNS_6RandomEm.cold", "rocksdb::test::RandomName"),
    ("_Z3foov.isra.0", "foo"),
    ("_ZN7rocksdb13BlobLogWriter4SyncEv.cold", "rocksdb::BlobLogWriter::Sync"),
    ("_ZN4toku3omtImmLb0EE9node_freeEj.part.0", "toku::omt<unsigned long, unsigned long, false>::node_free"),
    ("_ZN4toku10comparator7inheritERKS0_.part.0", "toku::comparator::inherit"),
    ("_ZNSbIwSt11char_traitsIwESaIwEEpLEw", "std::wstring::operator+="),
    ("_ZNSt7__cxx1112basic_stringIwSt11char_traitsIwESaIwEED1Ev", "std::wstring::~wstring"),
    ("_ZNKSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE4sizeEv", "std::string::size"),
    ("_ZNKSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6rbeginEv", "std::string::rbegin"),
    ("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEC1ERKS4_mm", "std::string::string"),
    ("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE10_M_destroyEm", "std::string::_M_destroy"),
    ("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE13shrink_to_fitEv", "std::string::shrink_to_fit"),
    ("_ZNSt7__cxx1112basic_stringIwSt11char_traitsIwESaIwEEC1IPwvEET_S7_RKS3_", "std::wstring::wstring<wchar_t*, void>"),
    ("_ZNSt11__timepunctIwEC2EP15__locale_structPKcm", "std::__timepunct<...>::__timepunct"),
    ("_ZNKSt11__timepunctIcE20_M_date_time_formatsEPPKc", "std::__timepunct<...>::_M_date_time_formats"),
    ("_ZSt9use_facetISt10moneypunctIcLb0EEERKT_RKSt6locale", "std::use_facet<...>"),
    ("_ZN4llvm11erase_valueINS_11SmallVectorIPN5clang4ExprELj2EEES4_EEvRT_T0_",
        "llvm::erase_value<llvm::SmallVector<...>, ...>"),
    ("_ZNSt6vectorIN7rocksdb9cassandra8RowValueESaIS2_EE12emplace_backIJS2_EEERS2_DpOT_.isra.0",
        "std::vector<rocksdb::cassandra::RowValue>::emplace_back<...>"),
    ("_ZSt9use_facetISt7num_getIwSt19istreambuf_iteratorIwSt11char_traitsIwEEEERKT_RKSt6locale", "std::use_facet<...>"),
    ("_RNvXsX_NtNtCsgEmfK2I1SDS_4core3fmt3numyNtB7_5Debug3fmt", "<u64 as Debug>::fmt"),
    ("_ZN63_$LT$regex_syntax..hir..Hir$u20$as$u20$core..cmp..PartialEq$GT$2eq17hf741ef3acf47cdd3E", "<Hir as PartialEq>::eq"),
    ("_ZN81_$LT$std..io..default_write_fmt..Adapter$LT$T$GT$$u20$as$u20$core..fmt..Write$GT$9write_str17h1effe502694f98d0E",
        "<Adapter<T> as Write>::write_str"),
    ("_ZN114_$LT$proptest..strategy..traits..BoxedStrategyWrapper$LT$T$GT$$u20$as$u20$proptest..strategy..traits..Strategy$GT$8new_tree17h95076189f0db7c6bE",
        "<BoxedStrategyWrapper<T> as Strategy>::new_tree"),
    ("_RNvXs_NtNtCs3mSbOeLENLV_4test10formatters6prettyINtB4_15PrettyFormatterNtNtNtCsjrHSEGnQ3l9_3std2io5stdio6StdoutENtB6_15OutputFormatter16write_run_finishB8_",
        "<PrettyFormatter<Stdout> as OutputFormatter>::write_run_finish"),
    ("_RINvNtCsgEmfK2I1SDS_4core9panicking13assert_failedyyEB4_", "core::panicking::assert_failed::<u64, u64>"),
    ("_RINvMs5_NtNtCsjrHSEGnQ3l9_3std2io5errorNtB6_5Error3newReEBa_", "std::io::error::Error::new::<&str>"),
    ("_RINvNtCsgEmfK2I1SDS_4core9panicking13assert_failedssECsjrHSEGnQ3l9_3std", "core::panicking::assert_failed::<i16, i16>"),
    ("_RINvNtCsgEmfK2I1SDS_4core3ptr13drop_in_placeINtNtCslNYArtu3iFV_5alloc3vec3VechEECsjrHSEGnQ3l9_3std",
        "core::ptr::drop_in_place::<Vec<u8>>"),
    ("_RINvMs4_NtCsgY6Mt91CT9J_14rustc_demangle2v0NtB6_7Printer14print_sep_listNCNvB2_11print_consts3_0EB8_",
        "rustc_demangle::v0::Printer::print_sep_list::<<Printer>::print_const::{closure#5}>"),
    ("_ZZN3foo3barEvENKUliE_clEi", "foo::bar::{lambda#1}"),
    ("_RNCINvNtNtCsjrHSEGnQ3l9_3std6thread7current17with_current_nameNCNCNvNtB8_9panicking12default_hook00uE0B8_",
        "std::thread::current::with_current_name::<default_hook::{closure#0}::{closure#0}, ...>::{closure#0}"),
    ("_RINvMNtNtCsjrHSEGnQ3l9_3std4sync9once_lockINtB3_8OnceLockNtNtB7_2fs4FileE10initializeNCNvNtNtNtB7_3sys6random5linux9getrandom0NtNtNtB7_2io5error5ErrorEB7_",
        "std::sync::once_lock::OnceLock<File>::initialize::<getrandom::{closure#0}, Error>"),
    ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
    ("_RNvNtNtCsjrHSEGnQ3l9_3std2io5stdio6__print", "std::io::stdio::_print"),
    ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"),
    ("_RNvCsfLfy6EI15iL_7___rustc20___rust_panic_cleanup", "__rustc::__rust_panic_cleanup"),
    ("_RNvNtCsgEmfK2I1SDS_4core9panicking18panic_bounds_check", "core::panicking::panic_bounds_check"),
    ("_RNvMs2_NtNtCsgEmfK2I1SDS_4core3num6bignumNtB5_8Big32x408mul_pow2", "core::num::bignum::Big32x40::mul_pow2"),
    ("_ZNSaIwEC2ERKS_", "std::allocator<wchar_t>::allocator"),
    ("_ZNSt8functionIFviEEC1ERKS1_", "std::function<void (int)>::function"),
    ("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int>::push_back"),
    ("_ZNSt7__cxx1110moneypunctIcLb1EEC2Em", "std::moneypunct<char, true>::moneypunct"),
    ("_ZNSt5queueIiSt5dequeIiSaIiEEE4pushEOi", "std::queue<int>::push"),
    ("_ZNKSt10moneypunctIwLb0EE13do_neg_formatEv", "std::moneypunct<wchar_t, false>::do_neg_format"),
    ("_ZNSt13basic_filebufIwSt11char_traitsIwEED2Ev", "std::basic_filebuf<wchar_t>::~basic_filebuf"),
    ("_ZNSt14basic_ifstreamIwSt11char_traitsIwEEaSEOS2_", "std::basic_ifstream<wchar_t>::operator="),
    ("_ZNSt3__16vectorIiNS_9allocatorIiEEE9push_backEOi", "std::vector<int>::push_back"),
    ("_ZNKSt7codecvtIDsc11__mbstate_tE9do_lengthERS0_PKcS4_m", "std::codecvt<char16_t, char, __mbstate_t>::do_length"),
    ("_ZN5clang10BitIntTypeC1Ebj", "clang::BitIntType::BitIntType"),
    ("_ZNK5clang12IBActionAttr11getSpellingEv", "clang::IBActionAttr::getSpelling"),
    ("_ZN5clang25ChainedDiagnosticConsumer6anchorEv", "clang::ChainedDiagnosticConsumer::anchor"),
    ("_ZNK5clang8QualType13isTrivialTypeERKNS_10ASTContextE", "clang::QualType::isTrivialType"),
    ("_ZNSt6localeC1EPKc", "std::locale::locale"),
    ("_ZN10TimerQueueD1Ev", "TimerQueue::~TimerQueue"),
    ("_ZN7rocksdb6DBIterD0Ev", "rocksdb::DBIter::~DBIter"),
    ("_ZSt11_Hash_bytesPKvmm", "std::_Hash_bytes"),
];

#[test]
fn names_are_told_as_people_write_them() {
    assert!(NAMES.len() >= 60);
    for (mangled, short) in NAMES {
        let whole = demangle(mangled.as_bytes());
        assert_ne!(whole, *mangled, "it was understood");
        assert_eq!(short_name(&whole), *short, "{whole}");
    }
}

proptest::proptest! {
    #[test]
    fn what_any_bytes_demangle_to_has_a_short_name(name: Vec<u8>, tail in "[_0-9A-Za-z]{0,64}") {
        for name in [name, format!("_Z{tail}").into_bytes(), format!("_R{tail}").into_bytes()] {
            let whole = demangle(&name);
            assert_eq!(short_name(&whole).is_empty(), whole.is_empty(), "{whole}");
        }
    }
}
