//! The reference page of the configuration, from the raw types.

use core::fmt::{self, Write as _};

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use serde_json::Value;

use crate::raw::authorization::GrantConfig;
use crate::raw::claims::{AccessForm, ClassForm, RequestForm};
use crate::raw::envoy::{EnvoyHeadersConfig, EnvoyRatelimitConfig};
use crate::raw::limit::{
    CalendarConfig, ConcurrencyConfig, FixedConfig, KeyPartForm, LimitConfig, NumbersConfig, OnExceedConfig,
    RollingConfig,
};
use crate::raw::matcher::MatcherForm;
use crate::raw::planes::{
    NodeConfig, PartitionsForm, ProvisionedForm, QueueForm, ResourceConfig, TableConfig, WaitForm,
};
use crate::raw::proxy::{
    CostForm, HealthConfig, JwtConfig, ProxyConfig, RefusalForm, RouteConfig, RouteMatch, TimeoutsForm,
    UpstreamForm, UpstreamTlsForm,
};
use crate::raw::service::{
    AuthorizeConfig, BoundsConfig, DecisionsForm, HttpConfig, ListenConfig, ListenerForm, LogConfig,
    MemoryConfig, TlsForm,
};
use crate::raw::store::{StoreConfig, StoreTlsConfig};
use crate::raw::{Config, NamespaceConfig};
use crate::schema::{compiled, name_of};
use crate::shape::words_of;

/// The reference page in Markdown: every key with its type, its default and what it does.
pub fn reference() -> String {
    let mut page = String::new();
    // Writing to a string does not fail.
    let _ = write_page(&mut page);
    page
}

/// One section of the page: its heading, the definition it describes, and the keys in the order of
/// the type.
struct Section {
    heading: &'static str,
    definition: String,
    keys: Vec<String>,
}

impl Section {
    fn of<T: JsonSchema + for<'de> Deserialize<'de>>(heading: &'static str) -> Self {
        let keys = fields_of::<T>().iter().map(|key| (*key).to_owned()).collect();
        Self { heading, definition: name_of::<T>(), keys }
    }
}

fn sections() -> Vec<Section> {
    vec![
        Section::of::<Config>("The file"),
        Section::of::<ListenConfig>("listen"),
        Section::of::<ListenerForm>("listen.http, listen.admin, listen.proxy, listen.grpc, listen.resp"),
        Section::of::<TlsForm>(
            "listen.http.tls, listen.admin.tls, listen.proxy.tls, listen.grpc.tls, listen.resp.tls",
        ),
        Section::of::<StoreConfig>("store"),
        Section::of::<StoreTlsConfig>("store.tls"),
        Section::of::<MemoryConfig>("memory"),
        Section::of::<NamespaceConfig>("namespaces.NAME"),
        Section::of::<LimitConfig>("namespaces.NAME.limits[]"),
        Section::of::<KeyPartForm>("namespaces.NAME.limits[].key[]"),
        Section::of::<MatcherForm>("namespaces.NAME.limits[].match.ATTRIBUTE"),
        Section::of::<RollingConfig>("namespaces.NAME.limits[].rolling"),
        Section::of::<FixedConfig>("namespaces.NAME.limits[].fixed"),
        Section::of::<CalendarConfig>("namespaces.NAME.limits[].calendar"),
        Section::of::<ConcurrencyConfig>("namespaces.NAME.limits[].concurrency"),
        Section::of::<OnExceedConfig>("namespaces.NAME.limits[].on_exceed"),
        Section::of::<NumbersConfig>("namespaces.NAME.limits[].overrides[]"),
        Section::of::<TableConfig>("namespaces.NAME.tables[]"),
        Section::of::<ProvisionedForm>("namespaces.NAME.tables[].provisioned"),
        Section::of::<PartitionsForm>("namespaces.NAME.tables[].partitions"),
        Section::of::<RequestForm>("namespaces.NAME.request"),
        Section::of::<NodeConfig>("nodes[]"),
        Section::of::<ResourceConfig>("resources.NAME"),
        Section::of::<QueueForm>("resources.NAME.queue"),
        Section::of::<WaitForm>("resources.NAME.queue.wait"),
        Section::of::<GrantConfig>("authorization[]"),
        Section::of::<AuthorizeConfig>("authorize"),
        Section::of::<ProxyConfig>("proxy"),
        Section::of::<UpstreamForm>("proxy.upstreams.NAME"),
        Section::of::<UpstreamTlsForm>("proxy.upstreams.NAME.tls"),
        Section::of::<HealthConfig>("proxy.upstreams.NAME.health"),
        Section::of::<JwtConfig>("proxy.jwt"),
        Section::of::<RouteConfig>("proxy.routes[]"),
        Section::of::<RouteMatch>("proxy.routes[].match"),
        Section::of::<ClassForm>("proxy.routes[].class, namespaces.NAME.request.class"),
        Section::of::<AccessForm>("proxy.routes[].access, namespaces.NAME.request.access"),
        Section::of::<CostForm>("proxy.routes[].cost"),
        Section::of::<TimeoutsForm>("proxy.routes[].timeouts"),
        Section::of::<RefusalForm>("proxy.routes[].refusal"),
        Section::of::<EnvoyRatelimitConfig>("envoy_ratelimit"),
        Section::of::<EnvoyHeadersConfig>("envoy_ratelimit.headers"),
        Section::of::<HttpConfig>("http"),
        Section::of::<BoundsConfig>("http.bounds"),
        Section::of::<LogConfig>("log"),
        Section::of::<DecisionsForm>("log.decisions"),
    ]
}

