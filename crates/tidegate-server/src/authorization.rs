//! Authorization of callers: tokens and certificates, and the operations that each permits.
//!
//! A token is known by its SHA-256 only, whether the policy has the token or the hash: the hashes
//! in memory or in a file are of no use to their reader. A token is random and long, so no slower
//! hash is needed. An empty token authenticates no caller, even if the policy has its hash. A
//! caller with several grants has the permissions of all of them.

use core::fmt;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName};
use ring::digest::{SHA256, digest};
use smallvec::SmallVec;
use tidegate_core::Class;
use tidegate_core::hex;
use tidegate_policy::policy::authorization::{Credential, Grant, Namespaces, Verb};
use tidegate_wire::text::shortened;
use tidegate_wire::{Fault, FaultCode};

use tidegate_net::file_backed::{FileBacked, Refresh, Source};

/// The header of a token that wins over `Authorization`, which gateways pass on from their own
/// clients.
pub(crate) const TOKEN: HeaderName = HeaderName::from_static("tidegate-token");

/// How much of a namespace is quoted in bytes.
const SHOWN_BYTES_MAX: usize = 128;

const HASH: &str = "sha256:";

/// The SHA-256 of a token.
type Hash = [u8; 32];

/// The grants of a caller, by their indexes in the policy.
type GrantIndexes = SmallVec<[u16; 2]>;

/// An error in grants or in their files of tokens.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorizationError {
    /// A file with tokens cannot be read.
    #[error("the tokens in {} cannot be read; see whether it is there and readable for this user", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A line of a file with tokens holds no token. The message does not show the line.
    #[error(
        "line {line} of {} is no token; write {} to {} printable characters without spaces, or sha256: and 64 hexadecimal digits",
        path.display(), Grant::TOKEN_BYTES_MIN, Grant::TOKEN_BYTES_MAX
    )]
    Token {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
    },
    /// A line of a file with tokens is the hash of no token.
    #[error(
        "line {line} of {} is the SHA-256 of nothing or of an empty line, so anybody would have the token; run `tidegate token` \
         and write the hash that it prints", path.display()
    )]
    HashOfNothing {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
    },
    /// A file without a token.
    #[error("{} holds no token; write one in each line", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// The grants of a policy, found by token and by certificate.
#[derive(Clone)]
pub struct Authorization(Arc<GrantTable>);

struct GrantTable {
    grants: Vec<Grant>,
    tokens: HashMap<Hash, GrantIndexes>,
    files: FileBacked<TokenFiles>,
    certificates: HashMap<String, GrantIndexes>,
}

impl Authorization {
    /// Indexes `grants`. Reads the files with tokens.
    pub(crate) fn new(grants: &[Grant]) -> Result<Self, AuthorizationError> {
        let (mut tokens, mut certificates) =
            (HashMap::<Hash, GrantIndexes>::new(), HashMap::<String, GrantIndexes>::new());
        let mut files = Vec::new();
        for (place, grant) in grants.iter().enumerate() {
            let place = place as u16;
            match &grant.credential {
                Credential::Token(secret) => {
                    // The policy was checked: each text is a token or a hash.
                    if let Some(hash) = hash_of(secret.reveal().as_bytes()) {
                        tokens.entry(hash).or_default().push(place);
                    }
                }
                Credential::TokenFile(path) => files.push((PathBuf::from(path), place)),
                Credential::Certificate(name) => {
                    certificates.entry(name.clone()).or_default().push(place);
                }
                _ => {}
            }
        }
        let files = FileBacked::open(TokenFiles(files))?;
        Ok(Self(Arc::new(GrantTable { grants: grants.to_vec(), tokens, files, certificates })))
    }

    /// The files of tokens to reload when they change, if there are any.
    pub(crate) fn watched(&self) -> Option<Arc<dyn Refresh>> {
        let has_files = !self.0.files.source().0.is_empty();
        has_files.then(|| Arc::new(TokenFilesRefresh(self.clone())) as Arc<dyn Refresh>)
    }

