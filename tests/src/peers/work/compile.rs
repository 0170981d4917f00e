//! gcc's compiler proper, on a file of many functions.

use std::{
    io::Write,
    process::{Child, Command, Stdio},
    time::Instant,
};

use super::{Subject, Turn, Work};
use crate::peers::{clock::processor_time_at_end, dress::Dress, kit};

/// Functions of the file that is compiled.
const FUNCTIONS: u64 = 120;

/// A compiler that reads from a pipe: it can be attached to before it has anything to do.
#[derive(Debug)]
pub(in super::super) struct Compile;

struct Compiler {
    command: Command,
    child: Option<Child>,
}

impl Work for Compile {
    fn name(&self) -> String {
        "gcc: a compile".to_owned()
    }

    fn operations(&self) -> u64 {
        FUNCTIONS
    }

    fn ends_each_time(&self) -> bool {
        true
    }

    fn start(&self, dress: &Dress) -> Result<Box<dyn Subject>, String> {
        let program = kit::run(Command::new("gcc").arg("-print-prog-name=cc1"))?;
        let mut command = dress.command(program.trim().as_ref());
        command.args(["-quiet", "-O2", "-o", "/dev/null", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Box::new(Compiler { command, child: None }))
    }
}

impl Subject for Compiler {
    fn pid(&mut self) -> Result<i32, String> {
        if self.child.is_none() {
            self.child = Some(self.command.spawn().map_err(|error| format!("cc1: {error}"))?);
        }
        Ok(self.child.as_ref().map_or(0, |child| child.id().cast_signed()))
    }

    fn work(&mut self, operations: u64) -> Result<Turn, String> {
        let pid = self.pid()?;
        let began = Instant::now();
        let pipe = self.child.as_mut().and_then(|child| child.stdin.take()).ok_or("no pipe")?;
        write_functions(pipe, operations).map_err(|error| error.to_string())?;
        let time = processor_time_at_end(pid)?;
        let seconds = began.elapsed().as_secs_f64();
        let status = self.child.take().map(|mut child| child.wait());
        match status {
            Some(Ok(status)) if status.success() => (),
            other => return Err(format!("cc1 ended so: {other:?}")),
        }
        #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
        let number = operations as f64;
        let rate = Some(number / seconds);
        Ok(Turn { cpu_ns: time.as_secs_f64() * 1e9 / number, rate, ..Turn::default() })
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The end of the pipe is the end of the file.
fn write_functions(mut pipe: impl Write, number: u64) -> std::io::Result<()> {
    let text: String = (0..number)
        .map(|n| {
            format!(
                "struct s{n} {{ int a[{size}]; double d; struct s{n} *next; }};\n\
                 int f{n}(struct s{n} *s, int k) {{\n  int sum = {n};\n\
                 \x20 for (int i = 0; i < {size}; i++) {{\n\
                 \x20   switch ((s->a[i] + k) % 7) {{\n\
                 \x20   case 0: sum += s->a[i] * {n}; break;\n\
                 \x20   case 1: sum ^= (int)(s->d * i); break;\n\
                 \x20   case 2: if (s->next) sum -= s->next->a[i]; break;\n\
                 \x20   case 5: s->d += sum / (i + 1.5); break;\n\
                 \x20   default: s->a[i] = sum + k; break;\n    }}\n  }}\n  return sum;\n}}\n",
                size = 3 + n % 29
            )
        })
        .collect();
    pipe.write_all(text.as_bytes())
}
