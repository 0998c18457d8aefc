//! A message larger than gRPC itself lets in.
//!
//! tonic refuses it with OutOfRange, which to etcd's clients means a revision that is compacted or yet to
//! come, so that a watch or a mirror would begin anew. etcd's own gRPC says ResourceExhausted.

use http::{HeaderMap, HeaderName, HeaderValue};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const OUT_OF_RANGE: &str = "11";
const RESOURCE_EXHAUSTED: &str = "8";
/// How tonic begins, as it stands in a header.
const TOO_LARGE: &str = "Error,%20decoded%20message%20length%20too%20large:";

/// Gives tonic's refusal of a large message the code and the text of grpc-go. Any other stays.
pub(crate) fn in_words_of_grpc_go(ending: &mut HeaderMap) {
    if ending.get(&STATUS).is_none_or(|status| status != OUT_OF_RANGE) {
        return;
    }
    let Some((found, limit)) = ending.get(&MESSAGE).and_then(|text| sizes(text.to_str().ok()?))
    else {
        return;
    };
    let text = format!("grpc: received message larger than max ({found} vs. {limit})");
    let Ok(text) = HeaderValue::try_from(text) else { return };
    ending.insert(STATUS, HeaderValue::from_static(RESOURCE_EXHAUSTED));
    ending.insert(MESSAGE, text);
}

/// How large the message was, and how large it may be.
fn sizes(text: &str) -> Option<(u64, u64)> {
    let told = text.strip_prefix(TOO_LARGE)?;
    let mut numbers = told.split("%20").filter_map(|word| word.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

#[cfg(test)]
mod tests {
    use tonic::Status;

    use super::*;

    fn told(status: Status) -> (String, String) {
        let mut headers = status.into_http::<()>().headers().clone();
        in_words_of_grpc_go(&mut headers);
        let word = |name| headers[name].to_str().unwrap().replace("%20", " ");
        (word(STATUS), word(MESSAGE))
    }

    #[test]
    fn only_what_is_too_large_is_said_in_other_words() {
        let large = "Error, decoded message length too large: found 7 bytes, the limit is: 5 bytes";
        let same = "grpc: received message larger than max (7 vs. 5)";
        assert_eq!(told(Status::out_of_range(large)), ("8".to_owned(), same.to_owned()));
        let compacted = "etcdserver: mvcc: required revision has been compacted";
        let as_it_was = ("11".to_owned(), compacted.to_owned());
        assert_eq!(told(Status::out_of_range(compacted)), as_it_was);
    }
}
