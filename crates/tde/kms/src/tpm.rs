//! A key that this machine's TPM 2.0 seals, by tpm2-tools.
//!
//! `tpm:?pcrs=7`. The payload is a sealed object below the owner's storage primary key, which the
//! TPM makes again for each request; a wrapped key is the object's public and private parts. Its
//! policy alone opens it: `PolicyPCR` over the values that the PCRs had, or with `policy-key`
//! `PolicyAuthorize`, for values that the holder of that key has signed.
//!
//! tpm2-tools and not a library of the TSS, because that would be needed wherever this program is
//! installed.

use std::path::{Path, PathBuf};

use crate::error::KmsError;
use crate::tool::{Tool, ToolError};
use crate::uri::{Uri, UriError};
use crate::{Provider, Secret};

const NAME: &str = "the TPM";
/// The state of Secure Boot: changed by new keys of the firmware, and not by each new kernel.
const DEFAULT_PCRS: &str = "7";
/// The first bytes of a wrapped key, before the length of the public part.
const MAGIC: &[u8] = b"pgsealtpm1";
/// No password opens the object: a policy is the only way.
const ATTRIBUTES: &str = "fixedtpm|fixedparent|adminwithpolicy|noda";
/// The words of tpm2-tools for `TPM_RC_POLICY_FAIL`.
const POLICY_FAILED: &str = "a policy check failed";

/// The files of tpm2-tools in the directory of one request. They are contexts and digests; no
/// secret is in them.
const PRIMARY: &str = "primary.ctx";
const OBJECT: &str = "object.ctx";
const PUBLIC: &str = "object.pub";
const PRIVATE: &str = "object.priv";
const POLICY: &str = "policy";
const CURRENT: &str = "current.policy";
const SIGNER: &str = "signer.ctx";
const SIGNER_NAME: &str = "signer.name";
const TICKET: &str = "ticket";
const SESSION: &str = "session.ctx";

/// The TPM, and what must hold before it gives a key.
pub struct Tpm {
    /// PCRs as tpm2-tools take them, such as `sha256:7`. None asks for this TPM alone.
    pcrs: Option<String>,
    /// The public key that signs values of PCRs, and the file of the signature.
    signed: Option<(PathBuf, PathBuf)>,
    /// The way to the TPM, if it is not the tools' own default.
    tcti: Option<String>,
}

impl Tpm {
    /// Reads a URI; nothing is asked.
    pub fn new(mut uri: Uri) -> Result<Self, KmsError> {
        if !uri.body.is_empty() {
            return Err(UriError::Value("what is after tpm:", "settings after a ?").into());
        }
        let bank = uri.take("bank").unwrap_or_else(|| "sha256".to_owned());
        if !matches!(bank.as_str(), "sha1" | "sha256" | "sha384" | "sha512") {
            return Err(UriError::Value("bank", "sha256, sha384, sha512 or sha1").into());
        }
        let numbers = uri.take("pcrs").unwrap_or_else(|| DEFAULT_PCRS.to_owned());
        let pcrs = match numbers.as_str() {
            "none" => None,
            _ if are_pcrs(&numbers) => Some(format!("{bank}:{numbers}")),
            _ => {
                return Err(
                    UriError::Value("pcrs", "numbers from 0 to 23 with commas, or none").into(),
                )
            }
        };
        let key = uri.take("policy-key").map(PathBuf::from);
        let signature = uri.take("policy-signature").map(PathBuf::from);
        let signed = match (key, signature, &pcrs) {
            (None, None, _) => None,
            (Some(key), Some(signature), Some(_)) => Some((key, signature)),
            (Some(_), Some(_), None) => {
                return Err(UriError::Missing("pcrs", "policy-key needs them").into())
            }
            (Some(_), None, _) => {
                return Err(UriError::Missing("policy-signature", "it goes with policy-key").into())
            }
            (None, Some(_), _) => {
                return Err(UriError::Missing("policy-key", "it goes with policy-signature").into())
            }
        };
        let tcti = uri.take("tcti");
        uri.finish()?;
        Ok(Self { pcrs, signed, tcti })
    }

    /// Begins a request: makes the primary key in a directory of its own.
    fn request(&self) -> Result<Request<'_>, KmsError> {
        let directory = tempfile::Builder::new().prefix("pgseal-kms.").tempdir();
        let directory = directory.map_err(|error| KmsError::File(std::env::temp_dir(), error))?;
        let request = Request {
            tpm: self,
            directory,
        };
        request.run(
            "make its primary key",
            "tpm2_createprimary",
            &["-C", "o", "-G", "ecc", "-c", PRIMARY],
        )?;
        Ok(request)
    }
}

impl Provider for Tpm {
    fn wrap(&self, payload: &[u8]) -> Result<Vec<u8>, KmsError> {
        let request = self.request()?;
        request.policy()?;
        let mut args = vec![
            "-C", PRIMARY, "-g", "sha256", "-u", PUBLIC, "-r", PRIVATE, "-i", "-",
        ];
        args.extend(["-a", ATTRIBUTES, "-L", POLICY]);
        request.with_input("seal", "tpm2_create", &args, payload)?;
        let (public, private) = (request.read(PUBLIC)?, request.read(PRIVATE)?);
        Ok(joined(&public, &private))
    }

