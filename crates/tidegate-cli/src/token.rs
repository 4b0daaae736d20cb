//! `tidegate token`.

use std::io::{self, Write};

use tidegate_server::new_token;

use crate::arguments::request::Token;
use crate::exit::{Exit, ended};

pub(crate) fn run(arguments: &Token) -> Exit {
    ended(Exit::Done, write(arguments))
}

fn write(arguments: &Token) -> io::Result<()> {
    let (token, hash) = new_token();
    let mut out = io::stdout().lock();
    if arguments.json {
        return writeln!(out, "{}", serde_json::json!({ "token": token, "hash": hash }));
    }
    writeln!(
        out,
        "\
token  {token}
hash   {hash}

The token is for the caller, and is shown only now. Keep it in a file that only the caller can read:

  curl -H 'Authorization: Bearer ...' http://127.0.0.1:8080/v1/check -d '...'
  tidegate check --token-file FILE NAMESPACE user=ada        # or TIDEGATE_TOKEN in the environment

The hash is for the configuration of the daemon. Whoever reads it there cannot ask with it:

  authorization:
    - {{ token: '{hash}', namespaces: [NAMESPACE], verbs: [check] }}"
    )
}
