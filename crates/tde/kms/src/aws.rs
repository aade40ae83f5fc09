//! A key of AWS Key Management Service, by the official client.
//!
//! `awskms://KEY?region=R`; KEY is a key's id, `alias/NAME` or an ARN, which names its region. A
//! wrapped key is the service's own ciphertext, with the cluster's id in its encryption context.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region};
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_kms::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_kms::primitives::Blob;
use aws_sdk_kms::Client;
use zeroize::Zeroizing;

use crate::error::KmsError;
use crate::http::is_confidential;
use crate::uri::{decode, Uri, UriError};
use crate::{Provider, Secret};

const NAME: &str = "AWS KMS";
/// The name in the encryption context; policies name it, so it never changes.
const CONTEXT: &str = "pgseal:cluster";
/// The time within which everything must end, credentials and tries included.
const WITHIN: Duration = Duration::from_secs(25);
/// The time within which one try must end.
const ONE_TRY: Duration = Duration::from_secs(8);
const CONNECT: Duration = Duration::from_secs(5);
/// Tries of one request; the client pauses between them, with jitter.
const TRIES: u32 = 3;

/// A key of the service.
pub struct Key {
    id: String,
    region: String,
    endpoint: Option<String>,
    profile: Option<String>,
    cluster: String,
}

impl Key {
    /// Reads a URI; nothing is sent.
    pub fn new(mut uri: Uri, cluster: &str) -> Result<Self, KmsError> {
        let id = decode(&uri.body)?;
        if id.is_empty() {
            return Err(UriError::Missing("KEY", "write awskms://KEY?region=REGION").into());
        }
        let region = uri.take("region").or_else(|| region_of(&id));
        let absent = UriError::Missing("region", "only an ARN names a region itself");
        let endpoint = uri.take("endpoint");
        if !endpoint.as_deref().is_none_or(is_confidential) {
            return Err(UriError::Value("endpoint", "https://, or http:// of localhost").into());
        }
        let key = Self {
            region: region.ok_or(absent)?,
            endpoint,
            profile: uri.take("profile"),
            cluster: cluster.to_owned(),
            id,
        };
        uri.finish()?;
        Ok(key)
    }

    /// The service and its address, for messages.
    fn name(&self) -> String {
        match &self.endpoint {
            Some(endpoint) => format!("{NAME} at {endpoint}"),
            None => format!("{NAME} in {}", self.region),
        }
    }

