//! Checks where requests say more about themselves than their attributes.

use tidegate_core::Class;

use crate::grammar::{SourceScope, ValueSource};
use crate::path::Path;
use crate::policy::claims::{AccessSources, ClassSource, RequestClaims};
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::claims::{AccessForm, ClassConfig, ClassForm, RequestForm};
use crate::raw::name_map::NameMap;
use crate::suggestion::nearest;

/// The longest value of an attribute that a tenant is looked up by.
const TENANT_BYTES_MAX: usize = 1024;

/// The source; `None` after a problem has been reported.
pub(super) fn source(
    text: &str,
    scope: SourceScope,
    path: &Path,
    report: &mut Report<'_>,
) -> Option<ValueSource> {
    match ValueSource::parse(text, scope) {
        Ok(source) => Some(source),
        Err(error) => {
            report.value(path, error.what, error.fix);
            None
        }
    }
}

pub(super) fn class(
    raw: &ClassForm,
    scope: SourceScope,
    path: &Path,
    report: &mut Report<'_>,
) -> ClassSource {
    let from = raw.from.as_deref().and_then(|text| source(text, scope, &path.key("from"), report));
    let default = raw.default.map(class_of).unwrap_or_default();
    let is_forgeable = scope == SourceScope::Proxied && from.as_ref().is_some_and(ValueSource::is_of_client);
    let ceiling = match raw.ceiling.map(class_of) {
        Some(ceiling) => ceiling,
        None if is_forgeable => {
            report.effective(&path.key("ceiling"), default.as_str());
            default
        }
        None => Class::CriticalPlus,
    };
    if ceiling < default {
        let what = format!("the ceiling {ceiling} is below the default {default}");
        report.value(&path.key("ceiling"), what, "raise it, or lower the default");
    }
    ClassSource { from, default, ceiling }
}

pub(super) const fn class_of(raw: ClassConfig) -> Class {
    match raw {
        ClassConfig::CriticalPlus => Class::CriticalPlus,
        ClassConfig::Critical => Class::Critical,
        ClassConfig::SheddablePlus => Class::SheddablePlus,
        ClassConfig::Sheddable => Class::Sheddable,
    }
}

/// The access to one of the `tables` of `namespace`.
pub(super) fn access(
    raw: &AccessForm,
    scope: SourceScope,
    (namespace, tables): (&str, &[&str]),
    path: &Path,
    report: &mut Report<'_>,
) -> Option<AccessSources> {
    let table = source(&raw.table, scope, &path.key("table"), report);
    let key = source(&raw.key, scope, &path.key("key"), report);
    let kind = raw.kind.as_deref().map(|text| source(text, scope, &path.key("kind"), report));
    let size = raw.size.as_deref().map(|text| source(text, scope, &path.key("size"), report));
    if tables.is_empty() {
        let what = format!("namespace \"{}\" has no tables", shown(namespace));
        report.value(path, what, "add some under its `tables:`, or remove this");
    } else if let Some(ValueSource::Constant(name)) = &table
        && !tables.contains(&name.as_str())
    {
        let what = format!("table \"{}\" is not one of namespace \"{}\"", shown(name), shown(namespace));
        let fix = match nearest(name, tables.iter().copied()) {
            Some(near) => format!("did you mean {near}?"),
            None => "name one of its `tables:`".to_owned(),
        };
        report.value(&path.key("table"), what, fix);
    }
    let mut access = AccessSources::new(table?, key?);
    access.kind = kind.flatten();
    access.size = size.flatten();
    Some(access)
}

/// The claims of requests in a namespace with these tables.
pub(super) fn request(
    raw: Option<&RequestForm>,
    (namespace, tables): (&str, &[&str]),
    path: &Path,
    report: &mut Report<'_>,
) -> RequestClaims {
    let mut claims = RequestClaims::default();
    let Some(raw) = raw else { return claims };
    let scope = SourceScope::Described;
    for (key, text, claim) in [
        ("tenant", &raw.tenant, &mut claims.tenant),
        ("feature", &raw.feature, &mut claims.feature),
        ("deadline", &raw.deadline, &mut claims.deadline),
        ("attempt", &raw.attempt, &mut claims.attempt),
        ("ticket", &raw.ticket, &mut claims.ticket),
    ] {
        let parsed = text.as_deref().and_then(|text| source(text, scope, &path.key(key), report));
        *claim = parsed.unwrap_or_else(|| claim.clone());
    }
    if let Some(raw) = &raw.class {
        let otherwise = claims.class.from.take();
        claims.class = class(raw, scope, &path.key("class"), report);
        if let (None, Some(from)) = (&raw.from, &otherwise) {
            report.effective(&path.key("class").key("from"), from.to_string());
        }
        claims.class.from = claims.class.from.take().or(otherwise);
    }
    if let Some(raw) = &raw.access {
        claims.access = access(raw, scope, (namespace, tables), &path.key("access"), report);
    }
    let within = path.key("tenants");
    let tenants = raw.tenants.as_ref();
    let count = tenants.map_or(0, NameMap::len);
    if !report.check_count(&within, count, "tenants with a class", RequestClaims::TENANTS_MAX) {
        return claims;
    }
    for (tenant, class) in tenants.into_iter().flatten() {
        if tenant.is_empty() || tenant.len() > TENANT_BYTES_MAX {
            let what = format!("a tenant of {} bytes", tenant.len());
            report.key(&within.key(tenant), what, format!("use 1 to {TENANT_BYTES_MAX}"));
        }
        claims.tenants.insert(tenant.clone(), class_of(*class));
    }
    claims
}