    fn unwrap(&self, wrapped: &[u8]) -> Result<Secret, KmsError> {
        let (public, private) = divided(wrapped).ok_or(KmsError::Wrapped(NAME))?;
        let request = self.request()?;
        request.write(PUBLIC, public)?;
        request.write(PRIVATE, private)?;
        let load = ["-C", PRIMARY, "-u", PUBLIC, "-r", PRIVATE, "-c", OBJECT];
        request.run("load what it sealed", "tpm2_load", &load)?;
        request.session()?;
        let session = format!("session:{SESSION}");
        request.with_input(
            "unseal",
            "tpm2_unseal",
            &["-c", OBJECT, "-p", &session],
            &[],
        )
    }

    /// Returns `false`: a primary key stays as long as the TPM has its owner.
    fn is_older(&self, _: &[u8]) -> Result<bool, KmsError> {
        Ok(false)
    }
}

/// One request to the TPM.
struct Request<'a> {
    tpm: &'a Tpm,
    directory: tempfile::TempDir,
}

impl Request<'_> {
    /// Writes the policy that an object is sealed with.
    fn policy(&self) -> Result<(), KmsError> {
        self.run("begin a session", "tpm2_startauthsession", &["-S", SESSION])?;
        match &self.tpm.signed {
            None => self.check_pcrs(POLICY),
            Some((key, _)) => {
                self.load_signer(key)?;
                let args = ["-S", SESSION, "-L", POLICY, "-n", SIGNER_NAME];
                self.run("make a policy", "tpm2_policyauthorize", &args)
            }
        }
    }

    /// Begins the session that an object is opened in, and shows the TPM what its policy asks for.
    fn session(&self) -> Result<(), KmsError> {
        let start = ["--policy-session", "-S", SESSION];
        self.run("begin a session", "tpm2_startauthsession", &start)?;
        self.check_pcrs(CURRENT)?;
        let Some((key, signature)) = &self.tpm.signed else {
            return Ok(());
        };
        self.load_signer(key)?;
        self.verify(signature)?;
        let args = [
            "-S",
            SESSION,
            "-i",
            CURRENT,
            "-n",
            SIGNER_NAME,
            "-t",
            TICKET,
        ];
        self.run("take the signed policy", "tpm2_policyauthorize", &args)
    }

    /// Adds the values of the PCRs to the session, and writes its policy to `file`.
    fn check_pcrs(&self, file: &str) -> Result<(), KmsError> {
        match &self.tpm.pcrs {
            Some(pcrs) => self.run(
                "read PCRs",
                "tpm2_policypcr",
                &["-S", SESSION, "-l", pcrs, "-L", file],
            ),
            // A policy that holds always: it asks for the command by which objects are opened.
            None => self.run(
                "make a policy",
                "tpm2_policycommandcode",
                &["-S", SESSION, "-L", file, "TPM2_CC_Unseal"],
            ),
        }
    }

    fn load_signer(&self, key: &Path) -> Result<(), KmsError> {
        let pem = std::fs::read(key).map_err(|error| KmsError::File(key.to_owned(), error))?;
        self.write("signer.pem", &pem)?;
        let args = [
            "-G",
            "rsa",
            "-C",
            "o",
            "-u",
            "signer.pem",
            "-c",
            SIGNER,
            "-n",
            SIGNER_NAME,
        ];
        self.run("load the policy's public key", "tpm2_loadexternal", &args)
    }

    /// Has the TPM verify the signature of the policy of the PCRs' present values.
    fn verify(&self, signature: &Path) -> Result<(), KmsError> {
        let bytes = std::fs::read(signature);
        let bytes = bytes.map_err(|error| KmsError::File(signature.to_owned(), error))?;
        self.write("signature", &bytes)?;
        let args = [
            "-c",
            SIGNER,
            "-g",
            "sha256",
            "-m",
            CURRENT,
            "-s",
            "signature",
            "-f",
            "rsassa",
            "-t",
            TICKET,
        ];
        match self.tool("tpm2_verifysignature", &args, &[]) {
            Ok(_) => Ok(()),
            Err(ToolError::Failed(_)) => Err(KmsError::PcrsNotSigned(signature.to_owned())),
            Err(ToolError::Kms(error)) => Err(error),
        }
    }

    fn run(&self, what: &'static str, program: &str, args: &[&str]) -> Result<(), KmsError> {
        self.with_input(what, program, args, &[]).map(|_| ())
    }

    fn with_input(
        &self,
        what: &'static str,
        program: &str,
        args: &[&str],
        input: &[u8],
    ) -> Result<Secret, KmsError> {
        match self.tool(program, args, input) {
            Ok(output) => Ok(output),
            Err(ToolError::Failed(lines)) => Err(failed(what, &lines)),
            Err(ToolError::Kms(error)) => Err(error),
        }
    }

    /// Runs one of the tools. A TPM without a resource manager has room for three objects, so what
    /// a tool left there is flushed; a resource manager flushes it with the connection.
    fn tool(&self, program: &str, args: &[&str], input: &[u8]) -> Result<Secret, ToolError> {
        let tool = Tool {
            device: NAME,
            package: "tpm2-tools",
            directory: self.directory.path(),
        };
        let tcti = self.tpm.tcti.as_deref();
        let args: Vec<&str> = tcti
            .iter()
            .flat_map(|tcti| ["-T", tcti])
            .chain(args.iter().copied())
            .collect();
        let done = tool.run(program, &args, input);
        let flush: Vec<&str> = tcti
            .iter()
            .flat_map(|tcti| ["-T", tcti])
            .chain(["-t"])
            .collect();
        // It fails where nothing is left.
        let _ = tool.run("tpm2_flushcontext", &flush, &[]);
        done
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, KmsError> {
        let path = self.directory.path().join(name);
        std::fs::read(&path).map_err(|error| KmsError::File(path, error))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), KmsError> {
        let path = self.directory.path().join(name);
        std::fs::write(&path, bytes).map_err(|error| KmsError::File(path, error))
    }
}

