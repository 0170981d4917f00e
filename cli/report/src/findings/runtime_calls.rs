//! Which calls of a stack are told to people: not what calls `main`, a thread or a test, and not what is
//! between an allocation function and who wanted the memory. Those are the same in every stack. The data
//! keep all calls.

use super::Frame;
use crate::suppression::is_loaders;

/// What a runtime calls the program's code through: from there outwards all is its own.
const GATES: [&str; 20] = [
    "__rust_begin_short_backtrace",
    "std::sys::backtrace::__rust_begin_short_backtrace",
    "std::sys_common::backtrace::__rust_begin_short_backtrace",
    "test::__rust_begin_short_backtrace",
    "test::run_test",
    "std::rt::lang_start",
    "std::thread::_State_impl<",
    "std::thread::_Invoker<",
    "execute_native_thread_routine",
    "testing::Test::Run",
    "testing::TestInfo::Run",
    "testing::TestSuite::Run",
    "testing::UnitTest::Run",
    "testing::internal::Handle",
    "testing::internal::UnitTestImpl::Run",
    "Catch::RunContext::",
    "Catch::TestInvoker",
    "Catch::Session::",
    "doctest::Context::run",
    "boost::unit_test::",
];
/// What is between a gate and the program's code.
const GLUE: [&str; 6] = [
    "std::panicking::",
    "std::panic::catch_unwind",
    "std::__invoke",
    "std::invoke",
    "Catch::",
    "boost::",
];
/// What the C library starts a program by, which may be a part of the program.
const STARTS: [&str; 3] = ["__libc_start", "libc_start_main", "generic_start_main"];
/// The first instruction of a program.
const ENTRY: &str = "_start";
/// What the C library starts a thread by.
const THREAD_STARTS: [&str; 4] = ["start_thread", "thread_start", "__clone", "clone"];

/// The numbers of the calls that are told; `cause` is always among them.
pub fn told(frames: &[Frame], cause: usize) -> Vec<usize> {
    let end = end_of_own(frames).max(cause + 1).min(frames.len());
    // The first is the allocation function itself.
    (0..end).filter(|&call| call == 0 || call >= cause).collect()
}

/// How many calls, from the innermost on, are not the runtime's.
fn end_of_own(frames: &[Frame]) -> usize {
    let mut end = frames.len();
    while end > 0 && starts(&frames[..end]) {
        end -= 1;
    }
    let Some(gate) = frames[..end].iter().position(|frame| begins(frame, &GATES)) else {
        return end;
    };
    let glue = frames[..gate].iter().rev().take_while(|frame| is_glue(frame)).count();
    gate - glue
}

/// Whether the last of these calls is one of the C library's before `main` or a thread's function.
fn starts(frames: &[Frame]) -> bool {
    let Some((last, inner)) = frames.split_last() else { return false };
    let is_unnamed = is_unnamed(last);
    // Without symbols the entry of a program has no name, and the C library called `main` for it.
    let is_entry = || is_unnamed && inner.last().is_some_and(|frame| is_loaders(&frame.module));
    let is_before_main = || inner.iter().any(|frame| frame.function == "main");
    match is_loaders(&last.module) {
        true => {
            is_unnamed || is_before_main() || begins(last, &STARTS) || begins(last, &THREAD_STARTS)
        }
        false => last.function == ENTRY || begins(last, &STARTS) || is_entry(),
    }
}

/// Whether it only passes the call on; Rust has a function for each kind of closure.
fn is_glue(frame: &Frame) -> bool {
    let is_closure = frame.function.contains("FnOnce") && frame.function.ends_with("::call_once");
    is_closure || begins(frame, &GLUE)
}

/// Whether a place stands for its name.
fn is_unnamed(frame: &Frame) -> bool {
    let module = frame.module.rsplit('/').next().unwrap_or_default();
    frame.function.strip_prefix(module).is_some_and(|rest| rest.starts_with("+0x"))
}

