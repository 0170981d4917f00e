//! Programs that a Debian server runs, each of which answers a line with a line: interpreters, shells,
//! databases, editors, calculators. With the servers beside them (`redis.rs`, `nginx.rs`,
//! `memcached.rs`, `rocks.rs`) they are what every change is tried on.

use std::{ffi::OsString, fs};

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// What it is called in messages.
    pub name: &'static str,
    /// Where Debian has it.
    pub package: &'static str,
    /// What is run,
    pub file: &'static str,
    /// with these words, of which one in braces stands for a file of `FILES`;
    pub words: &'static [&'static str],
    /// and what it is asked.
    pub question: &'static str,
}

/// Files that some of them read.
const FILES: [(&str, &str); 2] = [
    ("document.xml", "<a><b/><b><c/></b><b/></a>\n"),
    (
        "Answers.java",
        r#"import java.util.*;
public class Answers {
    public static void main(String[] words) {
        Scanner input = new Scanner(System.in);
        while (input.hasNextLine()) {
            input.nextLine();
            Map<String, byte[]> map = new HashMap<>();
            for (int i = 0; i < 2000; i++) map.put("k" + i, new byte[i % 97]);
            int sum = 0;
            for (byte[] value : map.values()) sum += value.length;
            java.util.zip.Deflater deflater = new java.util.zip.Deflater();
            deflater.end();
            System.out.println(sum);
            System.out.flush();
        }
    }
}
"#,
    ),
];

/// What a compiler in a program has made meanwhile: its memory begins where it did, and ends later.
fn is_code_that_grew(difference: &str) -> bool {
    let Some(text) = difference.strip_prefix("mapping ") else { return false };
    let Some((before, after)) = text.split_once(" became ") else { return false };
    let split = |mapping: &str| {
        let (range, rest) = mapping.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let end = u64::from_str_radix(end, 16).ok()?;
        Some((start.to_owned(), end, rest.to_owned()))
    };
    let (Some(before), Some(after)) = (split(before), split(after)) else { return false };
    let (start, end, rest) = before;
    rest == "rwxp 0 anonymous" && (start, rest) == (after.0, after.2) && end < after.1
}

/// What a compiler in a program has asked for meanwhile: room for code, written and run, of whole steps.
fn is_new_room_for_code(difference: &str) -> bool {
    const STEP: u64 = 64 << 10;
    let Some(text) = difference.strip_prefix("mapping ") else { return false };
    let Some(range) = text.strip_suffix(" rwxp 0 anonymous is new") else { return false };
    let ends = range.split_once('-').map(|(start, end)| [start, end]);
    let Some([Ok(start), Ok(end)]) = ends.map(|ends| ends.map(|end| u64::from_str_radix(end, 16)))
    else {
        return false;
    };
    end > start && (end - start).is_multiple_of(STEP)
}

impl Program {
    /// Whether a difference of its fingerprint is its own doing, with or without us.
    #[must_use]
    pub fn is_own_doing(&self, difference: &str) -> bool {
        // Its collector takes the right to write from pages of its image, and gives it back.
        (self.name == "sbcl" && difference.contains("sbcl.core"))
            || (self.name == "java" && is_code_that_grew(difference))
            // Its compiler begins with the code that has been run often enough.
            || (self.name == "guile"
                && (is_new_room_for_code(difference) || is_code_that_grew(difference)))
    }

    /// A word of its command, with the file that it stands for in place.
    ///
    /// # Panics
    /// If that file cannot be written.
    #[must_use]
    pub fn place(&self, word: &str) -> OsString {
        let name = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let Some((name, text)) = FILES.iter().find(|(file, _)| Some(*file) == name) else {
            return word.into();
        };
        let folder = crate::compile::profile_folder().join("programs");
        fs::create_dir_all(&folder).expect("a folder for the tests' files");
        let path = folder.join(name);
        fs::write(&path, text).expect("a file of the tests");
        path.into()
    }
}