impl Drop for Request<'_> {
    /// Ends the session, however the request ended: a TPM has room for few, and keeps those that
    /// nobody ends until it is reset.
    fn drop(&mut self) {
        if self.directory.path().join(SESSION).exists() {
            let _ = self.tool("tpm2_flushcontext", &[SESSION], &[]);
        }
    }
}

/// Says in the tools' own words why the TPM does not do what it was asked.
fn failed(what: &'static str, lines: &[String]) -> KmsError {
    if lines.iter().any(|line| line.contains(POLICY_FAILED)) {
        return KmsError::PcrsChanged;
    }
    // The last line says which tool failed, and the one before it why.
    let mut errors = lines.iter().filter_map(|line| line.strip_prefix("ERROR: "));
    let why = errors.rfind(|line| !line.starts_with("Unable to run"));
    KmsError::Device {
        device: NAME.to_owned(),
        what,
        why: KmsError::words(why),
    }
}

/// Whether `text` is numbers of PCRs with commas between them.
fn are_pcrs(text: &str) -> bool {
    text.split(',')
        .all(|number| number.parse().is_ok_and(|number: u8| number < 24))
}

/// Joins the parts of an object: the magic, the length of the public part (2 bytes, big-endian),
/// both parts.
fn joined(public: &[u8], private: &[u8]) -> Vec<u8> {
    let length = u16::try_from(public.len()).expect("a public part is at most a TPM's buffer");
    [MAGIC, &length.to_be_bytes(), public, private].concat()
}

fn divided(wrapped: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = wrapped.strip_prefix(MAGIC)?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_keys() {
        assert_eq!(
            divided(&joined(b"public", b"private")),
            Some((&b"public"[..], &b"private"[..]))
        );
        for wrapped in [
            &b""[..],
            b"vault:v1:a",
            b"pgsealtpm1\x00",
            b"pgsealtpm1\x00\x09public",
        ] {
            assert_eq!(divided(wrapped), None);
        }
    }

    #[test]
    fn settings() {
        let error = |text: &str| {
            let uri = Uri::parse(text).expect("it has a scheme");
            Tpm::new(uri).err().map(|error| error.to_string())
        };
        for text in [
            "tpm:",
            "tpm:?pcrs=0,7,23&bank=sha384",
            "tpm:?pcrs=none&tcti=device:/dev/tpmrm0",
            "tpm:?policy-key=/k&policy-signature=/s",
        ] {
            assert_eq!(error(text), None, "{text}");
        }
        for (text, part) in [
            ("tpm:/dev/tpm0", "what is after tpm:"),
            ("tpm:?pcrs=24", "pcrs in"),
            ("tpm:?pcrs=7+8", "pcrs in"),
            ("tpm:?bank=md5", "bank in"),
            ("tpm:?policy-key=/k", "policy-signature"),
            ("tpm:?policy-signature=/s", "policy-key"),
            ("tpm:?policy-key=/k&policy-signature=/s&pcrs=none", "pcrs"),
            ("tpm:?x=1", "a setting x"),
        ] {
            let said = error(text).expect("it is refused");
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn the_words_of_the_tools() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let said = failed("unseal", &lines("ERROR:esys:x.c:98:Esys_Unseal() (0x0000012f) \nERROR: Esys_Unseal(0x12F) - tpm:error(2.0): no\nERROR: Unable to run tpm2_unseal"));
        assert_eq!(
            said.to_string(),
            "the TPM cannot unseal: Esys_Unseal(0x12F) - tpm:error(2.0): no"
        );
        let said = failed(
            "unseal",
            &lines("ERROR: Esys_Unseal(0x99D) - tpm:session(1):a policy check failed"),
        );
        assert!(matches!(said, KmsError::PcrsChanged));
    }
}