    /// The caller that presents this token, and a certificate with these names. Returns an error
    /// for an unknown token, and for a request without credentials.
    pub(crate) fn caller(
        &self,
        names: &[String],
        token: Option<&[u8]>,
    ) -> Result<Caller, AuthenticationError> {
        let token = token.map(|token| shown_hash(token).ok_or(AuthenticationError::Token)).transpose()?;
        self.caller_of(names, token)
    }

    /// As [`Authorization::caller`], by the hash of the token.
    fn caller_of(&self, names: &[String], token: Option<Hash>) -> Result<Caller, AuthenticationError> {
        let granted = &*self.0;
        let mut places = GrantIndexes::new();
        for name in names {
            places.extend(granted.certificates.get(name).into_iter().flatten().copied());
        }
        if let Some(hash) = token {
            let before = places.len();
            places.extend(granted.tokens.get(&hash).into_iter().flatten().copied());
            places.extend(granted.files.get().get(&hash).into_iter().flatten().copied());
            if places.len() == before {
                return Err(AuthenticationError::Token);
            }
        }
        if places.is_empty() {
            return Err(if names.is_empty() {
                AuthenticationError::Nothing
            } else {
                AuthenticationError::Certificate
            });
        }
        Ok(Caller(Some((self.clone(), places))))
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization").field("grants", &self.0.grants.len()).finish_non_exhaustive()
    }
}

/// [`FileBacked::look`] of the files of an authorization.
struct TokenFilesRefresh(Authorization);

impl Refresh for TokenFilesRefresh {
    fn look(&self) {
        self.0.0.files.look();
    }
}

/// A failed authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthenticationError {
    /// The request has no credentials.
    Nothing,
    /// The token is unknown.
    Token,
    /// The certificate has no grant.
    Certificate,
}

impl AuthenticationError {
    /// The fault for the sender, without the credentials.
    pub(crate) fn fault(self) -> Fault {
        let (detail, fix) = match self {
            Self::Nothing => (
                "authentication required: the request has no credentials",
                "send `Authorization: Bearer TOKEN`, or `Tidegate-Token: TOKEN` from a gateway, or a client certificate",
            ),
            Self::Token => ("the token is not one of the policy's", "see `authorization` of the policy"),
            Self::Certificate => (
                "no grant is for a name in the client certificate",
                "see `authorization` of the policy for `certificate`, or send a token",
            ),
        };
        Fault::new(FaultCode::Unauthenticated, detail).fix(fix)
    }
}

/// The credentials of a connection, presented once for all requests that follow. The caller behind
/// them is looked up again after every reload.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    /// The names in the client's certificate.
    names: Arc<[String]>,
    token: Option<Token>,
}

/// A token, kept as its hash only.
struct Token(Hash);

tidegate_core::debug_fields!(Token {});

impl Credentials {
    pub(crate) fn new(names: &Arc<[String]>) -> Self {
        Self { names: Arc::clone(names), token: None }
    }

    /// The credentials of a request with these headers, for all that follows on its stream.
    pub(crate) fn from_headers(names: &Arc<[String]>, headers: &HeaderMap) -> Self {
        // A token that cannot be one has the hash of none.
        let token = token_in(headers).map(|token| Token(shown_hash(token).unwrap_or_default()));
        Self { names: Arc::clone(names), token }
    }

    /// The caller with these credentials under the policy in force.
    pub(crate) fn caller(
        &self,
        authorization: Option<&Authorization>,
    ) -> Result<Caller, AuthenticationError> {
        let Some(authorization) = authorization else { return Ok(Caller::ANYONE) };
        authorization.caller_of(&self.names, self.token.as_ref().map(|token| token.0))
    }

    /// Replaces the token. An unknown token is an error and changes nothing.
    pub(crate) fn take(
        &mut self,
        token: &[u8],
        authorization: &Authorization,
    ) -> Result<Caller, AuthenticationError> {
        let hash = shown_hash(token).ok_or(AuthenticationError::Token)?;
        let caller = authorization.caller_of(&self.names, Some(hash))?;
        self.token = Some(Token(hash));
        Ok(caller)
    }