    /// Runs a conversation with the service to its end, or to the limit of time.
    fn run<T>(&self, work: impl Future<Output = Result<T, KmsError>>) -> Result<T, KmsError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| self.unreachable(error))?;
        let bounded = async { tokio::time::timeout(WITHIN, work).await };
        let done = runtime.block_on(bounded);
        done.unwrap_or_else(|_| Err(self.unreachable("timeout")))
    }

    /// Makes a client whose credentials come from the environment, a profile, a web identity, a
    /// container or the instance, in this order.
    async fn client(&self) -> Client {
        let times = TimeoutConfig::builder()
            .connect_timeout(CONNECT)
            .operation_attempt_timeout(ONE_TRY)
            .operation_timeout(WITHIN);
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new(self.region.clone()))
            .timeout_config(times.build())
            .retry_config(RetryConfig::standard().with_max_attempts(TRIES));
        if let Some(endpoint) = &self.endpoint {
            loader = loader.endpoint_url(endpoint);
        }
        if let Some(profile) = &self.profile {
            loader = loader.profile_name(profile);
        }
        Client::new(&loader.load().await)
    }

    fn context(&self) -> HashMap<String, String> {
        HashMap::from([(CONTEXT.to_owned(), self.cluster.clone())])
    }

    /// Says in the service's own words why it does not do what it was asked.
    fn failed<E, R>(&self, what: &'static str, error: &SdkError<E, R>) -> KmsError
    where
        E: ProvideErrorMetadata + Error + 'static,
        R: Debug + 'static,
    {
        if let Some(code) = error.code() {
            let why = error.message().unwrap_or("it gives no message");
            return KmsError::Refused {
                service: self.name(),
                what,
                status: code.to_owned(),
                why: why.trim_end_matches('.').replace(char::is_control, " "),
            };
        }
        if matches!(
            error,
            SdkError::ServiceError(_) | SdkError::ResponseError(_)
        ) {
            return KmsError::Answer(self.name());
        }
        let causes: Vec<_> = causes(error).collect();
        let credentials = causes.iter().find_map(|cause| cause.downcast_ref());
        match credentials {
            Some(error) => no_credentials(error),
            None => self.no_connection(&causes),
        }
    }

    fn no_connection(&self, causes: &[&(dyn Error + 'static)]) -> KmsError {
        let words: Vec<_> = causes.iter().map(ToString::to_string).collect();
        let (service, root) = (self.name(), words.last().cloned().unwrap_or_default());
        match words.iter().find(|words| words.contains("certificate")) {
            Some(why) => KmsError::Untrusted {
                service,
                why: why.clone(),
            },
            None => KmsError::Unreachable { service, why: root },
        }
    }

    fn unreachable(&self, why: impl ToString) -> KmsError {
        KmsError::Unreachable {
            service: self.name(),
            why: why.to_string(),
        }
    }
}

impl Provider for Key {
    fn wrap(&self, payload: &[u8]) -> Result<Vec<u8>, KmsError> {
        self.run(async {
            let client = self.client().await;
            let request = client
                .encrypt()
                .key_id(&self.id)
                .plaintext(Blob::new(payload))
                .set_encryption_context(Some(self.context()));
            let answer = request.send().await;
            let answer = answer.map_err(|error| self.failed("encrypt", &error))?;
            let blob = answer.ciphertext_blob.map(Blob::into_inner);
            blob.ok_or_else(|| KmsError::Answer(self.name()))
        })
    }

    /// Names the key, although the ciphertext does: another key of the account is refused then.
    fn unwrap(&self, wrapped: &[u8]) -> Result<Secret, KmsError> {
        self.run(async {
            let client = self.client().await;
            let request = client
                .decrypt()
                .key_id(&self.id)
                .ciphertext_blob(Blob::new(wrapped))
                .set_encryption_context(Some(self.context()));
            let answer = request.send().await;
            let answer = answer.map_err(|error| self.failed("decrypt", &error))?;
            let blob = answer.plaintext.map(Blob::into_inner);
            let payload = blob.ok_or_else(|| KmsError::Answer(self.name()))?;
            Ok(Zeroizing::new(payload))
        })
    }

    /// Returns `false`: a symmetric key rotates inside the service, which keeps what it wrapped
    /// under every version readable and does not tell which version that was.
    fn is_older(&self, _: &[u8]) -> Result<bool, KmsError> {
        Ok(false)
    }
}

/// Returns an error and what caused it, the root last.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

fn no_credentials(error: &CredentialsError) -> KmsError {
    match error {
        CredentialsError::CredentialsNotLoaded(_) => KmsError::NoCredential(
            NAME,
            "give the server's user a role, a profile, or AWS_ACCESS_KEY_ID and its secret",
        ),
        _ => KmsError::Device {
            device: "the chain of AWS credentials".to_owned(),
            what: "give one",
            why: causes(error)
                .map(ToString::to_string)
                .last()
                .unwrap_or_default(),
        },
    }
}

/// Returns the region in an ARN: `arn:PARTITION:kms:REGION:ACCOUNT:...`.
fn region_of(id: &str) -> Option<String> {
    let mut parts = id.split(':');
    let is_arn = parts.next() == Some("arn") && parts.nth(1) == Some("kms");
    let region = parts.next().filter(|region| is_arn && !region.is_empty());
    region.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_of_arns() {
        for (id, region) in [
            ("arn:aws:kms:eu-west-1:1:key/a", Some("eu-west-1")),
            ("arn:aws-cn:kms:cn-north-1:1:alias/a", Some("cn-north-1")),
            ("arn:aws:s3:::bucket", None),
            ("alias/a", None),
        ] {
            assert_eq!(region_of(id).as_deref(), region, "{id}");
        }
    }

    #[test]
    fn settings() {
        let key = |text| Key::new(Uri::parse(text).expect("it has a scheme"), "00");
        let found = key("awskms://alias/db?region=r&profile=p").expect("it names a key");
        assert_eq!(
            (found.id.as_str(), found.region.as_str()),
            ("alias/db", "r")
        );
        let found = key("awskms://arn%3Aaws%3Akms%3Ar%3A1%3Akey%2Fa").expect("it names a key");
        assert_eq!(
            (found.id.as_str(), found.region.as_str()),
            ("arn:aws:kms:r:1:key/a", "r")
        );
        for (text, part) in [
            ("awskms://?region=r", "KEY"),
            ("awskms://alias/db", "region"),
            ("awskms://a?region=r&endpoint=http://a", "endpoint in"),
            ("awskms://a?region=r&x=1", "a setting x"),
        ] {
            let said = key(text).err().expect("it is refused").to_string();
            assert!(said.contains(part), "{said}");
        }
    }
}