fn write_page(page: &mut String) -> fmt::Result {
    page.push_str(
        "# Configuration\n\n\
         <!-- Generated from the types in crates/tidegate-policy by `TIDEGATE_BLESS=1 cargo test -p tidegate-policy`. -->\n\n",
    );
    let schema = compiled();
    for section in sections() {
        let definition = if section.definition == name_of::<Config>() {
            schema
        } else {
            &schema["$defs"][&section.definition]
        };
        if section.heading != "The file" {
            writeln!(page, "## `{}`\n", section.heading)?;
        }
        writeln!(page, "{}\n", text_of(definition))?;
        writeln!(page, "| key | value | default | |\n|---|---|---|---|")?;
        let required: Vec<&str> =
            definition["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for key in &section.keys {
            let property = &definition["properties"][key];
            let own = text_of(property);
            let text = if own.is_empty() { resolved(property).map(text_of).unwrap_or_default() } else { own };
            let (text, default) = split_default(&text);
            let default = match default {
                Some(default) => default,
                None if required.contains(&key.as_str()) => "required".to_owned(),
                None => String::new(),
            };
            writeln!(
                page,
                "| `{key}` | {} | {} | {}{} |",
                cell(&kind_of(property)),
                cell(&default),
                cell(&text),
                cell(&words_text(property))
            )?;
        }
        page.push('\n');
    }
    write!(
        page,
        "## An example\n\nWhat `tidegate serve` runs without a config:\n\n```yaml\n{}```\n",
        crate::Policy::example()
    )
}

fn text_of(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace("\n\n", " ")
}

/// Takes the sentence "Default: `x`." out of a description; the rest of that sentence belongs to
/// the default.
fn split_default(text: &str) -> (String, Option<String>) {
    let Some(start) = text.find("Default: ") else { return (text.to_owned(), None) };
    let after = &text[start + "Default: ".len()..];
    // A sentence ends with a full stop that does not stand between backticks.
    let mut code = false;
    let end = after.char_indices().find_map(|(at, c)| {
        code ^= c == '`';
        let ends = c == '.' && !code && after[at + 1..].chars().next().is_none_or(|next| next == ' ');
        ends.then_some(at)
    });
    let end = end.unwrap_or(after.len());
    let rest = format!("{} {}", text[..start].trim_end(), after[end..].trim_start_matches('.').trim_start());
    (rest.trim().to_owned(), Some(after[..end].to_owned()))
}

fn resolved(schema: &Value) -> Option<&'static Value> {
    compiled()["$defs"].get(schema["$ref"].as_str()?.strip_prefix("#/$defs/")?)
}

/// The accepted values, in a few words.
fn kind_of(schema: &Value) -> String {
    if let Some(definition) = resolved(schema) {
        return kind_of(definition);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let mut kinds: Vec<String> = choices.iter().map(kind_of).collect();
        kinds.dedup();
        return kinds.join(" or ");
    }
    if words_of(schema).next().is_some() {
        return words_of(schema).map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    match schema["type"].as_str() {
        Some("string") => "text".to_owned(),
        Some("integer") => "whole number".to_owned(),
        Some("boolean") => "`true`, `false`".to_owned(),
        Some("array") => {
            let of = kind_of(&schema["items"]);
            if of == "mapping" || of.contains(" or ") {
                format!("list of ({of})")
            } else {
                format!("list of {of}")
            }
        }
        Some("object") => "mapping".to_owned(),
        _ => String::new(),
    }
}

/// The meaning of each word, where the words have descriptions.
fn words_text(schema: &Value) -> String {
    let schema = resolved(schema).unwrap_or(schema);
    let schema =
        if schema["type"] == "array" { resolved(&schema["items"]).unwrap_or(schema) } else { schema };
    let described = schema["oneOf"].as_array().into_iter().flatten();
    described.filter_map(|one| Some((one["const"].as_str()?, one["description"].as_str()?))).fold(
        String::new(),
        |mut all, (word, text)| {
            let _ = write!(all, "<br>`{word}`: {text}");
            all
        },
    )
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// The names of the fields of a struct in the order in which it declares them, as serde knows them.
fn fields_of<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    let mut fields: &'static [&'static str] = &[];
    // The deserializer always fails: all that is wanted is what it was asked for.
    let _ = T::deserialize(Fields(&mut fields));
    fields
}

struct Fields<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("only structs have fields"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        Err(de::Error::custom("the fields are known now"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