    /// Forgets the token.
    pub(crate) fn forget(&mut self) {
        self.token = None;
    }
}

/// The caller of a request, with its grants.
#[derive(Clone, Debug)]
pub(crate) struct Caller(Option<(Authorization, GrantIndexes)>);

impl Caller {
    /// Any caller of a daemon without authorization. Such a caller may do everything.
    pub(crate) const ANYONE: Self = Self(None);

    /// The caller that sends these headers over a connection whose certificate has these names.
    pub(crate) fn from_headers(
        authorization: Option<&Authorization>,
        names: &[String],
        headers: &HeaderMap,
    ) -> Result<Self, Fault> {
        let Some(authorization) = authorization else { return Ok(Self::ANYONE) };
        authorization.caller(names, token_in(headers)).map_err(AuthenticationError::fault)
    }

    /// The name of the grant that permits `verb` in `namespace`, for the log; `None` without
    /// authorization.
    pub(crate) fn grant(&self, verb: Verb, namespace: &str) -> Option<&str> {
        self.grants().find(|grant| permits(grant, verb, namespace)).map(|grant| grant.name.as_str())
    }

    /// As [`Caller::grant`], in all namespaces.
    pub(crate) fn grant_everywhere(&self, verb: Verb) -> Option<&str> {
        self.grants().find(|grant| permits_everywhere(grant, verb)).map(|grant| grant.name.as_str())
    }

    /// The highest class that its requests may claim in `namespace`: the highest of the grants that
    /// permit a check there.
    pub(crate) fn ceiling(&self, namespace: &str) -> Class {
        let permitted = self.grants().filter(|grant| permits(grant, Verb::Check, namespace));
        permitted.map(|grant| grant.ceiling).max().unwrap_or(Class::CriticalPlus)
    }

    /// Checks that the caller may do `verb` in `namespace`.
    pub(crate) fn may(&self, verb: Verb, namespace: &str) -> Result<(), Fault> {
        self.find(|grant| permits(grant, verb, namespace)).map_err(|names| {
            let shown = shortened(namespace, SHOWN_BYTES_MAX);
            let detail = format_args!("{names} may not {} in namespace \"{shown}\"", verb.as_str());
            Fault::new(FaultCode::Forbidden, detail).fix("see `authorization` of the policy")
        })
    }

    /// As [`Caller::may`], with the name of the grant that permits it, as [`Caller::grant`] has it.
    pub(crate) fn permitted(&self, verb: Verb, namespace: &str) -> Result<Option<&str>, Fault> {
        self.may(verb, namespace).map(|()| self.grant(verb, namespace))
    }

    /// Checks that the caller may do `verb` in some namespace, for operations that do not name one.
    pub(crate) fn may_somewhere(&self, verb: Verb) -> Result<(), Fault> {
        self.find(|grant| grant.verbs.has(verb)).map_err(|names| {
            let detail = format_args!("{names} may not {}", verb.as_str());
            Fault::new(FaultCode::Forbidden, detail).fix("see `authorization` of the policy")
        })
    }

    /// Checks that the caller may do `verb` in every namespace, for operations that concern all of
    /// them.
    pub(crate) fn may_everywhere(&self, verb: Verb) -> Result<(), Fault> {
        self.find(|grant| permits_everywhere(grant, verb)).map_err(|names| {
            let detail = format_args!("{names} may not {} in all namespaces", verb.as_str());
            Fault::new(FaultCode::Forbidden, detail).fix("see `authorization` of the policy")
        })
    }

    /// Whether one of the grants satisfies the predicate; otherwise the name of the caller for a
    /// message.
    fn find(&self, is_so: impl Fn(&Grant) -> bool) -> Result<(), String> {
        if self.0.is_none() || self.grants().any(is_so) {
            return Ok(());
        }
        let names: Vec<&str> = self.grants().map(|grant| grant.name.as_str()).collect();
        Err(names.join(", "))
    }