/// All of them.
pub const PROGRAMS: &[Program] = &[
    Program {
        name: "python3",
        package: "python3",
        file: "python3",
        words: &[
            "-uc",
            r#"import sys
for l in sys.stdin: print(sum(len(str(i)*9) for i in range(2000)))"#,
        ],
        question: "x",
    },
    Program {
        name: "perl",
        package: "perl",
        file: "perl",
        words: &[
            "-e",
            r#"$|=1; while(<STDIN>){my %h; $h{$_ x 3}=$_ for 1..2000; print length(join '',sort keys %h),"\n"}"#,
        ],
        question: "x",
    },
    Program {
        name: "ruby",
        package: "ruby",
        file: "ruby",
        words: &[
            "-e",
            "$stdout.sync=true; while gets; h={}; 2000.times{|i| h[i.to_s*3]=[i]*3}; puts h.keys.sort.join.size; end",
        ],
        question: "x",
    },
    Program {
        name: "php",
        package: "php-cli",
        file: "php",
        words: &[
            "-r",
            r#"while(fgets(STDIN)!==false){$a=[];for($i=0;$i<2000;$i++)$a[]=str_repeat("x$i",3);sort($a);echo strlen(implode(',',$a)),"\n";}"#,
        ],
        question: "x",
    },
    Program {
        name: "node",
        package: "nodejs",
        file: "node",
        words: &[
            "-e",
            "require('readline').createInterface({input:process.stdin}).on('line',()=>{const m=new Map();for(let i=0;i<2000;i++)m.set('k'+i,Buffer.from('v'.repeat(i%97)));let n=0;for(const v of m.values())n+=v.length;console.log(n)})",
        ],
        question: "x",
    },
    Program {
        name: "lua5.4",
        package: "lua5.4",
        file: "lua5.4",
        words: &[
            "-e",
            "io.stdout:setvbuf('no') for l in io.lines() do local t={} for i=1,2000 do t[#t+1]=('x'..i):rep(3) end print(#table.concat(t)) end",
        ],
        question: "x",
    },
    Program {
        name: "tclsh",
        package: "tcl",
        file: "tclsh",
        words: &[],
        question: "set d {}; for {set i 0} {$i<500} {incr i} {dict set d k$i [string repeat x $i]}; puts [string length $d]; flush stdout",
    },
    Program {
        name: "gawk",
        package: "gawk",
        file: "gawk",
        words: &[
            r#"{split("",a);for(i=0;i<2000;i++)a[i]=i "x" i;n=0;for(k in a)n+=length(a[k]);print n;fflush()}"#,
        ],
        question: "x",
    },
    Program {
        name: "mawk",
        package: "mawk",
        file: "mawk",
        words: &[
            "-W",
            "interactive",
            r#"{split("",a);for(i=0;i<2000;i++)a[i]=i "x" i;n=0;for(k in a)n+=length(a[k]);print n;fflush()}"#,
        ],
        question: "x",
    },
    Program {
        name: "busybox",
        package: "busybox-static",
        file: "busybox",
        words: &[
            "awk",
            r#"{split("",a);for(i=0;i<2000;i++)a[i]=i "x" i;n=0;for(k in a)n+=length(a[k]);print n;fflush()}"#,
        ],
        question: "x",
    },
    Program {
        name: "sqlite3",
        package: "sqlite3",
        file: "sqlite3",
        words: &["-batch"],
        question: "with recursive c(x) as (select 1 union all select x+1 from c where x<2000) select count(distinct hex(x*x)), sum(length(hex(x))) from c;",
    },
    Program { name: "bc", package: "bc", file: "bc", words: &["-q"], question: "length(3^20000)" },
    Program { name: "dc", package: "dc", file: "dc", words: &[], question: "3 20000 ^ Z p" },
    Program {
        name: "jq",
        package: "jq",
        file: "jq",
        words: &["--unbuffered", "-c", "[range(2000)|{k:tostring,v:(.*2)}]|map(.v)|add"],
        question: "1",
    },
    Program {
        name: "sed",
        package: "sed",
        file: "sed",
        words: &["-u", r#"s/\(a*\)b*/\1\1/g"#],
        question: "aaaabbbbaab",
    },
    Program {
        name: "grep",
        package: "grep",
        file: "grep",
        words: &["--line-buffered", "-E", "(a+b*)+c"],
        question: "aaaabbbbaabc",
    },
    Program {
        name: "bash",
        package: "bash",
        file: "bash",
        words: &[
            "-c",
            r#"while read -r l; do a=(); for i in {1..500}; do a+=("x$i$l"); done; s="${a[*]}"; echo ${#s}; done"#,
        ],
        question: "y",
    },
    Program {
        name: "zsh",
        package: "zsh",
        file: "zsh",
        words: &[
            "-c",
            r#"while read -r l; do a=(); for i in {1..500}; do a+=("x$i$l"); done; s="${a[*]}"; echo ${#s}; done"#,
        ],
        question: "y",
    },
    Program {
        name: "dash",
        package: "dash",
        file: "dash",
        words: &[
            "-c",
            r#"while read -r l; do i=0; s=; while [ $i -lt 300 ]; do s="$s$i$l"; i=$((i+1)); done; echo ${#s}; done"#,
        ],
        question: "y",
    },
    Program {
        name: "ksh93",
        package: "ksh93u+m",
        file: "ksh93",
        words: &[
            "-c",
            r#"while read -r l; do s=; for i in {1..500}; do s+="x$i$l"; done; echo ${#s}; done"#,
        ],
        question: "y",
    },
    Program {
        name: "guile",
        package: "guile-3.0",
        file: "guile",
        words: &[
            "-q",
            "--no-auto-compile",
            "-c",
            "(use-modules (ice-9 rdelim)) (let loop ((l (read-line))) (if (not (eof-object? l)) (begin (display (string-length (apply string-append (map number->string (iota 2000))))) (newline) (force-output) (loop (read-line)))))",
        ],
        question: "x",
    },
    Program {
        name: "sbcl",
        package: "sbcl",
        file: "sbcl",
        words: &[
            "--noinform",
            "--disable-debugger",
            "--eval",
            r#"(loop for l = (read-line *standard-input* nil) while l do (print (length (format nil "~{~a~}" (loop for i below 500 collect i)))) (terpri) (finish-output))"#,
            "--quit",
        ],
        question: "x",
    },
    Program {
        name: "gnuplot",
        package: "gnuplot-nox",
        file: "gnuplot",
        words: &[],
        question: "set print '-'; s=''; do for [i=1:200] {s=s.i}; print strlen(s)",
    },
    Program {
        name: "emacs",
        package: "emacs-nox",
        file: "emacs",
        words: &[
            "-Q",
            "--batch",
            "--eval",
            r#"(condition-case nil (while t (read-from-minibuffer "") (send-string-to-terminal (format "%d\n" (length (mapconcat (function number-to-string) (number-sequence 1 2000) ""))))) (error nil))"#,
        ],
        question: "x",
    },
    Program {
        name: "xmllint",
        package: "libxml2-utils",
        file: "xmllint",
        words: &["--shell", "{document.xml}"],
        question: "xpath count(//b)",
    },
    Program {
        name: "hunspell",
        package: "hunspell hunspell-en-us",
        file: "hunspell",
        words: &["-a", "-d", "en_US"],
        question: "helo wrold",
    },
    Program {
        name: "aspell",
        package: "aspell aspell-en",
        file: "aspell",
        words: &["-a", "--lang=en"],
        question: "helo wrold",
    },
    Program {
        name: "swipl",
        package: "swi-prolog-nox",
        file: "swipl",
        words: &[
            "-q",
            "-g",
            "repeat,read_line_to_string(user_input,L),(L==end_of_file->halt;numlist(1,2000,Ns),atomic_list_concat(Ns,A),atom_length(A,N),writeln(N),flush_output,fail)",
        ],
        question: "x",
    },
    Program {
        name: "git",
        package: "git",
        file: "git",
        words: &["cat-file", "--batch-check"],
        question: "0000000000000000000000000000000000000000",
    },
    Program {
        name: "ed",
        package: "ed",
        file: "ed",
        words: &["-s"],
        question: r#"0a
xx
.
,n
1d"#,
    },
    Program {
        name: "units",
        package: "units",
        file: "units",
        words: &["-q", "-t"],
        question: r#"12 furlong/fortnight
m/s"#,
    },
    Program {
        name: "java",
        package: "default-jdk-headless",
        file: "java",
        words: &["-Xmx64m", "{Answers.java}"],
        question: "x",
    },
    Program {
        name: "file",
        package: "file",
        file: "file",
        words: &["-n", "-b", "-f", "-"],
        question: "/bin/sh",
    },
    Program {
        name: "c++filt",
        package: "binutils",
        file: "c++filt",
        words: &[],
        question: "_ZNSt6vectorIiSaIiEE9push_backEOi _ZNSt3mapISsSt4pairIiSsESt4lessISsEE4findERKSs",
    },
    Program {
        name: "gdb",
        package: "gdb",
        file: "gdb",
        words: &["-q", "-nx", "-nh"],
        question: "python print(sum(len(str(i)*9) for i in range(2000)))",
    },
    Program {
        name: "llvm-symbolizer",
        package: "llvm",
        file: "llvm-symbolizer",
        words: &[],
        question: "CODE /bin/sh 0x5000",
    },
];

#[cfg(test)]
mod tests {
    use super::{is_code_that_grew, is_new_room_for_code};

    #[test]
    fn only_code_that_goes_on_behind_its_end_has_grown() {
        let became = |after: &str| {
            is_code_that_grew(&format!("mapping 7000-8000 rwxp 0 anonymous became {after}"))
        };
        assert!(became("7000-9000 rwxp 0 anonymous"));
        assert!(!became("6000-9000 rwxp 0 anonymous"));
        assert!(!became("7000-7800 rwxp 0 anonymous"));
        assert!(!became("7000-9000 r-xp 0 anonymous"));
        assert!(!is_code_that_grew("mapping 7000-8000 rwxp 0 anonymous is new"));
    }

    #[test]
    fn only_large_room_that_is_written_and_run_is_room_for_code() {
        let is_room = |text: &str| is_new_room_for_code(&format!("mapping {text} is new"));
        assert!(is_room("7f0000000000-7f0000040000 rwxp 0 anonymous"));
        assert!(!is_room("7f0000000000-7f0000001000 rwxp 0 anonymous"));
        assert!(!is_room("7f0000000000-7f0000040000 r-xp 0 anonymous"));
        assert!(!is_room("7f0000000000 rwxp 0 anonymous"));
    }
}
