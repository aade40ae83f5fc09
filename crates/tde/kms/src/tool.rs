//! Runs a tool of the system: a secret goes to its standard input or comes from its standard
//! output, never through its arguments or a file.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use zeroize::Zeroizing;

use crate::error::KmsError;
use crate::Secret;

/// The most that a tool prints. The buffer never grows: copies of a key would stay behind.
const MAX_OUTPUT: u64 = 64 * 1024;

/// A tool, and the directory that it works in.
pub struct Tool<'a> {
    /// The device that it speaks for, in messages.
    pub device: &'static str,
    /// The package to install if it is missing.
    pub package: &'static str,
    /// Its current directory.
    pub directory: &'a Path,
}

/// Why a tool did not do what it was asked.
pub enum ToolError {
    /// It ran and failed: the lines that it wrote to standard error.
    Failed(Vec<String>),
    /// It did not run.
    Kms(KmsError),
}

impl Tool<'_> {
    /// Runs `program` with `args`, gives it `input`, and returns what it prints.
    pub fn run<S: AsRef<OsStr>>(
        &self,
        program: &str,
        args: &[S],
        input: &[u8],
    ) -> Result<Secret, ToolError> {
        let child = Command::new(program)
            .args(args)
            .current_dir(self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|error| ToolError::Kms(self.absent(program, &error)))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let stderr = child.stderr.take();
        // Each pipe has a thread, so that none of them fills while another one is waited for.
        let (output, complaints) = thread::scope(|scope| {
            scope.spawn(|| stdin.map(|mut pipe| pipe.write_all(input)));
            let complaints = scope.spawn(|| lines(stderr));
            (secret(stdout), complaints.join().unwrap_or_default())
        });
        let status = child
            .wait()
            .map_err(|error| ToolError::Kms(KmsError::Pipe(error)))?;
        match status.success() {
            true => output.map_err(|error| ToolError::Kms(KmsError::Pipe(error))),
            false => Err(ToolError::Failed(complaints)),
        }
    }

    fn absent(&self, program: &str, error: &io::Error) -> KmsError {
        let why = match error.kind() {
            io::ErrorKind::NotFound => {
                format!(
                    "{program} is not installed: install the package {}",
                    self.package
                )
            }
            _ => error.to_string(),
        };
        KmsError::Device {
            device: self.device.to_owned(),
            what: "be asked",
            why,
        }
    }
}

fn secret(pipe: Option<impl Read>) -> io::Result<Secret> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(64 * 1024));
    if let Some(pipe) = pipe {
        pipe.take(MAX_OUTPUT).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn lines(pipe: Option<impl Read>) -> Vec<String> {
    let mut text = Vec::new();
    if let Some(pipe) = pipe {
        // What was read before an error is all that there is to say.
        let _ = pipe.take(MAX_OUTPUT).read_to_end(&mut text);
    }
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::to_owned).collect()
}
