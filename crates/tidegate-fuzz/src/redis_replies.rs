//! Replies of Redis: a stream of RESP values, or behind an `A` the answer of the script.

use core::time::Duration;

use tidegate_core::{Algorithm, Cost, Rate};
use tidegate_store::{Batch, HolderId, Key, Kind, Operation, RequestId};
use tidegate_store_redis::{count_replies, read_script_answer};

use crate::Taken;

/// Bounds that inputs reach: bytes, values and depth of one reply.
const BOUNDS: [usize; 3] = [128, 20, 3];

/// The longest error in bytes.
const ERROR_BYTES_MAX: usize = 512;

/// Reads what a server sends.
///
/// However a stream is cut, the same replies are counted or the same bound is exceeded, and a
/// simple recursive reader counts as many; the answer of a script is as long as its batch, and a
/// shorter one is refused.
pub fn redis_replies(bytes: &[u8]) -> Taken {
    if let Some(answer) = bytes.strip_prefix(b"A") {
        return script_answer(answer);
    }
    let whole = count_replies([bytes], BOUNDS);
    let pieces = count_replies(bytes.chunks(1), BOUNDS);
    assert_eq!(whole.is_ok(), pieces.is_ok(), "{whole:?} in one piece, {pieces:?} byte by byte");
    for cut in 1..bytes.len().min(256) {
        let (first, second) = bytes.split_at(cut);
        let halves = count_replies([first, second], BOUNDS);
        assert_eq!(whole.is_ok(), halves.is_ok(), "{whole:?} in one piece, {halves:?} cut at {cut}");
    }
    match whole {
        Ok(replies) => {
            assert_eq!(pieces, Ok(replies));
            assert_eq!(replies, recount(bytes));
            Taken::Accepted
        }
        Err(error) => {
            assert!(error.len() <= ERROR_BYTES_MAX && !error.contains(char::is_control), "{error:?}");
            Taken::Refused
        }
    }
}

/// The replies in a stream that is within the bounds.
fn recount(mut bytes: &[u8]) -> u64 {
    let mut replies = 0;
    while let Some((length, is_reply)) = value(bytes).filter(|(length, _)| *length <= bytes.len()) {
        assert!(length <= BOUNDS[0] + 1, "a reply of {length} bytes");
        replies += u64::from(is_reply);
        bytes = &bytes[length..];
    }
    replies
}

/// The length of the first value, and whether it is no push.
fn value(bytes: &[u8]) -> Option<(usize, bool)> {
    let kind = *bytes.first()?;
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")? + 2;
    let number = || core::str::from_utf8(&bytes[1..line - 2]).ok()?.parse::<i64>().ok();
    let length = match kind {
        b'$' | b'=' | b'!' => line + usize::try_from(number()?).map_or(0, |length| length + 2),
        b'*' | b'~' | b'>' | b'%' | b'|' => {
            let count = usize::try_from(number()?).unwrap_or(0);
            let count = match kind {
                b'%' => 2 * count,
                b'|' => 2 * count + 1,
                _ => count,
            };
            (0..count).try_fold(line, |at, _| Some(at + value(bytes.get(at..)?)?.0))?
        }
        _ => line,
    };
    Some((length, kind != b'>'))
}

fn script_answer(bytes: &[u8]) -> Taken {
    let batch = batch();
    let count = batch.operations.len();
    match read_script_answer(bytes, batch.clone()) {
        Ok(answer) => {
            assert_eq!(answer.outcomes.len(), count);
            for outcome in &answer.outcomes {
                assert!(outcome.remaining <= outcome.limit, "{outcome:?}");
                assert!(!outcome.to_string().is_empty());
            }
            assert!(read_script_answer(&bytes[..9], batch).is_err(), "an answer that is cut off is read");
            Taken::Accepted
        }
        Err(error) => {
            let line = error.to_string();
            assert!(line.len() <= ERROR_BYTES_MAX && !line.contains(char::is_control), "{line:?}");
            Taken::Refused
        }
    }
}

/// A batch with an operation of each way to count.
fn batch() -> Batch {
    let second = Duration::from_secs(1);
    let key = |name: &[u8]| Key::new("api", name, b"ada").expect("a short key");
    let cost = Cost::ONE;
    let bucket = Algorithm::bucket(Rate::per_second(10).expect("a rate")).expect("a bucket");
    let rolling = tidegate_core::algorithm::Rolling::new(10, second).expect("a window");
    let concurrency = tidegate_core::algorithm::Concurrency::new(10, second).expect("a bound");
    Batch::all_or_nothing(
        RequestId(7),
        [
            Operation::new(key(b"bucket"), bucket, Kind::Check { cost }),
            Operation::new(key(b"rolling"), Algorithm::Rolling(rolling), Kind::Check { cost }),
            Operation::new(
                key(b"concurrency"),
                Algorithm::Concurrency(concurrency),
                Kind::Acquire { holder: HolderId(3) },
            ),
        ],
    )
}