/// Whether its path begins like one of these; what a function of a template gives comes before that.
fn begins(frame: &Frame, names: &[&str]) -> bool {
    let name = frame.function.strip_prefix("void ").unwrap_or(&frame.function);
    names.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(calls: &[&str]) -> Vec<Frame> {
        let frame = |call: &&str| {
            let (module, function) = call.split_once('!').unwrap_or(("app", call));
            let function = match function.starts_with('+') {
                true => format!("{module}{function}"),
                false => function.to_owned(),
            };
            Frame { function, module: format!("/lib/{module}"), ..Frame::default() }
        };
        calls.iter().map(frame).collect()
    }

    fn told_of(calls: &[&str], cause: usize) -> Vec<String> {
        let frames = frames(calls);
        told(&frames, cause).iter().map(|&call| frames[call].function.clone()).collect()
    }

    #[test]
    fn what_calls_main_is_not_told_with_and_without_symbols() {
        let named =
            ["libc.so.6!malloc", "leak", "main", "libc.so.6!__libc_start_call_main", "_start"];
        assert_eq!(told_of(&named, 1), ["malloc", "leak", "main"]);
        let stripped = ["libc.so.6!malloc", "leak", "main", "libc.so.6!+0x2724a", "app!+0x1050"];
        assert_eq!(told_of(&stripped, 1), ["malloc", "leak", "main"]);
        let thread = ["libc.so.6!malloc", "work", "libc.so.6!start_thread", "libc.so.6!clone3"];
        assert_eq!(told_of(&thread, 1), ["malloc", "work"]);
        let musl =
            ["ld-musl-x86_64.so.1!malloc", "leak", "main", "libc_start_main_stage2", "_start"];
        assert_eq!(told_of(&musl, 1), ["malloc", "leak", "main"]);
    }

    #[test]
    fn what_rust_calls_a_program_a_thread_and_a_test_through_is_not_told() {
        let program = [
            "libc.so.6!malloc",
            "alloc::raw_vec::finish_grow",
            "app::leak",
            "app::main",
            "core::ops::function::FnOnce::call_once",
            "std::sys::backtrace::__rust_begin_short_backtrace",
            "std::rt::lang_start::{{closure}}",
            "std::rt::lang_start",
            "main",
            "libc.so.6!__libc_start_call_main",
        ];
        assert_eq!(told_of(&program, 2), ["malloc", "app::leak", "app::main"]);
        let test = [
            "libc.so.6!malloc",
            "app::tests::it_works",
            "app::tests::it_works::{{closure}}",
            "core::ops::function::FnOnce::call_once",
            "<fn() as core::ops::function::FnOnce<()>>::call_once",
            "test::__rust_begin_short_backtrace",
            "test::run_test_in_process",
            "libc.so.6!start_thread",
        ];
        assert_eq!(told_of(&test, 1), ["malloc", "app::tests::it_works", test[2]]);
    }

    #[test]
    fn what_cpp_calls_a_thread_and_a_test_through_is_not_told() {
        let thread = [
            "libc.so.6!malloc",
            "libstdc++.so.6!operator new(unsigned long)",
            "work()",
            "void std::__invoke_impl<void, void (*)()>(std::__invoke_other, void (*&&)())",
            "std::__invoke_result<void (*)()>::type std::__invoke<void (*)()>(void (*&&)())",
            "void std::thread::_Invoker<std::tuple<void (*)()> >::_M_invoke<0ul>()",
            "std::thread::_State_impl<std::thread::_Invoker<std::tuple<void (*)()> > >::_M_run()",
            "libstdc++.so.6!execute_native_thread_routine",
            "libc.so.6!start_thread",
        ];
        assert_eq!(told_of(&thread[..3], 2), ["malloc", "work()"]);
        let told = told_of(&thread, 2);
        assert_eq!(told[..2], ["malloc", "work()"]);
        let test = ["malloc", "T_one_Test::TestBody()", "testing::Test::Run()", "main"];
        assert_eq!(told_of(&test, 1), test[..2]);
    }

    #[test]
    fn what_the_program_itself_does_is_told() {
        let callback = ["libc.so.6!malloc", "compare", "libc.so.6!qsort_r", "sort", "main"];
        assert_eq!(told_of(&callback, 1), callback.map(|c| c.trim_start_matches("libc.so.6!")));
        let own = ["malloc", "clone", "clone_all"];
        assert_eq!(told_of(&own, 1), own);
        // All may be the runtime's: what caused it is told all the same.
        let all = ["libc.so.6!calloc", "libc.so.6!__libc_start_main", "_start"];
        assert_eq!(told_of(&all, 1), ["calloc", "__libc_start_main"]);
        assert!(told(&[], 0).is_empty());
    }
}
