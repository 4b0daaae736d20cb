//! `TG.CHECK`, as a client of Redis would send it.

use core::num::NonZeroU64;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use tidegate_wire::answer::AccessUnits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::answer::CheckAnswer;
use super::connection::{ByteStream, connect};
use super::error::ClientError;
use crate::arguments::request::{CheckOptions, Daemon, Question};

/// The longest reply in bytes; a reply to TG.CHECK is far shorter.
const REPLY_BYTES_MAX: usize = 64 << 10;

/// The deepest nesting of replies.
const DEPTH_MAX: usize = 4;

pub(super) async fn check(
    daemon: &Daemon,
    question: &Question,
    options: &CheckOptions,
    token: Option<&str>,
) -> Result<CheckAnswer, ClientError> {
    // An attribute of this name would be read as the option, if the option were left out.
    let is_option = |(name, _): &(String, String)| name.eq_ignore_ascii_case("cost");
    let given = question.cost.map(NonZeroU64::get);
    let cost = match (options.peek, given.or(question.attributes.first().is_some_and(is_option).then_some(1)))
    {
        (false, cost) => cost.map(|cost| cost.to_string()),
        (true, None | Some(1)) => Some("0".to_owned()),
        (true, Some(_)) => {
            let why =
                format!("over {} a look is of cost 1; leave out --cost, or ask over http://", daemon.at);
            return Err(ClientError::Untaken(why));
        }
    };
    let mut stream = connect(daemon).await?;
    if let Some(token) = token {
        ask(&mut *stream, &["AUTH", token]).await?;
    }
    let mut command = vec!["TG.CHECK", question.namespace.as_str()];
    if let Some(cost) = &cost {
        command.extend(["COST", cost.as_str()]);
    }
    // A place is taken only by a request that says that it will release it.
    if options.resource.is_some() {
        command.push("RELEASE");
    }
    command.extend(question.attributes.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]));
    match ask(&mut *stream, &command).await? {
        Reply::Several(pairs) => said(pairs).ok_or_else(no_daemon),
        _ => Err(no_daemon()),
    }
}

/// Reads the names and values of an answer.
fn said(pairs: Vec<Reply>) -> Option<CheckAnswer> {
    let mut all = BTreeMap::new();
    let mut pairs = pairs.into_iter();
    while let (Some(Reply::Text(name)), Some(value)) = (pairs.next(), pairs.next()) {
        all.insert(name, value);
    }
    let mut text = |name: &str| match all.remove(name) {
        Some(Reply::Text(text)) => Some(text),
        _ => None,
    };
    let (decision, reason, limit, permit) =
        (text("decision")?, text("reason"), text("limit"), text("permit"));
    let (detail, feature, feature_level) = (text("detail"), text("feature"), text("feature_level"));
    let mut units = |name: &str| text(name)?.parse().ok();
    let access = units("units").zip(units("units_left")).map(|(units, left)| AccessUnits { units, left });
    let number = |name: &str| match all.get(name) {
        Some(Reply::Integer(number)) => u64::try_from(*number).ok(),
        _ => None,
    };
    matches!(decision.as_str(), "admit" | "refuse").then(|| CheckAnswer {
        retry_after_ms: number("retry_after_ms"),
        remaining: number("remaining"),
        decision,
        reason,
        limit,
        permit,
        detail,
        access,
        feature,
        feature_level,
        ..CheckAnswer::default()
    })
}

fn no_daemon() -> ClientError {
    ClientError::OtherProtocol("what answers there is no Tidegate".to_owned())
}

/// A reply of a server that speaks RESP.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Text(String),
    Integer(i64),
    Nothing,
    Error(String),
    Several(Vec<Reply>),
}

