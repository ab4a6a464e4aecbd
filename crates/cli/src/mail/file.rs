//! `mail.toml`: webmail from a file, which `tamarisk serve` serves. `docs/CONFIG.md` has all its
//! keys, made of [`FILE`].

use std::path::{Path, PathBuf};

use tamarisk_arashi::RequestKind;
use tamarisk_arashi::store::Database;
use tamarisk_service::settings::{address, file, network};
use tamarisk_settings::table::{Form, Key, LawKind, Table, key};
use tamarisk_settings::values::{duration, list, not_one_of, number, text, yes};
use tamarisk_settings::{ConfigError, Document, Fault, Section, Value, laws};

use super::MailPlace;
use super::settings::{LISTEN, MailSettings, PAGE_SIZE, PYTHON, StatedTarget};

/// The file of webmail.
pub(crate) static FILE: Table = Table {
    heading: "mail.toml",
    summary: "The file of webmail, for `tamarisk serve`. The table `[mail]`, which may be empty, says that it is one. It is read at the start only.",
    groups: &[&[
        key(
            "listen",
            Form::Text("address and port"),
            "where clients are served; `\":8080\"` is on all interfaces",
        )
        .default("\"127.0.0.1:8080\""),
        key(
            "status",
            Form::Text("address and port"),
            "where the status page and the metrics are served",
        ),
        key("mail", Form::Table(&MAIL), "the webmail").required(),
    ]],
};

static MAIL: Table = Table {
    heading: "[mail]",
    summary: "Webmail, as `tamarisk mail` serves it: see [ARASHI.md](ARASHI.md).",
    groups: &[&[
        key("folder", Form::Text("path"), "folder for a SQLite database, relative to this file; the first start makes it, with a user and sample mail").default("\"mail\""),
        key("database", Form::Text("URL"), "database server in place of the folder: `postgres://…` or `mariadb://…`"),
        key("p90", Form::Time, "response-time target of all kinds of requests: nine of ten are answered within it").otherwise("`250ms`; `1s` for `log-in`, `search`, `digest`, `delete-folder` and `compose`"),
        key("targets", Form::Map("kind of requests", &Form::Time), "targets of single kinds"),
        key("page_size", Form::Whole(10, 100), "messages on a page of a list").default("20"),
        key("behind_tls", Form::Bool, "clients come over TLS, which a proxy in front ends: cookies are sent over TLS only, and, without `trusted_proxies`, the last address in `X-Forwarded-For` is the client's").default("false"),
        key("trusted_proxies", Form::List(&Form::Text("address or network")), "addresses of reverse proxies in front, whose `X-Forwarded-For` is trusted").default("[]"),
        key("class_header", Form::Text("header name"), "header whose value `gold` or `bronze` is the class of a request, in place of its account's; whoever can send it can choose"),
        ADMISSION,
        key("degradation", Form::Bool, "under overload, lists, searches and digests are degraded before requests are rejected").default("true"),
        key("single_stage", Form::Bool, "one stage for all kinds, with the target of lists: for comparison").default("false"),
        key("python", Form::Text("path"), "Python 3, which writes digests: the name of a program, or a path relative to this file").default("\"python3\""),
        key("digest_page", Form::Text("path"), "page in PyTeC that writes digests, relative to this file").otherwise("Arashi's own"),
    ]],
};

const ADMISSION: Key = LawKind::Admission.key();

/// Reads the file at `path`.
///
/// # Errors
/// [`ConfigError`]: the file cannot be read, or says something that cannot be.
pub(crate) fn load(path: &Path) -> Result<MailSettings, ConfigError> {
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    tamarisk_settings::load(path, |document| settings(document, folder))
}

/// Reads `text`, which errors call `name`; paths are relative to `folder`.
///
/// # Errors
/// [`ConfigError::Invalid`] if it says something that cannot be.
#[cfg(test)]
pub(crate) fn parse(name: &str, text: &str, folder: &Path) -> Result<MailSettings, ConfigError> {
    tamarisk_settings::parse(name, text, |document| settings(document, folder))
}

fn settings(document: &Document<'_>, folder: &Path) -> Result<MailSettings, Fault> {
    let (whole, mut mistakes) = Section::of_collecting(document, &FILE);
    let listen = mistakes.note(whole.read("listen", address));
    let status = mistakes.note(whole.read("status", address));
    let mail = whole.require("mail", "{}", |value| webmail(value, folder));
    let mail = mistakes.note(mail);
    mistakes
        .done(|| Some(MailSettings { listen: listen?.unwrap_or(LISTEN), status: status?, ..mail? }))
}