    /// The grants of a caller that is authenticated.
    fn grants(&self) -> impl Iterator<Item = &Grant> {
        self.0.iter().flat_map(|(authorization, places)| {
            places.iter().filter_map(|place| authorization.0.grants.get(usize::from(*place)))
        })
    }
}

fn permits_everywhere(grant: &Grant, verb: Verb) -> bool {
    grant.verbs.has(verb) && grant.namespaces == Namespaces::All
}

fn permits(grant: &Grant, verb: Verb, namespace: &str) -> bool {
    grant.verbs.has(verb)
        && match &grant.namespaces {
            Namespaces::All => true,
            Namespaces::Some(names) => names.iter().any(|name| name == namespace),
        }
}

/// The token in the headers of a request, if there is one.
pub(crate) fn token_in(headers: &HeaderMap) -> Option<&[u8]> {
    if let Some(token) = headers.get(TOKEN) {
        return Some(token.as_bytes());
    }
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

fn hash(token: &[u8]) -> Hash {
    let mut hash = Hash::default();
    hash.copy_from_slice(digest(&SHA256, token).as_ref());
    hash
}

/// The hash of a presented token. Returns `None` for an empty or too long token, which is then
/// unknown even if a policy has its hash. A token shorter than [`Grant::TOKEN_BYTES_MIN`] is
/// accepted: the policy may have been given its hash only, which does not show the length.
fn shown_hash(token: &[u8]) -> Option<Hash> {
    (1..=Grant::TOKEN_BYTES_MAX).contains(&token.len()).then(|| hash(token))
}

/// The hash of a token in a policy or a file: either the token itself, or `sha256:` and its hash.
fn hash_of(text: &[u8]) -> Option<Hash> {
    if let Some(digits) = text.strip_prefix(HASH.as_bytes()) {
        return hex::decode(digits)?.try_into().ok();
    }
    let is_token = (Grant::TOKEN_BYTES_MIN..=Grant::TOKEN_BYTES_MAX).contains(&text.len())
        && text.iter().all(u8::is_ascii_graphic);
    is_token.then(|| hash(text))
}

/// A new token and its hash as it may stand in a policy: 32 random bytes.
pub fn new_token() -> (String, String) {
    use base64::Engine as _;
    let mut random = [0; 32];
    getrandom::fill(&mut random).expect("the operating system gives random numbers");
    let token = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(random);
    let hash = format!("{HASH}{}", hex::encode(&hash(token.as_bytes())));
    (token, hash)
}

/// Files with tokens, each with the place of its grant.
#[derive(Debug)]
struct TokenFiles(Vec<(PathBuf, u16)>);

impl Source for TokenFiles {
    type Made = Arc<HashMap<Hash, GrantIndexes>>;
    type Error = AuthorizationError;

    const WHAT: &'static str = "tokens";

    fn paths(&self) -> Vec<&Path> {
        self.0.iter().map(|(path, _)| path.as_path()).collect()
    }

    fn unreadable(path: &Path, source: io::Error) -> AuthorizationError {
        AuthorizationError::Unreadable { path: path.to_owned(), source }
    }

    fn make(&self, texts: &[Vec<u8>]) -> Result<Self::Made, AuthorizationError> {
        let mut tokens = HashMap::<Hash, GrantIndexes>::new();
        for ((path, place), text) in self.0.iter().zip(texts) {
            let mut is_empty = true;
            for (line, text) in text.split(|byte| *byte == b'\n').enumerate() {
                let text = text.trim_ascii();
                if text.is_empty() || text.starts_with(b"#") {
                    continue;
                }
                let line = line + 1;
                if str::from_utf8(text).is_ok_and(Grant::is_hash_of_nothing) {
                    return Err(AuthorizationError::HashOfNothing { path: path.clone(), line });
                }
                let wrong = || AuthorizationError::Token { path: path.clone(), line };
                tokens.entry(hash_of(text).ok_or_else(wrong)?).or_default().push(*place);
                is_empty = false;
            }
            if is_empty {
                return Err(AuthorizationError::Empty { path: path.clone() });
            }
        }
        Ok(Arc::new(tokens))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tidegate_test_support::TemporaryFile;

    use super::*;

    const ADA: &[u8] = b"ada-has-a-long-token";

    fn grants(text: &str) -> Vec<Grant> {
        let text = format!("authorization:\n{text}");
        tidegate_policy::parse("t.yaml", &text, &|_| None).unwrap().policy.authorization
    }

    fn authorization(text: &str) -> Authorization {
        Authorization::new(&grants(text)).unwrap()
    }

    #[test]
    fn a_grant_permits_its_verbs_in_its_namespaces_and_nothing_else() {
        let authorization = authorization(
            "  - { name: ada, token: ada-has-a-long-token, namespaces: [api], verbs: [check, reset] }\n",
        );
        let ada = authorization.caller(&[], Some(ADA)).unwrap();
        assert!(ada.may(Verb::Check, "api").is_ok() && ada.may(Verb::Reset, "api").is_ok());
        let fault = ada.may(Verb::Check, "other").unwrap_err();
        assert_eq!(fault.code, FaultCode::Forbidden);
        assert_eq!(fault.detail, "ada may not check in namespace \"other\"");
        assert!(ada.may(Verb::Report, "api").is_err() && ada.may(Verb::Check, "").is_err());
        assert!(ada.may_somewhere(Verb::Check).is_ok() && ada.may_somewhere(Verb::Change).is_err());
        assert!(ada.may_everywhere(Verb::Check).is_err());
        for (token, unknown) in [
            (Some(&b"ada-has-a-long-toker"[..]), AuthenticationError::Token),
            (Some(b""), AuthenticationError::Token),
            (None, AuthenticationError::Nothing),
        ] {
            assert_eq!(authorization.caller(&[], token).unwrap_err(), unknown);
        }
        assert!(Caller::ANYONE.may(Verb::Change, "any").is_ok());
    }

    #[test]
    fn who_has_several_grants_may_do_what_any_permits() {
        let authorization = authorization(
            "  - { token: ada-has-a-long-token, namespaces: [api] }
  - { token: ada-has-a-long-token, namespaces: [web], verbs: [report] }
  - { certificate: spiffe://prod/ada, namespaces: ['*'], verbs: [inspect] }
",
        );
        let names = ["spiffe://prod/ada".to_owned(), "ada.internal".to_owned()];
        let ada = authorization.caller(&names, Some(ADA)).unwrap();
        assert!(ada.may(Verb::Check, "api").is_ok() && ada.may(Verb::Report, "web").is_ok());
        assert!(ada.may(Verb::Check, "web").is_err(), "a verb of one grant is not one of another");
        assert!(ada.may_everywhere(Verb::Inspect).is_ok());
        let by_certificate = authorization.caller(&names, None).unwrap();
        assert!(by_certificate.may(Verb::Check, "api").is_err());
        let unknown = authorization.caller(&names[1..], None).unwrap_err();
        assert_eq!(unknown, AuthenticationError::Certificate);
        // A valid certificate does not outweigh an unknown token: the caller meant to use that
        // token.
        assert_eq!(
            authorization.caller(&names, Some(b"no token at all")).unwrap_err(),
            AuthenticationError::Token
        );
    }

    #[test]
    fn a_file_may_hold_several_tokens_or_their_hashes_and_is_taken_up_when_it_changes() {
        let (token, hash) = new_token();
        let file = TemporaryFile::new(&format!("# of both\nada-has-a-long-token\r\n\n  {hash}  \n"));
        let path = file.as_str();
        let authorization = authorization(&format!("  - {{ token_file: {path}, namespaces: [api] }}\n"));
        for token in [ADA, token.as_bytes()] {
            assert!(authorization.caller(&[], Some(token)).unwrap().may(Verb::Check, "api").is_ok());
        }
        assert_eq!(authorization.caller(&[], Some(hash.as_bytes())).unwrap_err(), AuthenticationError::Token);
        fs::write(file.path(), &token).unwrap();
        authorization.watched().unwrap().look();
        assert_eq!(authorization.caller(&[], Some(ADA)).unwrap_err(), AuthenticationError::Token);
        assert!(authorization.caller(&[], Some(token.as_bytes())).is_ok());
        fs::write(file.path(), "short").unwrap();
        authorization.watched().unwrap().look();
        assert!(authorization.caller(&[], Some(token.as_bytes())).is_ok(), "a broken file changes nothing");
    }

    #[test]
    fn a_file_that_is_no_list_of_tokens_is_an_error_that_shows_none_of_it() {
        for (text, said) in [
            ("ada-has-a-long-token\nsecret-one", "line 2"),
            ("sha256:5ec2e7", "line 1"),
            ("secret with spaces in it", "line 1"),
            // Of `printf '' | sha256sum` and `echo | sha256sum`.
            ("sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "line 1 of"),
            (
                "# one\nsha256:E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
                "SHA-256 of nothing",
            ),
            ("sha256:01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b", "`tidegate token`"),
            ("# secret\n\n", "holds no token"),
        ] {
            let file = TemporaryFile::new(text);
            let grants = grants(&format!("  - {{ token_file: {}, namespaces: [api] }}\n", file.as_str()));
            let error = Authorization::new(&grants).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains("secret") && !error.contains("5ec"), "{error}");
        }
        let gone = Authorization::new(&grants("  - { token_file: /nowhere/at/all, namespaces: [api] }\n"));
        assert!(gone.unwrap_err().to_string().contains("/nowhere/at/all cannot be read"));
    }

    #[test]
    fn no_token_and_one_that_is_too_long_have_no_hash() {
        assert_eq!(shown_hash(b""), None);
        assert!(shown_hash(b"x").is_some() && shown_hash(&[b'x'; Grant::TOKEN_BYTES_MAX]).is_some());
        assert_eq!(shown_hash(&[b'x'; Grant::TOKEN_BYTES_MAX + 1]), None);
    }

    #[test]
    fn the_log_names_the_grant_that_permits_and_not_another_of_the_caller() {
        let authorization = authorization(
            "  - { name: reader, token: ada-has-a-long-token, namespaces: ['*'], verbs: [inspect] }
  - { name: writer, token: ada-has-a-long-token, namespaces: [api], verbs: [reset] }
",
        );
        let ada = authorization.caller(&[], Some(ADA)).unwrap();
        assert_eq!(ada.grant(Verb::Reset, "api"), Some("writer"));
        assert_eq!(ada.grant(Verb::Reset, "web"), None);
        assert_eq!(ada.grant_everywhere(Verb::Inspect), Some("reader"));
        assert_eq!(Caller::ANYONE.grant(Verb::Reset, "api"), None);
    }

    #[test]
    fn a_token_is_found_in_its_own_header_before_that_of_everybody() {
        let mut headers = HeaderMap::new();
        assert_eq!(token_in(&headers), None);
        for (value, token) in [
            ("Bearer abc", Some(&b"abc"[..])),
            ("bearer  abc ", Some(b"abc")),
            ("Basic abc", None),
            ("Bear", None),
        ] {
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            assert_eq!(token_in(&headers), token, "{value}");
        }
        headers.insert(TOKEN, "own".parse().unwrap());
        assert_eq!(token_in(&headers), Some(&b"own"[..]));
    }

    #[test]
    fn new_tokens_are_long_and_differ_and_nothing_shows_them() {
        let ((one, hash), (other, _)) = (new_token(), new_token());
        assert!(one != other && one.len() == 43 && one.bytes().all(|byte| byte.is_ascii_graphic()));
        let authorization = authorization(&format!("  - {{ token: '{hash}', namespaces: [api] }}\n"));
        let caller = authorization.caller(&[], Some(one.as_bytes())).unwrap();
        assert!(!format!("{authorization:?}{caller:?}").contains(&one));
        assert_eq!(hash_of(b"sha256:zz"), None);
        let signs = format!("sha256:{}", "+f".repeat(32));
        assert_eq!(hash_of(signs.as_bytes()), None, "a sign is no hexadecimal digit");
    }
}