/// Sends a command; its reply, unless that is an error.
async fn ask(stream: &mut dyn ByteStream, command: &[&str]) -> Result<Reply, ClientError> {
    let silent = |error: std::io::Error| ClientError::silent(&error);
    let mut bytes = format!("*{}\r\n", command.len());
    for argument in command {
        let _ = write!(bytes, "${}\r\n{argument}\r\n", argument.len());
    }
    stream.write_all(bytes.as_bytes()).await.map_err(silent)?;
    stream.flush().await.map_err(silent)?;
    let mut buffer = Vec::new();
    loop {
        match read(&buffer, 0).map_err(|()| no_daemon())? {
            Some((Reply::Error(why), _)) => return Err(ClientError::Untaken(why)),
            Some((reply, _)) => return Ok(reply),
            None => {}
        }
        if buffer.len() > REPLY_BYTES_MAX {
            return Err(no_daemon());
        }
        if stream.read_buf(&mut buffer).await.map_err(silent)? == 0 {
            return Err(ClientError::Silent("it closed the connection without an answer".to_owned()));
        }
    }
}

/// The reply at the beginning of `bytes` and its length; `None` for an incomplete reply, an error
/// for bytes that are not RESP.
fn read(bytes: &[u8], depth: usize) -> Result<Option<(Reply, usize)>, ()> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let line = core::str::from_utf8(&bytes[..end]).map_err(|_| ())?;
    let (kind, text) = line.split_at_checked(1).ok_or(())?;
    let after = end + 2;
    match kind {
        "+" => Ok(Some((Reply::Text(text.to_owned()), after))),
        "-" => Ok(Some((Reply::Error(text.to_owned()), after))),
        ":" => Ok(Some((Reply::Integer(text.parse().map_err(|_| ())?), after))),
        "_" => Ok(Some((Reply::Nothing, after))),
        "$" | "*" if text == "-1" => Ok(Some((Reply::Nothing, after))),
        "$" => {
            let length: usize = text.parse().map_err(|_| ())?;
            if length > REPLY_BYTES_MAX {
                return Err(());
            }
            let Some(content) = bytes.get(after..after + length) else { return Ok(None) };
            let content = core::str::from_utf8(content).map_err(|_| ())?;
            Ok((bytes.len() >= after + length + 2)
                .then(|| (Reply::Text(content.to_owned()), after + length + 2)))
        }
        "*" => {
            let count: usize = text.parse().map_err(|_| ())?;
            if count > REPLY_BYTES_MAX || depth >= DEPTH_MAX {
                return Err(());
            }
            let (mut all, mut at) = (Vec::new(), after);
            for _ in 0..count {
                let Some((reply, length)) = read(&bytes[at..], depth + 1)? else { return Ok(None) };
                all.push(reply);
                at += length;
            }
            Ok(Some((Reply::Several(all), at)))
        }
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSAL: &[u8] =
        b"*8\r\n$8\r\ndecision\r\n$6\r\nrefuse\r\n$6\r\nreason\r\n$13\r\nrate_exceeded\r\n\
        $9\r\nremaining\r\n:0\r\n$14\r\nretry_after_ms\r\n:1200\r\n";

    #[test]
    fn a_reply_is_read_whole_or_not_at_all() {
        for cut in 0..REFUSAL.len() {
            assert_eq!(read(&REFUSAL[..cut], 0), Ok(None), "{cut} bytes");
        }
        let (reply, length) = read(REFUSAL, 0).unwrap().unwrap();
        assert_eq!(length, REFUSAL.len());
        let Reply::Several(pairs) = reply else { panic!("{reply:?}") };
        let said = said(pairs).unwrap();
        assert_eq!((said.decision.as_str(), said.retry_after_ms), ("refuse", Some(1200)));
    }

    #[test]
    fn what_is_no_reply_is_an_error_and_not_read_for_ever() {
        for bytes in [&b"HTTP/1.1 400\r\n"[..], b"$999999999999\r\n", b"*-2\r\n", b":x\r\n", b"\r\n"] {
            assert_eq!(read(bytes, 0), Err(()), "{}", bytes.escape_ascii());
        }
        assert_eq!(read(&b"*1\r\n".repeat(50), 0), Err(()), "it lies too deep");
    }
}