/// The table `mail`, whose paths are relative to `folder`.
fn webmail(value: &Value<'_>, folder: &Path) -> Result<MailSettings, Fault> {
    let (mail, mut mistakes) = Section::collecting(value, &MAIL)?;
    let place = mistakes.note(place(&mail, folder));
    let p90 = mistakes.note(targets(&mail));
    let page_size = mistakes.note(mail.read("page_size", page_size));
    let behind_tls = mistakes.note(mail.read("behind_tls", yes));
    let networks = |value| list(value, network);
    let trusted_proxy = mistakes.note(mail.read("trusted_proxies", networks));
    let class_header = mistakes.note(mail.read("class_header", text));
    let admission = |key: &str| (key == ADMISSION.name).then(|| mail.value(key)).flatten();
    let law = mistakes.note(laws::read(admission));
    let degradation = mistakes.note(mail.read("degradation", yes));
    let single_stage = mistakes.note(mail.read("single_stage", yes));
    let python = mistakes.note(mail.read("python", |value| program(value, folder)));
    let page = |value| file(value, "digest.pytec", folder);
    let digest_page = mistakes.note(mail.read("digest_page", page));
    mistakes.done(|| {
        Some(MailSettings {
            listen: LISTEN,
            status: None,
            place: place?,
            p90: p90?,
            page_size: page_size?.unwrap_or(PAGE_SIZE),
            behind_tls: behind_tls?.unwrap_or(false),
            trusted_proxy: trusted_proxy?.unwrap_or_default(),
            class_header: class_header?.map(ToOwned::to_owned),
            law: Some(law?),
            no_degradation: !degradation?.unwrap_or(true),
            single_stage: single_stage?.unwrap_or(false),
            python: python?.unwrap_or_else(|| PYTHON.into()),
            digest_page: digest_page?,
        })
    })
}

/// A program by its name, which is looked for in `PATH`, or by its path, relative to `folder`.
fn program(value: &Value<'_>, folder: &Path) -> Result<PathBuf, Fault> {
    let path = file(value, PYTHON, folder)?;
    let stated = text(value)?;
    Ok(if stated.contains('/') { path } else { stated.into() })
}

fn place(mail: &Section<'_>, folder: &Path) -> Result<MailPlace, Fault> {
    let database = mail.read("database", |value| {
        let url = text(value)?;
        let expected = "expected `postgres://…` or `mariadb://…`; for SQLite, set `folder`";
        let database = Database::at(url)
            .map_err(|error| Fault::new(value.span(), error.to_string(), expected))?;
        if database.is_embedded() {
            return Err(Fault::new(value.span(), "SQLite is not a server", expected));
        }
        if mail.value("folder").is_some() {
            let message = "both a folder and a database server";
            return Err(Fault::new(value.span(), message, "keep one of them"));
        }
        Ok(url.to_owned())
    })?;
    let stated = mail.read("folder", text)?;
    Ok(MailPlace { database, folder: folder.join(stated.unwrap_or("mail")) })
}

fn targets(mail: &Section<'_>) -> Result<Vec<StatedTarget>, Fault> {
    let of_all = mail.read("p90", duration)?.map(|time| StatedTarget { kind: None, time });
    let of_kinds = mail.read("targets", |value| {
        let names = RequestKind::ALL.map(RequestKind::name);
        let mut targets = Vec::new();
        for (name, value) in Section::tables(value)? {
            let kind = RequestKind::named(name.get_ref());
            let unknown = || not_one_of(name.span(), "kind of requests", name.get_ref(), &names);
            targets.push(StatedTarget {
                kind: Some(kind.ok_or_else(unknown)?),
                time: duration(value)?,
            });
        }
        Ok(targets)
    })?;
    Ok(of_all.into_iter().chain(of_kinds.unwrap_or_default()).collect())
}

fn page_size(value: &Value<'_>) -> Result<u32, Fault> {
    let expected = "a whole number from 10 to 100";
    let size = number(value, expected, 100)?;
    u32::try_from(size).ok().filter(|size| *size >= 10).ok_or_else(|| {
        Fault::new(value.span(), format!("{size} is out of range"), format!("expected {expected}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_is_looked_for_by_its_name_and_found_by_its_path() {
        let python = |line: &str| {
            let text = format!("[mail]\n{line}\n");
            parse("mail.toml", &text, Path::new("/etc/mail")).map(|settings| settings.python)
        };
        assert_eq!(python("").unwrap(), Path::new("python3"));
        assert_eq!(python("python = 'python3.12'").unwrap(), Path::new("python3.12"));
        assert_eq!(
            python("python = 'venv/bin/python'").unwrap(),
            Path::new("/etc/mail/venv/bin/python")
        );
        assert_eq!(python("python = '/opt/python'").unwrap(), Path::new("/opt/python"));
        assert!(python("python = ''").is_err());
    }
}
